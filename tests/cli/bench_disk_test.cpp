#include <map>
#include <set>

#include "tests/cli/program.h"

namespace fathom {
namespace {

// Rates by mode and pattern.
std::map<std::string, std::map<std::string, double>> rates(const nlohmann::json& report) {
  std::map<std::string, std::map<std::string, double>> rates;
  for (const auto& result : report["results"]) {
    rates[result["mode"]][result["pattern"]] = result["bytes_per_second"];
  }
  return rates;
}

TEST(CliBenchDisk, MeasuresEveryPatternInEveryModeOfAModel) {
  const Finished finished =
      run({"bench", "disk", "--model", golden("r1-tiny"), "--seconds", "0.2", "--json"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  const nlohmann::json report = finished.json();
  auto by_mode = rates(report);
  EXPECT_EQ(by_mode["page cache"].size(), 2u);
  by_mode.erase("page cache");
  EXPECT_EQ(by_mode.size() + report["refused"].size(), 3u);
  EXPECT_EQ(by_mode.count("pread"), 1u);  // never refused
  for (const auto& [mode, patterns] : by_mode) {
    EXPECT_EQ(patterns.size(), 5u) << mode;
    for (const auto& [pattern, rate] : patterns) EXPECT_GT(rate, 0) << mode << pattern;
  }
  // Three FP8 matrices of 64 x 128 or so with their scales, read as one or several extents.
  EXPECT_GT(report["expert_bytes"], 1000);
  EXPECT_LT(report["expert_bytes"], 1000000);
  const std::string chosen = report["chosen"]["mode"];
  ASSERT_EQ(by_mode.count(chosen), 1u);
  EXPECT_EQ(report["chosen"]["bytes_per_second"], by_mode[chosen]["experts"]);
  EXPECT_EQ(report["chosen"]["pattern"], "experts");
}

TEST(CliBenchDisk, TakesAnyFile) {
  TemporaryFolder folder;
  std::ofstream(folder / "file") << std::string(3000001, 'x');
  const Finished finished = run({"bench", "disk", "--file", folder / "file", "--seconds", "0.2"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  for (const char* text : {"one stream", "the same bytes again", "4 streams", "scattered",
                           "experts will be read as: "}) {
    EXPECT_NE(finished.out.find(text), std::string::npos) << finished.out;
  }
}

TEST(CliBenchDisk, NamesWhatItCannotRead) {
  TemporaryFolder folder;
  std::ofstream(folder / "empty");
  EXPECT_EQ(run({"bench", "disk"}).code, 2);
  EXPECT_EQ(run({"bench", "disk", "--file", "a", "--model", "b"}).code, 2);
  for (const std::string& file : {folder / "missing", folder / "empty", folder.path()}) {
    const Finished finished = run({"bench", "disk", "--file", file});
    EXPECT_EQ(finished.code, 1);
    EXPECT_NE(finished.err.find(file), std::string::npos) << finished.err;
  }
}

}  // namespace
}  // namespace fathom
