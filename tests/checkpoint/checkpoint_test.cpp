#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/checkpoint/toy.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

std::string stored(const Checkpoint& checkpoint, const std::string& name) {
  const TensorInfo* tensor = checkpoint.find(name);
  if (tensor == nullptr) return "(none)";
  std::string bytes(tensor->bytes, '\0');
  checkpoint.read(*tensor, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

class CheckpointFolder : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ / name; }
  void put(const std::string& name, const std::vector<ToyTensor>& tensors) {
    write_file(at(name), safetensors_of(tensors));
  }
  void put_index(const std::vector<std::pair<std::string, std::string>>& files,
                 const std::string& metadata = "{}") {
    write_file(at("model.safetensors.index.json"), index_of(files, metadata));
  }
  Checkpoint open() const { return Checkpoint::open(folder_.path()); }
  std::string refusal() const {
    const std::string message = error_of([&] { open(); });
    expect_contains(message, {folder_.path()});
    return message;
  }

  TemporaryFolder folder_;
};

TEST_F(CheckpointFolder, OpensASingleFile) {
  put("model.safetensors", {toy("a", "AAA"), toy("b", "BBBBB")});
  const Checkpoint checkpoint = open();
  EXPECT_EQ(checkpoint.folder(), folder_.path());
  EXPECT_EQ(checkpoint.shards().size(), 1u);
  EXPECT_EQ(checkpoint.payload_bytes(), 8u);
  EXPECT_EQ(stored(checkpoint, "a"), "AAA");
  EXPECT_EQ(stored(checkpoint, "b"), "BBBBB");
  EXPECT_EQ(checkpoint.find("c"), nullptr);
}

TEST_F(CheckpointFolder, OpensShardsWithAndWithoutIndex) {
  put("m-00002-of-00002.safetensors", {toy("b", "BB")});
  put("m-00001-of-00002.safetensors", {toy("a", "A"), toy("c", "CCC")});
  for (const bool with_index : {false, true}) {
    if (with_index) {
      put_index({{"b", "m-00002-of-00002.safetensors"},
                 {"a", "m-00001-of-00002.safetensors"},
                 {"c", "m-00001-of-00002.safetensors"}});
    }
    Checkpoint moved = open();
    const Checkpoint checkpoint = std::move(moved);  // names stay valid
    ASSERT_EQ(checkpoint.shards().size(), 2u);
    EXPECT_EQ(checkpoint.shards()[0].name, "m-00001-of-00002.safetensors");
    EXPECT_EQ(checkpoint.shards()[1].name, "m-00002-of-00002.safetensors");
    EXPECT_EQ(checkpoint.tensors().size(), 3u);
    EXPECT_EQ(stored(checkpoint, "a"), "A");
    EXPECT_EQ(stored(checkpoint, "b"), "BB");
    EXPECT_EQ(stored(checkpoint, "c"), "CCC");
    EXPECT_EQ(checkpoint.find("b")->shard, 1);
  }
}

TEST_F(CheckpointFolder, LetsTheIndexDecideBetweenDuplicates) {
  put("s1.safetensors", {toy("a", "old"), toy("b", "B")});
  put("s2.safetensors", {toy("a", "new")});
  const std::string message = refusal();
  expect_contains(message, {"'a'", "s1.safetensors", "s2.safetensors"});

  put_index({{"a", "s2.safetensors"}, {"b", "s1.safetensors"}});
  EXPECT_EQ(stored(open(), "a"), "new");
  EXPECT_EQ(open().tensors().size(), 2u);
  put_index({{"a", "s1.safetensors"}, {"b", "s1.safetensors"}});
  EXPECT_EQ(stored(open(), "a"), "old");
}

