// Checkpoints broken on purpose, each in one way.
#include "checkpoint/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "checkpoint/deepseek_tensors.h"
#include "checkpoint/hashes.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/synth.h"
#include "tests/checkpoint/configs.h"
#include "tests/checkpoint/toy.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

// SHA-256 and git blob SHA-1 of "hello\n", as sha256sum and git hash-object say.
constexpr const char* kHelloSha256 =
    "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
constexpr const char* kHelloGit = "ce013625030ba8dba906f756967f9e9ca394464a";

// A whole checkpoint of three shards, to be broken.
class Verify : public testing::Test {
 protected:
  void SetUp() override {
    write_file(folder_ / "given.json", small_config().dump());
    SynthOptions o;
    o.config_path = folder_ / "given.json";
    o.out_folder = model();
    o.seed = 3;
    o.shards = 3;
    synthesise_checkpoint(o, 1);
  }
  std::string model() const { return folder_ / "model"; }
  std::string shard(int number) const {
    return "model-0000" + std::to_string(number) + "-of-000003.safetensors";
  }
  std::string path(const std::string& name) const { return model() + "/" + name; }

  VerifyReport verify(bool values = false) const {
    VerifyOptions o;
    o.folder = model();
    o.values = values;
    o.threads = 2;
    return verify_checkpoint(o);
  }
  VerifyReport verify_hashed(const std::string& sums = "", const std::string& resume = "") const {
    VerifyOptions o;
    o.folder = model();
    o.hashes = true;
    o.sums = sums;
    o.resume_file = resume;
    o.threads = 2;
    return verify_checkpoint(o);
  }

  TensorInfo place(const std::string& name) const {
    const Checkpoint checkpoint = Checkpoint::open(model());
    const TensorInfo* tensor = checkpoint.find(name);
    EXPECT_NE(tensor, nullptr) << name;
    return tensor == nullptr ? TensorInfo() : *tensor;
  }
  std::string file_of(const TensorInfo& tensor) const { return shard(tensor.shard + 1); }
  void overwrite(const std::string& name, uint64_t offset, const std::string& bytes) const {
    std::fstream file(path(name), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(offset));
    file << bytes;
    ASSERT_TRUE(file.good());
  }
  // Replaces text of the header by text of the same length, keeping all else.
  void replace_in(const std::string& name, const std::string& from, const std::string& to) const {
    std::string text = read_text(path(name));
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    write_file(path(name), text);
  }
  // Rewrites a shard with its tensors passed through `change`.
  template <typename Change>
  void rewrite(const std::string& name, const Change& change) const {
    const File file(path(name));
    std::vector<ToyTensor> tensors;
    for (const TensorInfo& tensor : read_safetensors_header(file).tensors) {
      std::string bytes(tensor.bytes, '\0');
      file.read_at(tensor.offset, std::as_writable_bytes(std::span(bytes)));
      tensors.push_back({tensor.name, std::string(dtype_name(tensor.dtype)), tensor.shape, bytes});
    }
    change(&tensors);
    write_file(path(name), safetensors_of(tensors));
  }
  void erase(const std::string& tensor) const {
    rewrite(file_of(place(tensor)), [&](std::vector<ToyTensor>* tensors) {
      std::erase_if(*tensors, [&](const ToyTensor& t) { return t.name == tensor; });
    });
    std::string index = read_text(path(kIndexName));
    const size_t at = index.find("\"" + tensor + "\"");
    ASSERT_NE(at, std::string::npos);
    size_t end = index.find(',', at);
    index.erase(at, end + 1 - at);
    write_file(path(kIndexName), index);
  }

  static std::vector<Finding> of(const VerifyReport& report, VerifyCheck check) {
    std::vector<Finding> found;
    for (const Finding& finding : report.findings) {
      if (finding.check == check) found.push_back(finding);
    }
    return found;
  }
  // The only finding of the report.
  static Finding only(const VerifyReport& report) {
    std::string all;
    for (const Finding& f : report.findings) {
      all += "\n" + std::string(check_name(f.check)) + " " + f.file + " " + f.tensor + ": " +
             f.problem;
    }
    EXPECT_EQ(report.findings.size(), 1u) << all;
    return report.findings.empty() ? Finding() : report.findings.front();
  }
  static CheckCount counted(const VerifyReport& report, VerifyCheck check) {
    for (const CheckCount& count : report.checks) {
      if (count.check == check) return count;
    }
    ADD_FAILURE() << check_name(check);
    return {};
  }
  static std::string floats(const std::vector<float>& values) {
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }

