// Model folders that are not what they should be, and outputs that are no plain files.
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include "tests/cli/program.h"
#include "tests/paths.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

// A copy of the smallest checkpoint that a test may spoil.
class SpoiledModel {
 public:
  SpoiledModel() {
    for (const fs::directory_entry& entry : fs::directory_iterator(golden("r1-tiny"))) {
      fs::copy(entry.path(), folder_ / entry.path().filename().string());
    }
  }
  std::string path(const std::string& name) const { return folder_ / name; }
  void link_nowhere(const std::string& name) const {
    fs::remove(path(name));
    fs::create_symlink("../../blobs/gone", path(name));
  }
  void pipe(const std::string& name) const {
    fs::remove(path(name));
    ASSERT_EQ(mkfifo(path(name).c_str(), 0600), 0);
  }
  // Overwrites the last two bytes of element `place` of a tensor with ones of an infinity or NaN.
  void spoil(const std::string& tensor, uint64_t place, uint64_t size) const {
    const std::string index = file_text(path("model.safetensors.index.json"));
    const std::string name = nlohmann::json::parse(index)["weight_map"][tensor];
    const std::string bytes = file_text(path(name));
    uint64_t header = 0;
    std::memcpy(&header, bytes.data(), sizeof header);
    const auto entry = nlohmann::json::parse(bytes.substr(8, header))[tensor];
    std::fstream file(path(name), std::ios::binary | std::ios::in | std::ios::out);
    const uint64_t begin = entry["data_offsets"][0].get<uint64_t>();
    file.seekp(static_cast<std::streamoff>(8 + header + begin + (place + 1) * size - 2));
    file.write("\x80\x7f", 2);
  }
  Finished generate(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {"generate", "--model", folder_.path(), "--tokens", "0,5",
                                        "-n",       "2"};
    command.insert(command.end(), more.begin(), more.end());
    return run(command);
  }

 private:
  TemporaryFolder folder_;
};

void expect_failure(const Finished& finished, const std::vector<std::string>& parts) {
  EXPECT_EQ(finished.code, 1) << finished.err;
  EXPECT_EQ(finished.out, "");
  for (const std::string& part : parts) {
    EXPECT_NE(finished.err.find(part), std::string::npos) << part << "\n" << finished.err;
  }
}

TEST(CliBadFolder, LinksThatLeadNowhereAreNamed) {
  for (const char* name : {"config.json", "generation_config.json", "tokenizer.json",
                           "model-00002-of-000003.safetensors", "model.safetensors.index.json"}) {
    const SpoiledModel model;
    model.link_nowhere(name);
    expect_failure(model.generate(), {name, "../../blobs/gone"});
  }
}

TEST(CliBadFolder, PipesAreRefusedAndNotWaitedFor) {
  for (const char* name : {"config.json", "generation_config.json", "tokenizer.json",
                           "model-00002-of-000003.safetensors", "model.safetensors.index.json"}) {
    const SpoiledModel model;
    model.pipe(name);
    expect_failure(model.generate(), {name, "pipe"});
  }
}

TEST(CliBadFolder, ValuesThatAreNoNumbersAreNamed) {
  // The router's would otherwise change which experts are chosen, and nothing else.
  const std::vector<std::pair<std::string, uint64_t>> tensors = {
      {"model.layers.1.mlp.gate.weight", 2},
      {"model.layers.1.mlp.gate.e_score_correction_bias", 4},
      {"model.layers.2.mlp.experts.3.up_proj.weight_scale_inv", 4},
      {"model.embed_tokens.weight", 2},
      {"model.norm.weight", 2},
  };
  for (const auto& [tensor, size] : tensors) {
    const SpoiledModel model;
    model.spoil(tensor, 1, size);
    expect_failure(model.generate(), {"tensor " + tensor, "element 1 ", "not a finite number"});
  }
}

TEST(CliBadFolder, SamplingDefaultsOutOfRangeNameTheirFile) {
  const SpoiledModel model;
  std::ofstream(model.path("generation_config.json")) << R"({"temperature": 7})";
  expect_failure(model.generate(), {"generation_config.json", "temperature: 7"});
  EXPECT_EQ(model.generate({"--temp", "1"}).code, 0);
}

TEST(CliBadFolder, ABrokenTemplateNamesFileAndLine) {
  const SpoiledModel model;
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    fs::copy(test_paths::models() + "/random/" + name, model.path(name));
  }
  std::ofstream(model.path("chat_template.jinja")) << "a\n{% for m in messages %}";
  const Finished finished = run({"generate", "--model", model.path(""), "--chat", "hi"});
  expect_failure(finished, {"chat_template.jinja, line 2", "not closed"});
}

TEST(CliOutput, ADeviceStaysADeviceAndALinkALink) {
  const TemporaryFolder folder;
  const std::vector<std::string> command = {"logits",   "--model", golden("r1-tiny"),
                                            "--tokens", "0,1",     "--out"};
  const auto with = [&](const std::string& path) {
    std::vector<std::string> words = command;
    words.push_back(path);
    return run(words);
  };
  // A link, because a test that failed on /dev/null itself would take it away.
  fs::create_symlink("/dev/null", folder / "null");
  EXPECT_EQ(with(folder / "null").code, 0);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_TRUE(fs::is_symlink(folder / "null"));
  std::ofstream(folder / "target.npy") << "old";
  fs::create_symlink("target.npy", folder / "link.npy");
  EXPECT_EQ(with(folder / "link.npy").code, 0);
  EXPECT_TRUE(fs::is_symlink(folder / "link.npy"));
  EXPECT_GT(fs::file_size(folder / "target.npy"), 2u * 263 * 4);
}

TEST(CliOutput, AFileSizeLimitLeavesNothingBehind) {
  const TemporaryFolder folder;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1000;  // logits of two tokens take 2104 bytes
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Finished finished = run({"logits", "--model", golden("r1-tiny"), "--tokens", "0,1", "--out",
                                 folder / "a.npy", "--quiet"});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(finished.code, 1) << finished.err;
  EXPECT_NE(finished.err.find("a.npy"), std::string::npos) << finished.err;
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(CliOutput, TwoArraysNeedTwoFiles) {
  const TemporaryFolder folder;
  const Finished finished = run({"logits", "--model", golden("r1-tiny"), "--tokens", "0,1", "--out",
                                 folder / "a.npy", "--hidden", folder / "./a.npy"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_NE(finished.err.find("--out and --hidden"), std::string::npos) << finished.err;
  EXPECT_FALSE(fs::exists(folder / "a.npy"));
}

}  // namespace
}  // namespace fathom
