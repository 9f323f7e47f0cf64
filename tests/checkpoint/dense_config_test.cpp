#include "checkpoint/dense_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "checkpoint/model_config.h"
#include "tests/checkpoint/configs.h"
#include "tests/checkpoint/toy.h"

namespace fathom {
namespace {

using nlohmann::json;
using Change = std::function<void(json&)>;

DenseConfig with(json config, const Change& change) {
  change(config);
  return parse_dense_config(config.dump(), "c.json");
}

DenseConfig of(const json& config) {
  return with(config, [](json&) {});
}

// One field set to `value` is refused for `reason`, and nothing else is.
void expect_refused(const json& config, const std::string& field, const json& value,
                    const std::string& reason) {
  const std::string message =
      error_of([&] { with(config, [&](json& changed) { changed[field] = value; }); });
  expect_contains(message, {"c.json", field, reason});
  EXPECT_EQ(message.find("fields are wrong"), std::string::npos) << message;
}

TEST(DenseConfig, ReadsQwen2) {
  const DenseConfig config = of(qwen2_config());
  EXPECT_EQ(config.architecture, "Qwen2ForCausalLM");
  EXPECT_EQ(config.vocab_size, 151936);
  EXPECT_EQ(config.hidden_size, 1536);
  EXPECT_EQ(config.intermediate_size, 8960);
  EXPECT_EQ(config.num_hidden_layers, 28);
  EXPECT_EQ(config.num_attention_heads, 12);
  EXPECT_EQ(config.num_key_value_heads, 2);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.q_rows(), 1536);
  EXPECT_EQ(config.kv_rows(), 256);
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_FALSE(config.o_bias);
  EXPECT_FALSE(config.qk_norm);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.max_position_embeddings, 131072);
  EXPECT_EQ(config.rope_theta, 10000);
  EXPECT_EQ(config.rope_scaling.type, RopeType::none);
  EXPECT_EQ(config.weight_block_rows, 0);
  EXPECT_FALSE(config.tie_word_embeddings);
}

TEST(DenseConfig, ReadsLlamaWithItsRope) {
  const DenseConfig config = of(llama_config());
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_EQ(config.rope_theta, 500000);
  EXPECT_EQ(config.rope_scaling.type, RopeType::llama3);
  EXPECT_EQ(config.rope_scaling.factor, 8);
  EXPECT_EQ(config.rope_scaling.low_freq_factor, 1);
  EXPECT_EQ(config.rope_scaling.high_freq_factor, 4);
  EXPECT_EQ(config.rope_scaling.original_max_position_embeddings, 8192);
  EXPECT_EQ(config.rope_attention_factor, 1);
}

TEST(DenseConfig, HeadSizeMayBeGivenOrFollows) {
  EXPECT_EQ(with(qwen2_config(), [](json& c) { c["head_dim"] = 64; }).head_dim, 64);
  EXPECT_EQ(with(qwen2_config(), [](json& c) { c["head_dim"] = nullptr; }).head_dim, 128);
  const auto qwen3 = [](json& c) { c["architectures"] = {"Qwen3ForCausalLM"}; };
  EXPECT_EQ(with(llama_config(), qwen3).head_dim, 128);
  EXPECT_TRUE(with(llama_config(), qwen3).qk_norm);
  EXPECT_EQ(with(qwen2_config(), [](json& c) { c.erase("num_key_value_heads"); }).kv_rows(), 1536);
}

TEST(DenseConfig, BiasesFollowTheClassAndTheConfig) {
  const auto asked = [](json& c) { c["attention_bias"] = true; };
  const auto declined = [](json& c) { c["attention_bias"] = false; };
  EXPECT_TRUE(with(qwen2_config(), declined).qkv_bias);
  EXPECT_FALSE(with(qwen2_config(), asked).o_bias);
  EXPECT_TRUE(with(llama_config(), asked).qkv_bias);
  EXPECT_TRUE(with(llama_config(), asked).o_bias);
}