  TemporaryFolder folder_;
  const std::string expert_ = names::expert(2, 1, "up_proj");
};

TEST_F(Verify, AWholeOneIsGoodAndEveryCheckCounts) {
  const VerifyReport report = verify(true);
  EXPECT_TRUE(report.good());
  EXPECT_TRUE(report.to_download().empty());
  const Checkpoint checkpoint = Checkpoint::open(model());
  const size_t tensors = checkpoint.tensors().size();
  EXPECT_EQ(counted(report, VerifyCheck::files).checked, 3u);
  EXPECT_EQ(counted(report, VerifyCheck::headers).checked, 3u);
  for (const VerifyCheck check : {VerifyCheck::extents, VerifyCheck::overlaps, VerifyCheck::gaps,
                                  VerifyCheck::index, VerifyCheck::values}) {
    EXPECT_EQ(counted(report, check).checked, tensors) << check_name(check);
  }
  EXPECT_EQ(counted(report, VerifyCheck::experts).checked, 12u);  // 2 layers and MTP, 4 each
  const uint64_t scales = counted(report, VerifyCheck::scales).checked;
  EXPECT_EQ(counted(report, VerifyCheck::tensors).checked + scales, tensors);
  EXPECT_EQ(report.bytes_scanned, checkpoint.payload_bytes());
}

TEST_F(Verify, ATruncatedFile) {
  fs::resize_file(path(shard(2)), fs::file_size(path(shard(2))) - 10);
  const VerifyReport report = verify(true);
  const Finding finding = only(report);
  EXPECT_EQ(finding.check, VerifyCheck::extents);
  EXPECT_EQ(finding.file, shard(2));
  EXPECT_EQ(finding.offset, fs::file_size(path(shard(2))));
  EXPECT_FALSE(finding.tensor.empty());
  EXPECT_EQ(report.to_download(), std::vector<std::string>{shard(2)});
}

TEST_F(Verify, GoesOnAfterABadFile) {
  write_file(path(shard(1)), "<html>busy</html>");
  fs::resize_file(path(shard(2)), fs::file_size(path(shard(2))) - 10);
  fs::remove(path(shard(3)));
  const VerifyReport report = verify();
  ASSERT_EQ(report.findings.size(), 3u);
  EXPECT_EQ(of(report, VerifyCheck::files)[0].file, shard(3));
  EXPECT_EQ(of(report, VerifyCheck::headers)[0].file, shard(1));
  expect_contains(of(report, VerifyCheck::headers)[0].problem, {"HTML"});
  EXPECT_EQ(of(report, VerifyCheck::extents)[0].file, shard(2));
  EXPECT_EQ(report.to_download(), (std::vector<std::string>{shard(1), shard(2), shard(3)}));
}

TEST_F(Verify, BytesBehindTheLastTensor) {
  std::ofstream(path(shard(1)), std::ios::app | std::ios::binary) << "more";
  const Finding finding = only(verify());
  EXPECT_EQ(finding.check, VerifyCheck::extents);
  EXPECT_EQ(finding.offset, fs::file_size(path(shard(1))) - 4);
  expect_contains(finding.problem, {"4 bytes follow"});
}

// Two tensors of four bytes; the second one's place is given.
std::string two_tensors(const std::string& second, size_t payload) {
  return container(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                   R"("b":{"dtype":"U8","shape":[4],"data_offsets":)" +
                       second + "}}",
                   std::string(payload, 'x'));
}

