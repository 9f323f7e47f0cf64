#include <algorithm>

#include "tests/cli/program.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

class CliVerify : public testing::Test {
 protected:
  void SetUp() override { fs::copy(golden("r1-tiny"), model(), fs::copy_options::recursive); }
  std::string model() const { return folder_ / "model"; }
  // The largest shard.
  std::string shard() const {
    std::string name;
    uintmax_t size = 0;
    for (const auto& entry : fs::directory_iterator(model())) {
      const std::string file = entry.path().filename();
      if (!file.ends_with(".safetensors") || entry.file_size() <= size) continue;
      size = entry.file_size();
      name = file;
    }
    return name;
  }
  TemporaryFolder folder_;
};

TEST_F(CliVerify, AGoodOneIsOk) {
  const Finished text = run({"verify", model(), "--values"});
  EXPECT_EQ(text.code, 0) << text.out << text.err;
  EXPECT_NE(text.out.find("nothing is wrong"), std::string::npos);
  for (const char* check : {"files", "headers", "extents", "overlaps", "gaps", "index", "config",
                            "tensors", "shapes", "scales", "experts", "values"}) {
    EXPECT_NE(text.out.find(check), std::string::npos) << check;
  }
  const nlohmann::json json = run({"verify", model(), "--json"}).json();
  EXPECT_EQ(json["good"], true);
  EXPECT_EQ(json["checks"].size(), 11u);
}

TEST_F(CliVerify, ABadOneFailsAndSaysWhatToDownload) {
  const std::string name = shard();
  fs::resize_file(model() + "/" + name, fs::file_size(model() + "/" + name) - 100);
  const Finished text = run({"verify", model()});
  EXPECT_EQ(text.code, 1);
  EXPECT_NE(text.out.find("extents: " + name + ": "), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("download again:\n  " + name + "\n"), std::string::npos) << text.out;
  const Finished finished = run({"verify", model(), "--json"});
  EXPECT_EQ(finished.code, 1);
  const nlohmann::json json = finished.json();
  EXPECT_EQ(json["good"], false);
  EXPECT_EQ(json["download_again"], nlohmann::json::array({name}));
  EXPECT_EQ(json["findings"][0]["check"], "extents");
  EXPECT_GT(json["findings"][0]["offset"], 0);
}

TEST_F(CliVerify, SumsAndResumption) {
  std::ofstream(folder_ / "sums") << std::string(64, '0') << "  " << shard() << "\n";
  const std::vector<std::string> line = {
      "verify", model(), "--sums", folder_ / "sums", "--resume-file", folder_ / "state", "--json"};
  for (const int resumed : {0, 1}) {
    const Finished finished = run(line);
    EXPECT_EQ(finished.code, 1);
    EXPECT_EQ(finished.json()["findings"][0]["check"], "hashes");
    EXPECT_EQ(finished.json()["hashes_resumed"], resumed);
  }
}

TEST_F(CliVerify, WrongUse) {
  EXPECT_EQ(run({"verify"}).code, 2);
  EXPECT_EQ(run({"verify", model(), "--resume-file", folder_ / "state"}).code, 2);
  const Finished inside =
      run({"verify", model(), "--hashes", "--sums", "x", "--resume-file", model() + "/state"});
  EXPECT_NE(inside.code, 0);
  EXPECT_FALSE(fs::exists(model() + "/state"));
  EXPECT_EQ(run({"verify", folder_ / "absent"}).code, 1);
}

}  // namespace
}  // namespace fathom