TEST(DenseConfig, AttentionFactorOfYarn) {
  const auto factor = [](const json& more) {
    return with(qwen2_config(),
                [&](json& c) {
                  c["rope_scaling"] = {{"rope_type", "yarn"},
                                       {"factor", 4.0},
                                       {"original_max_position_embeddings", 32768}};
                  c["rope_scaling"].update(more);
                })
        .rope_attention_factor;
  };
  const double own = 0.1 * std::log(4.0) + 1;
  EXPECT_DOUBLE_EQ(factor(json::object()), own);
  EXPECT_DOUBLE_EQ(factor({{"attn_factor", 0.5}}), own * 0.5);
  EXPECT_DOUBLE_EQ(factor({{"attention_factor", 1.5}}), 1.5);
  EXPECT_DOUBLE_EQ(factor({{"mscale", 1}, {"mscale_all_dim", 1}}), 1);
}

TEST(DenseConfig, RefusesWhatIsAnotherModel) {
  const json qwen2 = qwen2_config();
  expect_refused(qwen2, "hidden_act", "gelu", "'gelu'");
  expect_refused(qwen2, "use_sliding_window", true, "not supported");
  expect_refused(qwen2, "layer_types", {"full_attention", "sliding_attention"}, "full_attention");
  expect_refused(qwen2, "layer_types", "full_attention", "a list is expected");
  expect_refused(qwen2, "partial_rotary_factor", 0.5, "supported: 1");
  expect_refused(qwen2, "num_key_value_heads", 5, "12 cannot be divided");
  expect_refused(qwen2, "head_dim", 127, "odd");
  expect_refused(qwen2, "hidden_size", 1537, "head_dim");
  expect_refused(qwen2, "num_hidden_layers", 0, "num_hidden_layers");
  expect_refused(llama_config(), "mlp_bias", true, "not supported");
  EXPECT_NO_THROW(with(llama_config(), [](json& c) { c["use_sliding_window"] = true; }));
}

TEST(DenseConfig, RefusesScalingsThatDoNotFit) {
  const auto refusal = [](const json& scaling) {
    return error_of([&] { with(llama_config(), [&](json& c) { c["rope_scaling"] = scaling; }); });
  };
  json llama3 = llama_config()["rope_scaling"];
  llama3["high_freq_factor"] = 0.5;
  expect_contains(refusal(llama3), {"high_freq_factor", "not above low_freq_factor 1"});
  llama3.erase("high_freq_factor");
  expect_contains(refusal(llama3), {"rope_scaling.high_freq_factor", "missing"});
  expect_contains(refusal({{"type", "longrope"}, {"factor", 2}}),
                  {"'longrope' is not supported", "default, linear, dynamic, yarn, llama3"});
  expect_contains(error_of([] {
                    with(qwen2_config(), [](json& c) {
                      c["head_dim"] = 2;
                      c["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2}};
                    });
                  }),
                  {"head_dim", "nothing to scale"});
}

TEST(ModelConfig, GoesByTheArchitecture) {
  EXPECT_TRUE(
      std::holds_alternative<DenseConfig>(parse_model_config(qwen2_config().dump(), "c.json")));
  EXPECT_TRUE(std::holds_alternative<DeepseekConfig>(
      parse_model_config(released_config().dump(), "c.json")));
  json config = qwen2_config();
  config["architectures"] = {"Qwen2MoeForCausalLM"};
  expect_contains(error_of([&] { parse_model_config(config.dump(), "c.json"); }),
                  {"c.json", "'Qwen2MoeForCausalLM' is not supported", "DeepseekV3ForCausalLM",
                   "Qwen2ForCausalLM", "LlamaForCausalLM", "Qwen3ForCausalLM"});
  expect_contains(error_of([&] { parse_dense_config(config.dump(), "c.json"); }),
                  {"is none of Qwen2ForCausalLM"});
}

}  // namespace
}  // namespace fathom