TEST(VerifyToy, AGapAndAnOverlap) {
  const TemporaryFolder folder;
  write_file(folder / "config.json", R"({"architectures":["Toy"]})");
  VerifyOptions o;
  o.folder = folder / "";
  struct Case {
    const char* second;
    size_t payload;
    VerifyCheck check;
    uint64_t relative;
    const char* problem;
  };
  for (const Case& c : {Case{"[4,8]", 8, VerifyCheck::count, 0, ""},
                        Case{"[7,11]", 11, VerifyCheck::gaps, 4, "3 bytes"},
                        Case{"[2,6]", 6, VerifyCheck::overlaps, 2, "overlaps tensor 'a'"}}) {
    const std::string file = two_tensors(c.second, c.payload);
    write_file(folder / "model.safetensors", file);
    const VerifyReport report = verify_checkpoint(o);
    ASSERT_EQ(report.findings.size(), c.check == VerifyCheck::count ? 0u : 1u) << c.second;
    if (c.check == VerifyCheck::count) continue;
    EXPECT_EQ(report.findings[0].check, c.check);
    EXPECT_EQ(report.findings[0].tensor, "b");
    EXPECT_EQ(report.findings[0].offset, file.size() - c.payload + c.relative);
    expect_contains(report.findings[0].problem, {c.problem});
  }
}

TEST_F(Verify, AnIndexThatNamesAnAbsentTensor) {
  std::string index = read_text(path(kIndexName));
  index.insert(index.find('{', index.find("\"weight_map\"")) + 1,
               "\"model.ghost.weight\":\"" + shard(2) + "\",");
  write_file(path(kIndexName), index);
  const VerifyReport report = verify();
  const Finding finding = only(report);
  EXPECT_EQ(finding.check, VerifyCheck::index);
  EXPECT_EQ(finding.file, shard(2));
  EXPECT_EQ(finding.tensor, "model.ghost.weight");
  EXPECT_EQ(report.to_download(), (std::vector<std::string>{shard(2), kIndexName}));
}

TEST_F(Verify, ATensorThatTheIndexDoesNotList) {
  rewrite(shard(2), [](std::vector<ToyTensor>* tensors) { tensors->push_back(toy("extra", "x")); });
  const VerifyReport report = verify();
  EXPECT_EQ(only(report).check, VerifyCheck::index);
  EXPECT_EQ(only(report).tensor, "extra");
  bool noted = false;
  for (const std::string& note : report.notes) noted |= note.find("extra") != std::string::npos;
  EXPECT_TRUE(noted);
}

TEST_F(Verify, ATensorInAnotherFileThanTheIndexSays) {
  const TensorInfo norm = place("model.norm.weight");
  const std::string other = shard(norm.shard == 0 ? 2 : 1);
  const std::string before = "\"model.norm.weight\":\"" + file_of(norm) + "\"";
  std::string index = read_text(path(kIndexName));
  std::erase(index, ' ');
  ASSERT_NE(index.find(before), std::string::npos);
  index.replace(index.find(before), before.size(), "\"model.norm.weight\":\"" + other + "\"");
  write_file(path(kIndexName), index);
  const std::vector<Finding> found = of(verify(), VerifyCheck::index);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].file, file_of(norm));
  EXPECT_EQ(found[1].file, other);
}

TEST_F(Verify, WithoutAnIndexAMissingShardIsKnownByItsNumber) {
  fs::remove(path(kIndexName));
  EXPECT_TRUE(verify().good());
  fs::remove(path(shard(2)));
  const Finding finding = only(verify());
  EXPECT_EQ(finding.check, VerifyCheck::files);
  EXPECT_EQ(finding.file, shard(2));
}

TEST_F(Verify, AWrongShape) {
  const TensorInfo norm = place("model.norm.weight");
  replace_in(file_of(norm), R"("model.norm.weight":{"dtype":"BF16","shape":[20])",
             R"("model.norm.weight":{"dtype":"F16","shape":[4,5])");
  const Finding finding = only(verify());
  EXPECT_EQ(finding.check, VerifyCheck::shapes);
  EXPECT_EQ(finding.tensor, "model.norm.weight");
  EXPECT_EQ(finding.offset, norm.offset);
  expect_contains(finding.problem, {"[4,5]", "[20]"});
}

TEST_F(Verify, AMissingTensor) {
  erase("model.layers.0.self_attn.o_proj.weight");
  const VerifyReport report = verify();
  const Finding finding = only(report);
  EXPECT_EQ(finding.check, VerifyCheck::tensors);
  EXPECT_EQ(finding.tensor, "model.layers.0.self_attn.o_proj.weight");
}

