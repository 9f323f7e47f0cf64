#include "checkpoint/inspection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "checkpoint/deepseek_tensors.h"
#include "checkpoint/footprint.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/synth.h"
#include "checkpoint/synth_layout.h"
#include "tests/checkpoint/configs.h"
#include "tests/checkpoint/toy.h"
#include "tests/paths.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string golden(const std::string& name) { return test_paths::golden() + "/" + name; }

const Trap* trap_of(const Inspection& inspection, const std::string& id) {
  for (const Trap& trap : inspection.traps) {
    if (trap.id == id) return &trap;
  }
  return nullptr;
}

int64_t value_of(const Trap* trap, const std::string& name) {
  if (trap == nullptr) {
    ADD_FAILURE() << "no trap with " << name;
    return INT64_MIN;
  }
  for (const auto& [key, value] : trap->values) {
    if (key == name) return value;
  }
  ADD_FAILURE() << trap->id << " has no " << name;
  return INT64_MIN;
}

class Inspecting : public testing::Test {
 protected:
  // A random checkpoint of a small model in `out`.
  void make(const json& config = small_config(), int shards = 3) {
    write_file(folder_ / "given.json", config.dump());
    SynthOptions options;
    options.config_path = folder_ / "given.json";
    options.out_folder = out();
    options.shards = shards;
    synthesise_checkpoint(options, 1);
  }
  std::string out() const { return folder_ / "out"; }
  std::string in(const std::string& name) const { return out() + "/" + name; }
  Inspection look(const TokenizerFacts& tokenizer = {}) const {
    return inspect_checkpoint(out(), tokenizer);
  }
  void set_total_size(const json& value) {
    json index = json::parse(read_text(in(kIndexName)));
    index["metadata"]["total_size"] = value;
    write_file(in(kIndexName), index.dump());
  }

  TemporaryFolder folder_;
};

TEST(Inspection, AddsUpWhateverTheModel) {
  for (const char* name : {"r1-tiny", "r1-yarn-short", "r1-no-qlora-linear"}) {
    const Inspection inspection = inspect_checkpoint(golden(name), {});
    EXPECT_TRUE(inspection.problems.empty()) << name << ": " << inspection.problems.front();
    const Checkpoint checkpoint = Checkpoint::open(golden(name));
    const Accounting& accounting = inspection.accounting;
    EXPECT_EQ(accounting.total().bytes, checkpoint.payload_bytes()) << name;
    EXPECT_EQ(accounting.total().tensors, checkpoint.tensors().size());

    // By what the loader counts.
    ASSERT_TRUE(inspection.config.model.has_value());
    const Footprint footprint = footprint_of(checkpoint, *inspection.config.model);
    EXPECT_EQ(accounting.total_without_mtp().bytes, footprint.total(false)) << name;
    EXPECT_EQ(accounting.total().bytes, footprint.total(true)) << name;
    EXPECT_EQ(accounting.of(Part::routed_experts).bytes, footprint.of(Part::routed_experts, true));
    EXPECT_EQ(accounting.of(Part::attention).bytes, footprint.of(Part::attention, true));
    EXPECT_EQ(accounting.of(Part::norms).bytes, footprint.of(Part::norms, true));
    EXPECT_EQ(accounting.of(Part::router).bytes, footprint.of(Part::router, true));

    uint64_t by_dtype = 0, by_family = 0, by_shard = 0, by_layer = 0;
    for (const DtypeRow& row : inspection.dtypes) by_dtype += row.bytes;
    for (const FamilyRow& row : inspection.families) by_family += row.bytes;
    for (const ScannedShard& shard : inspection.scan.shards) by_shard += shard.payload_bytes;
    for (const LayerRow& row : accounting.layers) by_layer += row.sum.bytes;
    EXPECT_EQ(by_dtype, checkpoint.payload_bytes());
    EXPECT_EQ(by_family, checkpoint.payload_bytes());
    EXPECT_EQ(by_shard, checkpoint.payload_bytes());
    EXPECT_EQ(by_layer + accounting.of(Group::globals).bytes, checkpoint.payload_bytes());
    EXPECT_EQ(inspection.tree.bytes, checkpoint.payload_bytes());
  }
}