TEST_F(CheckpointFolder, TakesTensorsThatTheIndexForgot) {
  put("s1.safetensors", {toy("a", "A"), toy("b", "B")});
  put_index({{"a", "s1.safetensors"}});
  EXPECT_EQ(stored(open(), "b"), "B");

  // In two files, no one can tell which it should be.
  put("s2.safetensors", {toy("b", "b"), toy("c", "C")});
  put_index({{"a", "s1.safetensors"}, {"c", "s2.safetensors"}});
  expect_contains(refusal(), {"'b'", "s1.safetensors", "s2.safetensors"});
}

TEST_F(CheckpointFolder, OpensOnlyWhatTheIndexNames) {
  put("model-00001-of-00002.safetensors", {toy("a", "A")});
  put("model-00002-of-00002.safetensors", {toy("b", "B")});
  put_index({{"a", "model-00001-of-00002.safetensors"}, {"b", "model-00002-of-00002.safetensors"}});
  write_file(at("old.safetensors"), "no safetensors file at all");
  fs::create_symlink("nowhere", at("adapter.safetensors"));
  EXPECT_EQ(open().tensors().size(), 2u);
  // Without the index it counts.
  fs::remove(at("model.safetensors.index.json"));
  fs::remove(at("adapter.safetensors"));
  expect_contains(refusal(), {"old.safetensors"});
}

TEST_F(CheckpointFolder, ListsEveryMissingFileAtOnce) {
  put("s1.safetensors", {toy("a", "A")});
  put_index({{"a", "s1.safetensors"},
             {"b", "s2.safetensors"},
             {"c", "s3.safetensors"},
             {"d", "s4.safetensors"}});
  fs::create_symlink("../blobs/0123", at("s4.safetensors"));
  const std::string message = refusal();
  expect_contains(message, {"s2.safetensors is missing", "s3.safetensors is missing",
                            "s4.safetensors is a link to ../blobs/0123, which does not exist"});
  EXPECT_EQ(message.find("s1.safetensors"), std::string::npos) << message;
}

TEST_F(CheckpointFolder, ListsEveryDamagedFileAtOnce) {
  put("s1.safetensors", {toy("a", "A")});
  write_file(at("s2.safetensors"), "");
  write_file(at("s3.safetensors"), "version https://git-lfs.github.com/spec/v1\n");
  expect_contains(refusal(),
                  {"s2.safetensors: the file is empty", "s3.safetensors: this is a Git"});
}

TEST_F(CheckpointFolder, ListsTensorsThatAreNotWhereTheIndexSays) {
  put("s1.safetensors", {toy("a", "A"), toy("b", "B")});
  put("s2.safetensors", {toy("c", "C")});
  put_index({{"a", "s1.safetensors"},
             {"b", "s2.safetensors"},
             {"d", "s2.safetensors"},
             {"c", "s2.safetensors"}});
  const std::string message = refusal();
  expect_contains(message, {"'b' is listed", "'d' is listed", "s2.safetensors does not hold it"});
  EXPECT_EQ(message.find("'c'"), std::string::npos) << message;

  std::vector<std::pair<std::string, std::string>> many;
  for (int i = 0; i < 500; ++i) many.push_back({"t" + std::to_string(i), "s1.safetensors"});
  put_index(many);
  expect_contains(refusal(), {"'t0' is listed", "500 tensors in all"});
}

TEST_F(CheckpointFolder, HintsAtASetThatAStaleIndexDoesNotName) {
  std::vector<std::pair<std::string, std::string>> stale;
  for (int i = 1; i <= 4; ++i) {
    stale.push_back(
        {"t" + std::to_string(i), "x-0000" + std::to_string(i) + "-of-00004.safetensors"});
  }
  put_index(stale);
  put("x-00001-of-00002.safetensors", {toy("t1", "1"), toy("t2", "2")});
  put("x-00002-of-00002.safetensors", {toy("t3", "3"), toy("t4", "4")});
  expect_contains(refusal(),
                  {"x-00001-of-00004.safetensors is missing", "x-00004-of-00004.safetensors is",
                   "another complete set", "x-00001-of-00002.safetensors", "(2 files)"});

  // An incomplete set is no hint.
  fs::rename(at("x-00002-of-00002.safetensors"), at("kept"));
  EXPECT_EQ(refusal().find("hint"), std::string::npos);

  // The index made anew from the headers.
  fs::rename(at("kept"), at("x-00002-of-00002.safetensors"));
  for (int i = 0; i < 4; ++i) {
    stale[static_cast<size_t>(i)].second =
        i < 2 ? "x-00001-of-00002.safetensors" : "x-00002-of-00002.safetensors";
  }
  put_index(stale);
  EXPECT_EQ(stored(open(), "t4"), "4");
}