TEST_F(Verify, AMissingScale) {
  erase("model.layers.0.self_attn.o_proj.weight_scale_inv");
  const Finding finding = only(verify());
  EXPECT_EQ(finding.check, VerifyCheck::scales);
  EXPECT_EQ(finding.tensor, "model.layers.0.self_attn.o_proj.weight");
  expect_contains(finding.problem, {"weight_scale_inv"});
}

TEST_F(Verify, AnIncompleteExpert) {
  erase(expert_);
  const VerifyReport report = verify();
  const std::vector<Finding> found = of(report, VerifyCheck::experts);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].tensor, "model.layers.2.mlp.experts.1");
  expect_contains(found[0].problem, {"up_proj.weight is missing"});
  EXPECT_EQ(of(report, VerifyCheck::tensors).size(), 1u);
}

TEST_F(Verify, AConfigThatCannotBeRead) {
  write_file(path("config.json"), "{");
  EXPECT_EQ(only(verify()).check, VerifyCheck::config);
}

TEST_F(Verify, AnFp8CodeThatIsNoNumber) {
  const TensorInfo weight = place(expert_);
  overwrite(file_of(weight), weight.offset + 7, "\xff");
  const Finding finding = only(verify(true));
  EXPECT_EQ(finding.check, VerifyCheck::values);
  EXPECT_EQ(finding.file, file_of(weight));
  EXPECT_EQ(finding.tensor, expert_);
  EXPECT_EQ(finding.offset, weight.offset + 7);
  EXPECT_TRUE(verify(false).good());  // values are looked at only when asked for
}

TEST_F(Verify, ScalesThatCannotBe) {
  const TensorInfo scale = place(expert_ + "_scale_inv");
  struct Case {
    float value;
    const char* problem;
  };
  for (const Case& c : {Case{0.0f, "is 0"}, Case{-1.0f, "is negative"},
                        Case{std::numeric_limits<float>::infinity(), "is not finite"},
                        Case{std::numeric_limits<float>::quiet_NaN(), "is not finite"}}) {
    overwrite(file_of(scale), scale.offset + 4, floats({c.value}));
    const Finding finding = only(verify(true));
    EXPECT_EQ(finding.tensor, scale.name);
    EXPECT_EQ(finding.offset, scale.offset + 4);
    expect_contains(finding.problem, {c.problem});
  }
}

TEST_F(Verify, InvertedScales) {
  const TensorInfo scale = place(expert_ + "_scale_inv");
  const Checkpoint checkpoint = Checkpoint::open(model());
  std::vector<float> values(scale.bytes / 4);
  checkpoint.read(scale, std::as_writable_bytes(std::span(values)));
  for (float& value : values) value = 1 / value;
  overwrite(file_of(scale), scale.offset, floats(values));
  const Finding finding = only(verify(true));
  EXPECT_EQ(finding.tensor, scale.name);
  EXPECT_EQ(finding.offset, scale.offset);
  expect_contains(finding.problem, {"inverted", "wrong way round"});
}

TEST_F(Verify, OneAbsurdScale) {
  const TensorInfo scale = place(expert_ + "_scale_inv");
  overwrite(file_of(scale), scale.offset + 8, floats({1e9f}));
  const Finding finding = only(verify(true));
  EXPECT_EQ(finding.offset, scale.offset + 8);
  expect_contains(finding.problem, {"1 of ", "absurd"});
}

TEST_F(Verify, ValuesThatAreNotFiniteOrNeverWritten) {
  const TensorInfo norm = place("model.norm.weight");
  overwrite(file_of(norm), norm.offset + 6, "\x80\x7f");
  EXPECT_EQ(only(verify(true)).offset, norm.offset + 6);
  overwrite(file_of(norm), norm.offset, std::string(norm.bytes, '\0'));
  expect_contains(only(verify(true)).problem, {"never written"});
  overwrite(file_of(norm), norm.offset, std::string(norm.bytes, '\x3f'));
  const TensorInfo weight = place(expert_);
  overwrite(file_of(weight), weight.offset, std::string(weight.bytes, '\0'));
  EXPECT_EQ(only(verify(true)).tensor, expert_);
}