TEST_F(Inspecting, TheReleasedCheckpoint) {
  write_file(folder_ / "given.json", released_config().dump());
  SynthOptions options;
  options.config_path = folder_ / "given.json";
  options.out_folder = out();
  options.skeleton = true;
  options.shard_table = golden("r1-shards.csv");
  synthesise_checkpoint(options, 1);
  set_total_size(1'369'062'772'000);
  const Inspection inspection = look();
  EXPECT_TRUE(inspection.problems.empty());
  EXPECT_EQ(inspection.scan.tensors.size(), 91'991u);
  EXPECT_EQ(inspection.scan.payload_bytes(), 688'574'839'360u);
  EXPECT_EQ(inspection.stack, "model.layers.");

  const Accounting& accounting = inspection.accounting;
  EXPECT_EQ(accounting.total().bytes, 688'574'839'360u);
  EXPECT_EQ(accounting.total_without_mtp().bytes, 673'150'611'808u);
  EXPECT_EQ(accounting.of(Group::mtp_layers).bytes, 15'424'227'552u);
  EXPECT_EQ(accounting.of(Group::globals).bytes, 3'706'730'496u);
  EXPECT_EQ(accounting.of(Group::dense_layers).bytes, 3 * 583'642'336u);
  EXPECT_EQ(accounting.total_without_mtp().parameters, 671'026'419'200u);
  EXPECT_EQ(inspection.activated, 37'552'297'472u);
  ASSERT_EQ(accounting.layers.size(), 62u);
  for (const LayerRow& row : accounting.layers) {
    if (row.group != Group::moe_layers) continue;
    EXPECT_EQ(row.sum.bytes, 11'511'947'488u) << row.layer;
    EXPECT_EQ(row.sum.bytes - row.routed_bytes, 234'905'824u) << row.layer;
    EXPECT_GE(row.shards.size(), 3u);
    EXPECT_LE(row.shards.size(), 4u);
  }
  EXPECT_EQ(accounting.shards[159].globals,
            (std::vector<std::string>{"model.norm.weight", "lm_head.weight"}));
  EXPECT_EQ(accounting.layers[31].shards,
            (std::vector<std::pair<int, size_t>>{{78, 573}, {79, 586}, {80, 399}}));

  ASSERT_EQ(inspection.dtypes.size(), 3u);
  EXPECT_EQ(inspection.dtypes[0].dtype, Dtype::f8_e4m3);
  EXPECT_EQ(inspection.dtypes[0].tensors, 45'808u);
  EXPECT_EQ(inspection.dtypes[0].bytes, 680'571'043'840u);
  EXPECT_EQ(inspection.dtypes[1].tensors, 316u);
  EXPECT_EQ(inspection.dtypes[2].tensors, 45'867u);
  EXPECT_EQ(inspection.families[0].tensors, 15'104u);

  EXPECT_EQ(inspection.tree.part, Part::routed_experts);
  ASSERT_EQ(inspection.tree.children.size(), 2u);
  EXPECT_EQ(inspection.tree.children[1].name, "lm_head");
  EXPECT_EQ(inspection.tree.children[1].part, Part::head);

  const ExpertPlaces& experts = inspection.experts;
  EXPECT_EQ(experts.experts, 15'104u);
  EXPECT_EQ(experts.straddlers.size(), 153u);
  EXPECT_EQ(experts.contiguous, 15'104u - 153u);
  EXPECT_EQ(experts.scattered, 0u);
  EXPECT_EQ(experts.layers_in_order, 59u);
  EXPECT_EQ(experts.least_bytes, 44'050'944u);
  EXPECT_EQ(experts.most_bytes, 44'050'944u);
  ASSERT_EQ(experts.orders.size(), 1u);
  EXPECT_EQ(experts.orders[0].tensors[2], "up_proj.weight");
  const auto known =
      std::find_if(experts.straddlers.begin(), experts.straddlers.end(),
                   [](const Straddler& s) { return s.layer == 31 && s.expert == 92; });
  ASSERT_NE(known, experts.straddlers.end());
  ASSERT_EQ(known->pieces.size(), 2u);
  EXPECT_EQ(known->pieces[0].shard, 78);
  EXPECT_EQ(known->pieces[0].tensors, std::vector<std::string>{"gate_proj.weight"});
  EXPECT_EQ(known->pieces[1].shard, 79);

  EXPECT_EQ(layer_manifest(inspection, 61).size(), 1'564u);
  EXPECT_EQ(layer_manifest(inspection, 0).size(), 20u);
  EXPECT_TRUE(layer_manifest(inspection, 62).empty());

  const Trap* size = trap_of(inspection, "index-total-size");
  EXPECT_EQ(value_of(size, "difference"), 1'369'062'772'000 - 688'574'839'360);
  expect_contains(size->detail, {"as if all were BF16"});
  EXPECT_EQ(value_of(trap_of(inspection, "head-place"), "shard"), 160);
  EXPECT_EQ(value_of(trap_of(inspection, "padded-scales"), "tensors"), 62);
  expect_contains(trap_of(inspection, "padded-scales")->detail, {"covers 64 rows", "[5,56]"});
  EXPECT_EQ(value_of(trap_of(inspection, "mtp"), "copies"), 2);
  EXPECT_EQ(value_of(trap_of(inspection, "alignment"), "aligned"), 39);
  EXPECT_FALSE(trap_of(inspection, "router-bias")->harmful);
  EXPECT_EQ(value_of(trap_of(inspection, "router-bias"), "biases"), 59);
}

TEST_F(Inspecting, ATotalSizeIsExplainedWhereItCanBe) {
  make();
  const Inspection before = look();
  EXPECT_EQ(trap_of(before, "index-total-size"), nullptr);
  const Sum sum = before.accounting.total();
  const auto cause = [&](const json& claimed) {
    set_total_size(claimed);
    const Inspection inspection = look();
    const Trap* trap = trap_of(inspection, "index-total-size");
    return trap == nullptr ? "none" : trap->detail;
  };
  expect_contains(cause(before.scan.file_bytes()), {"headers included"});
  expect_contains(cause(2 * sum.parameters), {"before quantisation"});
  expect_contains(cause(0), {"did not fill it in"});
  expect_contains(cause(sum.bytes - sum.scale_bytes), {"without scales"});
  expect_contains(cause(before.accounting.total_without_mtp().bytes), {"without the MTP"});
  expect_contains(cause(sum.bytes + 1), {"1 bytes too many", "no known way"});
  expect_contains(cause(sum.bytes - 1), {"1 bytes too few"});
  EXPECT_EQ(cause(nullptr), "none");
  EXPECT_EQ(cause("100"), "none");
}

TEST_F(Inspecting, ARoundedRouterBiasIsATrap) {
  make(small_config(), 1);
  const std::string path = in("model-00001-of-000001.safetensors");
  std::vector<TensorInfo> layout =
      released_layout(parse_deepseek_config(small_config().dump(), "config.json"));
  for (TensorInfo& tensor : layout) {
    if (tensor.name != "model.layers.2.mlp.gate.e_score_correction_bias") continue;
    tensor.dtype = Dtype::bf16;
    tensor.bytes /= 2;
  }
  write_file(path, zeros_of(layout));
  const Inspection inspection = look();
  const Trap* trap = trap_of(inspection, "router-bias");
  EXPECT_EQ(value_of(trap, "not_f32"), 1);
  EXPECT_TRUE(trap->harmful);
  expect_contains(trap->detail, {"model.layers.2.mlp.gate.e_score_correction_bias", "1 BF16"});
}

TEST_F(Inspecting, AMissingScaleIsATrapAndAProblem) {
  make(small_config(), 1);
  std::vector<TensorInfo> layout =
      released_layout(parse_deepseek_config(small_config().dump(), "config.json"));
  const std::string lost = "model.layers.0.mlp.up_proj.weight_scale_inv";
  std::erase_if(layout, [&](const TensorInfo& tensor) { return tensor.name == lost; });
  write_file(in("model-00001-of-000001.safetensors"), zeros_of(layout));
  const Inspection inspection = look();
  EXPECT_EQ(value_of(trap_of(inspection, "missing-scales"), "weights"), 1);
  expect_contains(join(inspection.problems, "\n"), {"no scale", lost, "not held by their files"});
}

TEST_F(Inspecting, RowsWithoutATokenAreCounted) {
  make();
  TokenizerFacts tokenizer;
  tokenizer.present = true;
  tokenizer.size = 30;
  EXPECT_EQ(trap_of(look(tokenizer), "unused-vocabulary"), nullptr);
  tokenizer.size = 23;
  const Inspection fewer = look(tokenizer);
  EXPECT_EQ(value_of(trap_of(fewer, "unused-vocabulary"), "unused"), 7);
  EXPECT_FALSE(trap_of(fewer, "unused-vocabulary")->harmful);
  tokenizer.size = 31;
  const Inspection more = look(tokenizer);
  EXPECT_EQ(value_of(trap_of(more, "unused-vocabulary"), "unused"), -1);
  EXPECT_TRUE(trap_of(more, "unused-vocabulary")->harmful);
}

TEST_F(Inspecting, MtpIsToldFromTheDecoder) {
  make();
  const Inspection with = look();
  const Trap* trap = trap_of(with, "mtp");
  EXPECT_EQ(value_of(trap, "copies"), 2);
  EXPECT_EQ(value_of(trap, "copied_bytes"), 2 * 30 * 20 * 2);
  EXPECT_EQ(value_of(trap, "bytes") + value_of(trap, "bytes_without"),
            static_cast<int64_t>(with.scan.payload_bytes()));
  // A config that does not know of it.
  json config = small_config();
  config["num_nextn_predict_layers"] = 0;
  write_file(in("config.json"), config.dump());
  expect_contains(trap_of(look(), "mtp")->detail, {"though config.json has no such layer"});
  // Files that do not have it.
  fs::remove_all(out());
  make(config);
  EXPECT_EQ(trap_of(look(), "mtp"), nullptr);
  config["num_nextn_predict_layers"] = 1;
  write_file(in("config.json"), config.dump());
  expect_contains(trap_of(look(), "mtp")->title, {"the files have none"});
}

TEST_F(Inspecting, ThreeFilesMayDisagreeOnTheContext) {
  make();
  EXPECT_EQ(trap_of(look(), "context-length"), nullptr);
  write_file(in("tokenizer_config.json"), R"({"model_max_length": 16384})");
  write_file(in("README.md"),
             "| **Model** | **#Total Params** | **Context Length** |\n|--|--|--|\n"
             "| Some 671B | 37B | 128K |\n");
  const Inspection inspection = look();
  ASSERT_EQ(inspection.contexts.size(), 3u);
  const Trap* trap = trap_of(inspection, "context-length");
  EXPECT_EQ(value_of(trap, "least"), 16384);
  EXPECT_EQ(value_of(trap, "most"), 163840);
  expect_contains(trap->detail, {"README.md (context length) says 131072"});
}

TEST_F(Inspecting, LeftoversOfDownloadsAreWeighed) {
  make();
  const std::string downloads = in(".cache/huggingface/download");
  fs::create_directories(downloads);
  write_file(downloads + "/a.1234.incomplete", std::string(1000, 'x'));
  write_file(downloads + "/b.5678.incomplete", std::string(234, 'x'));
  write_file(downloads + "/config.json.metadata", "c\ne\n1\n");
  const Inspection inspection = look();
  const Trap* trap = trap_of(inspection, "leftovers");
  EXPECT_EQ(value_of(trap, "files"), 2);
  EXPECT_EQ(value_of(trap, "bytes"), 1234);
  expect_contains(trap->detail, {"none of them is needed"});
  EXPECT_EQ(inspection.inventory.of(FileRole::download_metadata).files, 1u);
  fs::remove(in("model-00002-of-000003.safetensors"));
  expect_contains(trap_of(look(), "leftovers")->detail, {"1 shard is missing"});
}

TEST_F(Inspecting, FilesOutsideOfTheIndexAreNotOpened) {
  make();
  write_file(in("old.safetensors"), "no such thing");
  const Inspection inspection = look();
  EXPECT_TRUE(inspection.problems.empty());
  EXPECT_EQ(value_of(trap_of(inspection, "stray-files"), "bytes"), 13);
}

TEST_F(Inspecting, TellsWhatItCanOfABrokenFolder) {
  make();
  const size_t all = look().scan.tensors.size();
  // Cut short: the header still tells everything.
  const std::string second = in("model-00002-of-000003.safetensors");
  const uint64_t size = fs::file_size(second);
  fs::resize_file(second, size - 10);
  Inspection inspection = look();
  EXPECT_EQ(inspection.scan.tensors.size(), all);
  EXPECT_FALSE(inspection.scan.shards[1].problem.empty());
  EXPECT_EQ(inspection.problems.size(), 1u);
  // No header any more.
  fs::resize_file(second, 20);
  inspection = look();
  EXPECT_LT(inspection.scan.tensors.size(), all);
  EXPECT_FALSE(inspection.scan.shards[1].readable);
  expect_contains(join(inspection.problems, "\n"), {second, "by config.json"});
  fs::remove(second);
  expect_contains(join(look().problems, "\n"), {second + " is missing"});
  write_file(in("config.json"), "{");
  expect_contains(join(look().problems, "\n"), {in("config.json")});
  write_file(in(kIndexName), "[]");
  inspection = look();
  expect_contains(join(inspection.problems, "\n"), {in(kIndexName), "is missing"});
  EXPECT_EQ(inspection.scan.shards.size(), 3u);
  fs::remove_all(out());
  fs::create_directory(out());
  expect_contains(join(look().problems, "\n"), {"no safetensors files", "config.json: is missing"});
}

TEST_F(Inspecting, OtherArchitecturesAndOrders) {
  fs::create_directory(out());
  write_file(in("config.json"), R"({"architectures": ["OtherMoe"], "text_config": {
      "num_hidden_layers": 1, "num_experts": 2, "num_experts_per_tok": 1}})");
  const std::string moe = "language_model.layers.0.block_sparse_moe.";
  // The second expert comes first, and a router lies in the midst of it.
  write_file(in("model.safetensors"),
             safetensors_of({{"visual.blocks.0.mlp.w", "U8", {2}, "ab"},
                             {"language_model.embed_tokens.weight", "U8", {4, 1}, "abcd"},
                             {moe + "experts.1.w1.weight", "U8", {8}, "12345678"},
                             {moe + "gate.weight", "U8", {3}, "123"},
                             {moe + "experts.1.w2.weight", "U8", {8}, "12345678"},
                             {moe + "experts.0.w2.weight", "U8", {8}, "12345678"},
                             {moe + "experts.0.w1.weight", "U8", {8}, "12345678"}}));
  const Inspection inspection = look();
  EXPECT_TRUE(inspection.problems.empty());
  EXPECT_EQ(inspection.stack, "language_model.layers.");
  EXPECT_EQ(inspection.config.architecture, "OtherMoe");
  EXPECT_EQ(inspection.experts.experts, 2u);
  EXPECT_EQ(inspection.experts.contiguous, 1u);
  EXPECT_EQ(inspection.experts.scattered, 1u);
  EXPECT_EQ(inspection.experts.layers_in_order, 0u);
  EXPECT_EQ(inspection.experts.orders.size(), 2u);
  EXPECT_EQ(inspection.accounting.cell(Group::moe_layers, Part::router).bytes, 3u);
  EXPECT_EQ(inspection.accounting.of(Group::globals).bytes, 6u);
  EXPECT_EQ(inspection.activated, 41u - 16u);
}

}  // namespace
}  // namespace fathom