TEST_F(CheckpointFolder, SeesByTheNamesThatASetIsIncomplete) {
  put("m-00001-of-00004.safetensors", {toy("a", "A")});
  put("m-00003-of-00004.safetensors", {toy("c", "C")});
  const std::string message = refusal();
  expect_contains(message, {"m-00002-of-00004.safetensors is missing",
                            "m-00004-of-00004.safetensors is missing"});
}

TEST_F(CheckpointFolder, TakesAnyTotalSize) {
  put("m.safetensors", {toy("a", std::string(100, 'a'))});
  for (const char* metadata :
       {R"({"total_size":100})", R"({"total_size":140})", R"({"total_size":0})",
        R"({"total_size":null})", R"({"total_size":"100"})", R"({"total_size":-1})",
        R"({"total_size":1e300})", R"({"total_size":[100]})", R"({"total_size":{"weight_map":1}})",
        "{}", "null", "7", "[]"}) {
    put_index({{"a", "m.safetensors"}}, metadata);
    EXPECT_EQ(open().payload_bytes(), 100u) << metadata;
  }
  write_file(at("model.safetensors.index.json"), R"({"weight_map":{"a":"m.safetensors"}})");
  EXPECT_EQ(open().payload_bytes(), 100u);
}

TEST_F(CheckpointFolder, RefusesIndexesThatAreNone) {
  put("m.safetensors", {toy("a", "A")});
  const auto refused = [&](const std::string& text, const std::vector<std::string>& parts) {
    write_file(at("model.safetensors.index.json"), text);
    const std::string message = refusal();
    expect_contains(message, {"model.safetensors.index.json"});
    expect_contains(message, parts);
  };
  refused("", {":1:1", "unexpected end of input"});
  refused("{\n\"weight_map\": {\"a\": ", {":2:21"});
  refused("{}", {"no 'weight_map'"});
  refused("[]", {"a list and not an object"});
  refused("3", {"a number and not an object"});
  refused(R"({"weight_map":null})", {"'weight_map' is null"});
  refused(R"({"weight_map":["a"]})", {"'weight_map' is a list"});
  refused(R"({"weight_map":{}})", {"'weight_map' is empty"});
  refused(R"({"weight_map":{"a":1}})", {"'a' is a number"});
  refused(R"({"weight_map":{"a":{"b":"m.safetensors"}}})", {"'a' is an object"});
  refused(R"({"weight_map":{"a":["m.safetensors"]}})", {"'a' is a list"});
  refused(R"({"weight_map":{"a":"m.safetensors","a":"m.safetensors"}})", {"listed twice"});
  refused(R"({"weight_map":{"a":"m.safetensors"},"weight_map":{}})", {"given twice"});
  refused(R"({"metadata":)" + std::string(100'000, '['), {"nested levels"});
}

TEST_F(CheckpointFolder, RefusesFileNamesThatLeadOutOfTheFolder) {
  put("m.safetensors", {toy("a", "A")});
  for (const std::string name : {"../m.safetensors", "/etc/passwd", "sub/m.safetensors", "..", ".",
                                 "", R"(..\\m.safetensors)", R"(m.safetensors\u0000.txt)"}) {
    put_index({{"a", name}});
    expect_contains(refusal(), {"tensor 'a'", "same folder"});
  }
}

TEST_F(CheckpointFolder, SaysWhatWasLookedFor) {
  expect_contains(refusal(), {"model.safetensors.index.json", "*.safetensors", "empty"});
  write_file(at("config.json"), "{}");
  expect_contains(refusal(), {"*.safetensors"});
  fs::create_directories(at(".cache/huggingface/download"));
  write_file(at(".cache/huggingface/download/m.incomplete"), "");
  expect_contains(refusal(), {"download into it has not finished"});
  write_file(at("pytorch_model.bin"), "");
  expect_contains(refusal(), {"pytorch_model.bin"});
  // Hidden files of other systems' archives are no shards.
  write_file(at("._model.safetensors"), "noise");
  expect_contains(refusal(), {"*.safetensors"});
}

TEST_F(CheckpointFolder, NamesFoldersThatAreNone) {
  const auto refused = [&](const std::string& path, const std::vector<std::string>& parts) {
    const std::string message = error_of([&] { Checkpoint::open(path); }, ErrorKind::io);
    expect_contains(message, {path});
    expect_contains(message, parts);
  };
  refused(at("nothing"), {"no such folder"});
  put("m.safetensors", {toy("a", "A")});
  refused(at("m.safetensors"), {"not a folder"});
  fs::create_symlink("gone", at("link"));
  refused(at("link"), {"link to gone"});
  // The index as a folder, a shard as a folder.
  fs::create_directories(at("d/model.safetensors.index.json"));
  refused(at("d"), {"it is a folder"});
}

TEST_F(CheckpointFolder, ReadsAnyAlignment) {
  for (size_t odd = 0; odd < 8; ++odd) {
    put("model.safetensors",
        {toy("pad", std::string(odd, 'p')), {"f", "F32", {2}, "\x01\x02\x03\x04wxyz"}});
    EXPECT_EQ(stored(open(), "f"), "\x01\x02\x03\x04wxyz");
  }
}

TEST_F(CheckpointFolder, OpensManyShards) {
  std::vector<std::pair<std::string, std::string>> files;
  for (int i = 0; i < 163; ++i) {
    const std::string name = "s" + std::to_string(1000 + i) + ".safetensors";
    put(name, {toy("t" + std::to_string(i), std::to_string(i))});
    files.push_back({"t" + std::to_string(i), name});
  }
  put_index(files);
  const Checkpoint checkpoint = open();
  EXPECT_EQ(checkpoint.shards().size(), 163u);
  EXPECT_EQ(stored(checkpoint, "t162"), "162");
}

// The layout of the hub's cache: blobs named by hash, and snapshots of relative links to them.
class HubCache : public testing::Test {
 protected:
  static constexpr const char* kRevision = "56d4cbbb4d29";

  void SetUp() override {
    fs::create_directories(model_ + "/blobs");
    fs::create_directories(model_ + "/refs");
    fs::create_directories(snapshot());
    write_file(model_ + "/refs/main", kRevision);
    blob("1a", safetensors_of({toy("a", "A")}), "m-00001-of-00002.safetensors");
    blob("2b", safetensors_of({toy("b", "B")}), "m-00002-of-00002.safetensors");
    blob("3c",
         index_of({{"a", "m-00001-of-00002.safetensors"}, {"b", "m-00002-of-00002.safetensors"}}),
         "model.safetensors.index.json");
  }
  std::string snapshot() const { return model_ + "/snapshots/" + kRevision; }
  void blob(const std::string& hash, const std::string& bytes, const std::string& name) {
    write_file(model_ + "/blobs/" + hash, bytes);
    fs::create_symlink("../../blobs/" + hash, snapshot() + "/" + name);
  }

  TemporaryFolder folder_;
  std::string model_ = folder_ / "cache dir \xc3\xa9/models--deepseek-ai--R1 \xe5\x90\x8d";
};

TEST_F(HubCache, OpensASnapshotThroughItsLinks) {
  for (const std::string& path : {snapshot(), snapshot() + "/", model_}) {
    const Checkpoint checkpoint = Checkpoint::open(path);
    EXPECT_EQ(stored(checkpoint, "a"), "A");
    EXPECT_EQ(stored(checkpoint, "b"), "B");
  }
  EXPECT_EQ(Checkpoint::open(model_).folder(), snapshot());
  EXPECT_EQ(resolve_model_folder(model_), snapshot());

  write_file(model_ + "/refs/main", std::string(kRevision) + "\n");
  EXPECT_EQ(resolve_model_folder(model_), snapshot());
  fs::remove(snapshot() + "/model.safetensors.index.json");
  EXPECT_EQ(Checkpoint::open(model_).tensors().size(), 2u);
}

TEST_F(HubCache, OpensFromAnotherWorkingFolder) {
  const fs::path before = fs::current_path();
  const std::string elsewhere = folder_ / "elsewhere";
  fs::create_directories(elsewhere);
  fs::current_path(elsewhere);
  const std::string relative = fs::relative(snapshot(), elsewhere).string();
  EXPECT_EQ(stored(Checkpoint::open(relative), "b"), "B");
  EXPECT_EQ(stored(Checkpoint::open(fs::relative(model_, elsewhere).string()), "a"), "A");
  fs::current_path(before);
  // A link to the folder itself.
  fs::create_directory_symlink(snapshot(), folder_ / "link");
  EXPECT_EQ(stored(Checkpoint::open(folder_ / "link"), "a"), "A");
}

TEST_F(HubCache, NamesDanglingLinksAndTheirTargets) {
  fs::remove(model_ + "/blobs/2b");
  for (const bool with_index : {true, false}) {
    if (!with_index) fs::remove(snapshot() + "/model.safetensors.index.json");
    expect_contains(
        error_of([&] { Checkpoint::open(model_); }),
        {snapshot(), "m-00002-of-00002.safetensors is a link to ../../blobs/2b", "does not exist"});
  }
  fs::remove(snapshot() + "/m-00002-of-00002.safetensors");
  fs::create_symlink("m-00002-of-00002.safetensors", snapshot() + "/m-00002-of-00002.safetensors");
  expect_contains(error_of([&] { Checkpoint::open(model_); }),
                  {"m-00002-of-00002.safetensors is a link to m-00002-of-00002.safetensors"});
}

TEST_F(HubCache, NamesADanglingIndex) {
  fs::remove(model_ + "/blobs/3c");
  expect_contains(error_of([&] { Checkpoint::open(model_); }),
                  {"model.safetensors.index.json is a link to ../../blobs/3c"});
}

TEST_F(HubCache, SaysWhatToPassWhereNoSnapshotIsPicked) {
  fs::create_directories(model_ + "/snapshots/second");
  fs::remove(model_ + "/refs/main");
  expect_contains(error_of([&] { resolve_model_folder(model_); }),
                  {model_, "refs/main", kRevision, "second"});
  for (const char* revision : {"gone", "", "..", "../other", "a/b"}) {
    write_file(model_ + "/refs/main", revision);
    expect_contains(error_of([&] { resolve_model_folder(model_); }), {"refs/main", revision});
  }
  fs::remove(model_ + "/refs/main");
  fs::remove_all(model_ + "/snapshots");
  fs::create_directories(model_ + "/snapshots");
  expect_contains(error_of([&] { resolve_model_folder(model_); }), {"without a snapshot"});
}

TEST_F(HubCache, OpensASnapshotWithoutLinks) {
  const std::string plain = folder_ / "plain";
  fs::copy(snapshot(), plain);  // follows links
  EXPECT_EQ(stored(Checkpoint::open(plain), "a"), "A");
}

}  // namespace
}  // namespace fathom