TEST(VerifyHash, KnownContent) {
  const TemporaryFolder folder;
  write_file(folder / "f", "hello\n");
  uint64_t done = 0;
  const auto advance = [&done](uint64_t bytes) { done += bytes; };
  EXPECT_EQ(hash_file(File(folder / "f"), HashKind::sha256, advance), kHelloSha256);
  EXPECT_EQ(hash_file(File(folder / "f"), HashKind::git_blob_sha1, advance), kHelloGit);
  EXPECT_EQ(done, 12u);
  EXPECT_EQ(parse_content_hash(std::string("W/\"") + kHelloGit + "\"")->kind,
            HashKind::git_blob_sha1);
  EXPECT_FALSE(parse_content_hash("abc"));
  EXPECT_FALSE(parse_content_hash(std::string(64, 'g')));
}

// What a download by the hub's client looks like.
class VerifyDownload : public Verify {
 protected:
  void SetUp() override {
    Verify::SetUp();
    for (const int number : {1, 2, 3}) {
      write_metadata(shard(number), hash(shard(number), HashKind::sha256));
    }
    write_metadata("config.json", hash("config.json", HashKind::git_blob_sha1));
  }
  std::string hash(const std::string& name, HashKind kind) const {
    return hash_file(File(path(name)), kind, [](uint64_t) {});
  }
  void write_metadata(const std::string& name, const std::string& etag) const {
    fs::create_directories(path(".cache/huggingface/download"));
    write_file(path(".cache/huggingface/download/" + name + ".metadata"),
               "0123456789\n" + etag + "\n1737000000.5\n");
  }
  // The same size, another byte in the middle of a tensor.
  void flip(const std::string& name) const {
    const TensorInfo tensor = place(name);
    std::string byte(1, '\0');
    File(path(file_of(tensor))).read_at(tensor.offset, std::as_writable_bytes(std::span(byte)));
    byte[0] = static_cast<char>(byte[0] ^ 1);
    overwrite(file_of(tensor), tensor.offset, byte);
  }
  std::set<std::string> listing() const {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(model())) names.insert(entry.path());
    return names;
  }
};

TEST_F(VerifyDownload, ContentAgainstTheClientsEtags) {
  const std::set<std::string> before = listing();
  const VerifyReport good = verify_hashed();
  EXPECT_TRUE(good.good());
  EXPECT_EQ(counted(good, VerifyCheck::hashes).checked, 4u);
  EXPECT_EQ(listing(), before);

  flip(expert_);
  const std::string file = file_of(place(expert_));
  const VerifyReport report = verify_hashed();
  const Finding finding = only(report);
  EXPECT_EQ(finding.check, VerifyCheck::hashes);
  EXPECT_EQ(finding.file, file);
  expect_contains(finding.problem, {"SHA-256", hash(file, HashKind::sha256), ".metadata"});
  EXPECT_EQ(report.to_download(), std::vector<std::string>{file});
}

TEST_F(VerifyDownload, ASmallFileByItsBlobHash) {
  write_metadata("config.json", std::string(40, '1'));
  expect_contains(only(verify_hashed()).problem, {"git blob SHA-1"});
}

TEST_F(VerifyDownload, AListOfSums) {
  std::string list = "# made by sha256sum\n";
  for (const int number : {1, 2, 3}) {
    list += hash(shard(number), HashKind::sha256) + (number == 2 ? " *./" : "  ") + shard(number) +
            "\n";
  }
  write_file(folder_ / "sums", list);
  EXPECT_TRUE(verify_hashed(folder_ / "sums").good());
  write_file(folder_ / "sums", list + kHelloSha256 + "  absent.safetensors\n");
  EXPECT_EQ(only(verify_hashed(folder_ / "sums")).file, "absent.safetensors");
  write_file(folder_ / "sums", list + kHelloSha256 + "  ../given.json\n");
  expect_contains(error_of([&] { verify_hashed(folder_ / "sums"); }), {"sums:5", "../given.json"});
  write_file(folder_ / "sums", "hello\n");
  expect_contains(error_of([&] { verify_hashed(folder_ / "sums"); }), {"sums:1"});
}

