#include "checkpoint/dense_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "checkpoint/footprint.h"
#include "checkpoint/identity.h"
#include "checkpoint/model_tensors.h"
#include "checkpoint/synth_layout.h"
#include "tests/checkpoint/configs.h"
#include "tests/checkpoint/toy.h"

namespace fathom {
namespace {

using nlohmann::json;
using Layout = std::vector<TensorInfo>;

json small(json config) {
  config.update(json::parse(R"({"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
                               "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
                               "vocab_size": 10})"));
  return config;
}

ModelConfig typed(const json& config) { return parse_model_config(config.dump(), "config.json"); }

// Checks a checkpoint with the tensors of a changed layout.
TensorReport check(const json& config, const std::function<void(Layout&)>& change) {
  const TemporaryFolder folder;
  Layout layout = released_layout(typed(config));
  change(layout);
  write_file(folder / "model.safetensors", zeros_of(layout));
  return check_tensors(Checkpoint::open(folder.path()), typed(config));
}

uint64_t parameters(const Layout& layout) {
  uint64_t bytes = 0;
  for (const TensorInfo& tensor : layout) {
    EXPECT_EQ(tensor.dtype, Dtype::bf16) << tensor.name;
    bytes += tensor.bytes;
  }
  return bytes / 2;
}

TensorInfo& named(Layout& layout, const std::string& name) {
  return *std::find_if(layout.begin(), layout.end(),
                       [&](const TensorInfo& tensor) { return tensor.name == name; });
}

TEST(DenseTensors, CountTheReleasedModels) {
  json seven = qwen2_config();
  seven.update(json::parse(R"({"hidden_size": 3584, "intermediate_size": 18944,
                              "num_attention_heads": 28, "num_key_value_heads": 4,
                              "vocab_size": 152064})"));
  const Layout qwen_small = released_layout(typed(qwen2_config()));
  EXPECT_EQ(qwen_small.size(), 339u);
  EXPECT_EQ(parameters(qwen_small), 1'777'088'000u);
  EXPECT_EQ(parameters(released_layout(typed(seven))), 7'615'616'512u);
  const Layout llama = released_layout(typed(llama_config()));
  EXPECT_EQ(llama.size(), 291u);
  EXPECT_EQ(parameters(llama), 8'030'261'248u);
}

TEST(DenseTensors, FollowTheClass) {
  const auto count = [](json config, const std::function<void(json&)>& change) {
    change(config);
    return released_layout(typed(small(config))).size();
  };
  const auto as_it_is = [](json&) {};
  EXPECT_EQ(count(llama_config(), as_it_is), 3u + 2 * 9);
  EXPECT_EQ(count(qwen2_config(), as_it_is), 3u + 2 * 12);
  EXPECT_EQ(count(llama_config(), [](json& c) { c["attention_bias"] = true; }), 3u + 2 * 13);
  EXPECT_EQ(count(llama_config(), [](json& c) { c["tie_word_embeddings"] = true; }), 2u + 2 * 9);
  EXPECT_EQ(count(llama_config(), [](json& c) { c["architectures"] = {"Qwen3ForCausalLM"}; }),
            3u + 2 * 11);
}

TEST(DenseTensors, SayWhatIsWrong) {
  const json config = small(qwen2_config());
  EXPECT_TRUE(check(config, [](Layout&) {}).unexpected.empty());
  expect_contains(error_of([&] {
                    check(config, [](Layout& layout) {
                      std::erase_if(layout, [](const TensorInfo& tensor) {
                        return tensor.name == "model.layers.1.self_attn.k_proj.bias";
                      });
                      named(layout, "model.layers.0.self_attn.q_proj.weight").shape = {8, 16};
                    });
                  }),
                  {"missing", "model.layers.1.self_attn.k_proj.bias", "wrong shape",
                   "model.layers.0.self_attn.q_proj.weight", "by config.json [16,8]"});
}

TEST(DenseTensors, ATiedHeadMayBeSavedAgain) {
  json config = small(llama_config());
  config["tie_word_embeddings"] = true;
  const auto saved_again = [](Layout& layout) {
    TensorInfo head = layout.front();
    head.name = "lm_head.weight";
    layout.push_back(head);
  };
  EXPECT_TRUE(check(config, saved_again).unexpected.empty());
  const auto stray = [](Layout& layout) {
    TensorInfo more = layout.front();
    more.name = "model.layers.0.self_attn.rotary_emb.inv_freq";
    layout.push_back(more);
    more.name = "model.layers.0.self_attn.q_proj.bias";
    layout.push_back(more);
  };
  EXPECT_EQ(check(config, stray).unexpected,
            std::vector<std::string>{"model.layers.0.self_attn.q_proj.bias"});
}

TEST(DenseTensors, FootprintByPart) {
  const TemporaryFolder folder;
  const ModelConfig config = typed(small(qwen2_config()));
  const Layout layout = released_layout(config);
  write_file(folder / "model.safetensors", zeros_of(layout));
  const Footprint footprint = footprint_of(Checkpoint::open(folder.path()), config);
  EXPECT_EQ(footprint.of(Part::embedding, false), 2u * 10 * 8);
  EXPECT_EQ(footprint.of(Part::head, false), 2u * 10 * 8);
  EXPECT_EQ(footprint.of(Part::attention, false),
            2u * 2 * (16 * 8 + 16 + 2 * (8 * 8 + 8) + 8 * 16));
  EXPECT_EQ(footprint.of(Part::dense_mlp, false), 2u * 2 * 3 * 8 * 12);
  EXPECT_EQ(footprint.of(Part::norms, false), 2u * (2 * 2 * 8 + 8));
  EXPECT_EQ(footprint.total(false), 2 * parameters(layout));
}

TEST(DenseTensors, IdentityHeedsTheClassAndItsFields) {
  const auto fields = [](const std::function<void(DenseConfig&)>& change) {
    DenseConfig config;
    config.architecture = "LlamaForCausalLM";
    change(config);
    return identity_fields(config);
  };
  const std::string plain = fields([](DenseConfig&) {});
  EXPECT_NE(fields([](DenseConfig& c) { c.architecture = "Qwen3ForCausalLM"; }), plain);
  EXPECT_NE(fields([](DenseConfig& c) { c.head_dim = 64; }), plain);
  EXPECT_NE(fields([](DenseConfig& c) { c.rope_scaling.high_freq_factor = 8; }), plain);
  EXPECT_NE(fields([](DenseConfig& c) { c.rope_attention_factor = 2; }), plain);
}

}  // namespace
}  // namespace fathom
