#include "checkpoint/checkpoint.h"
#include "engine/forecast.h"
#include "fathom/model.h"
#include "tests/checkpoint/configs.h"
#include "tests/cli/program.h"

namespace fathom {
namespace {

std::vector<std::string> told(const std::string& folder, std::vector<std::string> more) {
  std::vector<std::string> line = {
      "plan", folder,  "--disk-bandwidth", "1.22G", "--memory-bandwidth", "40G", "--flops",
      "300G", "--json"};
  line.insert(line.end(), more.begin(), more.end());
  return line;
}

TEST(CliPlan, TheReleasedModelFromItsHeaders) {
  const TemporaryFolder folder;
  std::ofstream(folder / "config.json") << released_config();
  const std::string model = folder / "r1";
  const Finished synth = run({"synth", "--config", folder / "config.json", "--out", model,
                              "--skeleton", "--shards-csv", golden("r1-shards.csv")});
  ASSERT_EQ(synth.code, 0) << synth.err;
  const Finished finished = run(told(model, {"--ram", "25G", "--ctx", "4096"}));
  ASSERT_EQ(finished.code, 0) << finished.err;
  const nlohmann::json plan = finished.json();
  EXPECT_EQ(plan["payload_bytes"], 688'574'839'360);
  EXPECT_EQ(plan["resident_bytes"], 19'082'195'296);
  EXPECT_EQ(plan["streamed_per_token"], 20'439'638'016);
  EXPECT_EQ(plan["mtp_bytes"], 15'424'227'552);
  EXPECT_EQ(plan["kv_bytes_per_token"], 70'272);
  EXPECT_EQ(plan["experts"], 14'848);
  EXPECT_EQ(plan["split_experts"], 151);
  EXPECT_EQ(plan["expert_reads_per_token"], 464);
  EXPECT_NEAR(plan["macs_per_token"].get<double>(), 36.6e9, 0.05e9);
  EXPECT_EQ(plan["macs_per_cached_position"], 61 * 128 * 1'088);
  EXPECT_EQ(plan["kv"].back()["bytes"], uint64_t{163'840} * 70'272);
  EXPECT_EQ(plan["experts_place"], "disk");
  EXPECT_EQ(plan["whole_copy_fits"].is_boolean(), true);

  // Without any expert in memory a token takes 16.8 s at this rate.
  const double cached = plan["cached_share"];
  EXPECT_GT(cached, 0);
  EXPECT_LT(cached, 0.02);
  EXPECT_NEAR(plan["decode"]["disk_seconds"].get<double>(), 16.754 * (1 - cached), 0.01);
  EXPECT_EQ(plan["decode"]["binding"], "disk");
  EXPECT_NEAR(plan["decode"]["arithmetic_seconds"].get<double>(), 2 * 71.3e9 / 300e9, 0.01);
  EXPECT_GE(plan["decode"]["expected_seconds"], plan["decode"]["floor_seconds"]);
  // Nearly every expert of every layer takes part in a long prompt.
  EXPECT_GT(plan["prefill"].back()["distinct_experts"], 14'800);
  // What is smaller than the least that is needed does not fit, and that does.
  const uint64_t least = plan["least_memory"];
  for (const uint64_t step : {uint64_t{0}, uint64_t{1} << 20}) {
    const nlohmann::json at =
        run(told(model, {"--ram", std::to_string(least - step), "--ctx", "4096"})).json();
    EXPECT_EQ(at["fits"], step == 0);
  }
  const int64_t largest = plan["largest_context"];
  for (const int64_t more : {0, 1}) {
    const nlohmann::json at =
        run(told(model, {"--ram", "25G", "--ctx", std::to_string(largest + more)})).json();
    EXPECT_EQ(at["fits"], more == 0) << largest;
  }
}

// One truth: what a run takes is what the plan said.
void expect_divided_as_a_run_does(const std::string& folder, const std::vector<bool>& disks) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  const ModelConfig config = parse_model_config(file_text(folder + "/config.json"), "config.json");
  ForecastOptions asked;
  asked.context = 64;
  asked.threads = 2;
  asked.rates = {1e9, 1e9, 1e9};
  asked.ram = uint64_t{1} << 30;
  const uint64_t least = forecast_model(checkpoint, config, asked).least_memory;
  for (const bool disk : disks) {
    if (disk) asked.ram = least;
    const ModelForecast forecast = forecast_model(checkpoint, config, asked);
    ASSERT_TRUE(forecast.plan) << forecast.refused;
    LoadOptions load;
    load.folder = folder;
    load.context = 64;
    load.threads = 2;
    load.ram = asked.ram;
    const Model model = Model::load(load);
    EXPECT_EQ(model.info().experts_on_disk, disk);
    EXPECT_EQ(forecast.plan->experts, disk ? ExpertsPlace::disk : ExpertsPlace::memory);
    EXPECT_EQ(model.info().kv_bytes_per_token, forecast.kv_bytes_per_token);
    EXPECT_EQ(model.info().prefill_chunk, forecast.plan->prefill_chunk);
    const std::vector<MemoryShare>& shares = model.info().memory;
    ASSERT_EQ(shares.size(), forecast.plan->shares.size());
    for (size_t i = 0; i < shares.size(); ++i) {
      EXPECT_EQ(shares[i].name, forecast.plan->shares[i].name);
      EXPECT_EQ(shares[i].bytes, forecast.plan->shares[i].bytes) << shares[i].name;
    }
  }
}

TEST(CliPlan, DividesMemoryAsARunDoes) {
  expect_divided_as_a_run_does(golden("r1-tiny"), {false, true});
  expect_divided_as_a_run_does(golden("qwen2-tiny"), {false});
  expect_divided_as_a_run_does(golden("qwen2-tied"), {false});
}

TEST(CliPlan, ForecastsADenseModel) {
  const nlohmann::json plan =
      run(told(golden("qwen2-tiny"), {"--ram", "1G", "--ctx", "64"})).json();
  EXPECT_EQ(plan["experts"], 0);
  EXPECT_EQ(plan["experts_place"], "memory");
  // 3 layers of 2 heads' values and keys, 16 BF16 each; 8 heads attend to them.
  EXPECT_EQ(plan["kv_bytes_per_token"], 3 * 2 * 2 * 16 * 2);
  EXPECT_EQ(plan["macs_per_cached_position"], 3 * 8 * 2 * 16);
  EXPECT_EQ(plan["decode"]["disk_bytes"], 0);
  EXPECT_NE(plan["decode"]["binding"], "disk");
  EXPECT_FALSE(
      run(told(golden("qwen2-tiny"), {"--ram", "1M", "--ctx", "64"})).json()["fits"].get<bool>());
}

TEST(CliPlan, MeasuresTheMachineAndSpeaksToPeople) {
  const Finished finished = run({"plan", golden("r1-tiny"), "--ram", "1G", "--ctx", "64"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  for (const char* part : {"measured", "KV cache per token", "one token", "largest context"}) {
    EXPECT_NE(finished.out.find(part), std::string::npos) << finished.out;
  }
  EXPECT_EQ(run({"plan", golden("r1-tiny"), "--flops", "fast"}).code, 2);
  EXPECT_EQ(run({"plan", golden("r1-tiny"), "--ctx", "100000000"}).code, 2);
  EXPECT_EQ(run({"plan"}).code, 2);
}

}  // namespace
}  // namespace fathom