TEST_F(VerifyDownload, WithoutAnyHashItIsAnError) {
  fs::remove_all(path(".cache"));
  expect_contains(error_of([&] { verify_hashed(); }), {"--sums"});
}

TEST_F(VerifyDownload, InTheHubsCacheTheBlobsNamesAreTheHashes) {
  const std::string repository = folder_ / "models--a--b";
  const std::string snapshot = repository + "/snapshots/abc";
  fs::create_directories(snapshot);
  fs::create_directories(repository + "/blobs");
  fs::create_directories(repository + "/refs");
  write_file(repository + "/refs/main", "abc");
  for (const std::string& name :
       {shard(1), shard(2), shard(3), std::string(kIndexName), std::string("config.json")}) {
    const std::string blob =
        hash(name, name.ends_with(".json") ? HashKind::git_blob_sha1 : HashKind::sha256);
    fs::copy_file(path(name), repository + "/blobs/" + blob);
    fs::create_symlink("../../blobs/" + blob, snapshot + "/" + name);
  }
  VerifyOptions o;
  o.folder = repository;
  o.hashes = true;
  const VerifyReport report = verify_checkpoint(o);
  EXPECT_TRUE(report.good());
  EXPECT_EQ(counted(report, VerifyCheck::hashes).checked, 5u);
}

TEST_F(VerifyDownload, ResumesWhereItStopped) {
  const std::string record = folder_ / "record";
  const VerifyReport first = verify_hashed("", record);
  EXPECT_EQ(first.hashes_resumed, 0u);
  EXPECT_GT(first.bytes_hashed, 0u);
  const VerifyReport second = verify_hashed("", record);
  EXPECT_TRUE(second.good());
  EXPECT_EQ(second.hashes_resumed, 4u);
  EXPECT_EQ(second.bytes_hashed, 0u);

  // Killed in the middle of a line: the lines before it count.
  std::string text = read_text(record);
  write_file(record, text.substr(0, text.size() - 9));
  const VerifyReport third = verify_hashed("", record);
  EXPECT_EQ(third.hashes_resumed, 3u);
  EXPECT_TRUE(third.good());

  // What changed since is hashed anew.
  flip(expert_);
  const std::string file = file_of(place(expert_));
  fs::last_write_time(path(file), fs::last_write_time(path(file)) + std::chrono::seconds(2));
  const VerifyReport fourth = verify_hashed("", record);
  EXPECT_EQ(fourth.hashes_resumed, 3u);
  EXPECT_EQ(only(fourth).file, file);
  // The wrong hash is remembered as what it is, and is as wrong the next time.
  const VerifyReport fifth = verify_hashed("", record);
  EXPECT_EQ(fifth.hashes_resumed, 4u);
  EXPECT_EQ(only(fifth).file, file);
}

TEST_F(VerifyDownload, ACancelledOneGoesOnFromItsRecord) {
  CancelToken cancel;
  cancel.cancel();
  VerifyOptions o;
  o.folder = model();
  o.hashes = true;
  o.resume_file = folder_ / "record";
  o.cancel = &cancel;
  error_of([&] { verify_checkpoint(o); }, ErrorKind::cancelled);
  EXPECT_TRUE(verify_hashed("", folder_ / "record").good());
}

TEST_F(VerifyDownload, TheRecordIsNeverWrittenIntoTheFolderNorOverOtherFiles) {
  const std::set<std::string> before = listing();
  fs::create_symlink(path("record"), folder_ / "link");
  fs::create_directory_symlink(model(), folder_ / "door");
  for (const std::string& inside :
       {path("record"), std::string(folder_ / "link"), std::string(folder_ / "door/record")}) {
    error_of([&] { verify_hashed("", inside); }, ErrorKind::usage);
  }
  EXPECT_EQ(listing(), before);
  expect_contains(error_of([&] { verify_hashed("", folder_ / "given.json"); }),
                  {"given.json", "name another file"});
  write_file(folder_ / "notes", "dear diary\n");
  error_of([&] { verify_hashed("", folder_ / "notes"); });
  EXPECT_EQ(read_text(folder_ / "notes"), "dear diary\n");
}

}  // namespace
}  // namespace fathom
