// bench cache, over traces that are written here.
#include "experts/route_trace.h"
#include "tests/cli/program.h"

namespace fathom {
namespace {

// Two layers in a circle, always the same two of eight experts in each.
std::string trace_of_a_circle(const TemporaryFolder& folder, int tokens) {
  const std::string path = folder / "routes";
  RouteTraceWriter writer(path, {3, 8, 2});
  for (int t = 0; t < tokens; ++t) {
    for (int64_t layer = 1; layer <= 2; ++layer) {
      writer.begin(layer, 1);
      writer.row({std::vector<int32_t>{5, 2}, 0.25f, t == 3 ? 0.125f : 0.5f});
    }
  }
  writer.finish();
  return path;
}

TEST(CliBenchCache, TellsHitRatesByPolicyAndTheOptimum) {
  const TemporaryFolder folder;
  const std::string trace = trace_of_a_circle(folder, 10);
  const Finished finished = run({"bench", "cache", "--trace", trace, "--slots", "2,4", "--json"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  const nlohmann::json json = finished.json();
  EXPECT_EQ(json["visits"], 20);
  EXPECT_EQ(json["rows"], 20);
  EXPECT_EQ(json["asked"], 40);
  EXPECT_EQ(json["moe_layers"], 2);
  EXPECT_EQ(json["experts"], 16);
  EXPECT_EQ(json["closest_group_margin"], 0.25);
  EXPECT_EQ(json["closest_expert_margin"], 0.125);
  ASSERT_EQ(json["results"].size(), 2u);
  const nlohmann::json& two = json["results"][0];
  EXPECT_EQ(two["slots"], 2);
  EXPECT_EQ(two["share"], 0.125);
  EXPECT_EQ(two["hit_rate"]["lru"], 0.0);
  // One layer's pair can stay, and all but the first visit finds it.
  EXPECT_EQ(two["optimum"], 18.0 / 40);
  const nlohmann::json& four = json["results"][1];
  for (const char* policy : {"forecast", "lru", "lfu", "layers"}) {
    EXPECT_EQ(four["hit_rate"][policy], 36.0 / 40) << policy;
  }
  EXPECT_EQ(four["optimum"], 36.0 / 40);

  const Finished text = run({"bench", "cache", "--trace", trace});
  EXPECT_EQ(text.code, 0);
  for (const char* word : {"20 visits of 2 MoE layers", "forecast", "optimum", "50.0%"}) {
    EXPECT_NE(text.out.find(word), std::string::npos) << word << " is not in " << text.out;
  }
}

TEST(CliBenchCache, RefusesWhatIsNoTrace) {
  const TemporaryFolder folder;
  const std::string trace = trace_of_a_circle(folder, 2);
  std::ofstream(folder / "cut", std::ios::binary) << file_text(trace).substr(0, 50);
  for (const auto& [file, part] : std::vector<std::pair<std::string, std::string>>{
           {folder / "cut", "the file ends"},
           {golden("chat-cases.json"), "not a route trace"},
           {folder / "absent", "absent"}}) {
    const Finished finished = run({"bench", "cache", "--trace", file});
    EXPECT_EQ(finished.code, 1);
    EXPECT_NE(finished.err.find(part), std::string::npos) << finished.err;
  }
  EXPECT_EQ(run({"bench", "cache"}).code, 2);
  EXPECT_EQ(run({"bench", "cache", "--trace", trace, "--slots", "1"}).code, 2);
}

}  // namespace
}  // namespace fathom
