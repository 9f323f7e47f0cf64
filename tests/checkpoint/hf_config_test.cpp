#include "checkpoint/hf_config.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/checkpoint/configs.h"
#include "tests/checkpoint/toy.h"

namespace fathom {
namespace {

using nlohmann::json;

DeepseekConfig parse(const json& config) { return parse_deepseek_config(config.dump(), "c.json"); }

DeepseekConfig with(const std::function<void(json&)>& change) {
  json config = released_config();
  change(config);
  return parse(config);
}

std::string refusal(const std::function<void(json&)>& change) {
  const std::string message = error_of([&] { with(change); });
  expect_contains(message, {"c.json"});
  return message;
}

// One field set to `value` is refused for `reason`, and nothing else is.
void expect_refused(const std::string& field, const json& value, const std::string& reason) {
  const std::string message = refusal([&](json& config) { config[field] = value; });
  expect_contains(message, {field, reason});
  EXPECT_EQ(message.find("fields are wrong"), std::string::npos) << message;
}

TEST(HfConfig, ReadsTheReleasedModel) {
  const DeepseekConfig config = parse(released_config());
  EXPECT_EQ(config.vocab_size, 129280);
  EXPECT_EQ(config.hidden_size, 7168);
  EXPECT_EQ(config.num_hidden_layers, 61);
  EXPECT_EQ(config.num_nextn_predict_layers, 1);
  EXPECT_EQ(config.first_k_dense_replace, 3);
  EXPECT_EQ(config.moe_layer_freq, 1);
  EXPECT_EQ(config.intermediate_size, 18432);
  EXPECT_EQ(config.moe_intermediate_size, 2048);
  EXPECT_EQ(config.n_routed_experts, 256);
  EXPECT_EQ(config.n_shared_experts, 1);
  EXPECT_EQ(config.num_experts_per_tok, 8);
  EXPECT_EQ(config.n_group, 8);
  EXPECT_EQ(config.topk_group, 4);
  EXPECT_TRUE(config.norm_topk_prob);
  EXPECT_EQ(config.routed_scaling_factor, 2.5);
  EXPECT_EQ(config.num_attention_heads, 128);
  EXPECT_EQ(config.q_lora_rank, 1536);
  EXPECT_EQ(config.kv_lora_rank, 512);
  EXPECT_EQ(config.qk_head_dim(), 192);
  EXPECT_EQ(config.v_head_dim, 128);
  EXPECT_FALSE(config.attention_bias);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.max_position_embeddings, 163840);
  EXPECT_EQ(config.rope_theta, 10000);
  EXPECT_EQ(config.rope_scaling.type, RopeType::yarn);
  EXPECT_EQ(config.rope_scaling.factor, 40);
  EXPECT_EQ(config.rope_scaling.original_max_position_embeddings, 4096);
  EXPECT_EQ(config.rope_scaling.beta_fast, 32);
  EXPECT_EQ(config.rope_scaling.beta_slow, 1);
  EXPECT_EQ(config.rope_scaling.mscale, 1);
  EXPECT_EQ(config.rope_scaling.mscale_all_dim, 1);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_EQ(config.weight_block_rows, 128);
  EXPECT_EQ(config.weight_block_cols, 128);
  EXPECT_FALSE(config.is_moe_layer(2));
  EXPECT_TRUE(config.is_moe_layer(3));
}

TEST(HfConfig, ReadsOtherShapesOfTheFamily) {
  EXPECT_FALSE(with([](json& c) { c["q_lora_rank"] = nullptr; }).q_lora_rank.has_value());
  EXPECT_TRUE(with([](json& c) { c["attention_bias"] = true; }).attention_bias);
  EXPECT_TRUE(with([](json& c) { c["tie_word_embeddings"] = true; }).tie_word_embeddings);
  const DeepseekConfig every_second = with([](json& c) { c["moe_layer_freq"] = 2; });
  EXPECT_FALSE(every_second.is_moe_layer(3));
  EXPECT_TRUE(every_second.is_moe_layer(4));
  // Exporters differ in what they leave to the default.
  const DeepseekConfig bare = with([](json& c) {
    for (const char* field :
         {"moe_layer_freq", "scoring_func", "topk_method", "hidden_act", "ep_size",
          "attention_bias", "norm_topk_prob", "tie_word_embeddings", "num_nextn_predict_layers",
          "quantization_config", "rope_scaling", "rms_norm_eps"}) {
      c.erase(field);
    }
  });
  EXPECT_TRUE(bare.norm_topk_prob);
  EXPECT_EQ(bare.num_nextn_predict_layers, 0);
  EXPECT_EQ(bare.weight_block_rows, 0);
  EXPECT_EQ(bare.rope_scaling.type, RopeType::none);
  EXPECT_EQ(bare.rms_norm_eps, 1e-6);
  const DeepseekConfig dense = with([](json& c) {
    c["n_routed_experts"] = nullptr;
    for (const char* field : {"num_experts_per_tok", "n_group", "topk_group",
                              "moe_intermediate_size", "routed_scaling_factor"}) {
      c.erase(field);
    }
  });
  EXPECT_FALSE(dense.is_moe_layer(10));
  EXPECT_EQ(with([](json& c) {
              c["first_k_dense_replace"] = 0;
              c.erase("intermediate_size");
            }).intermediate_size,
            0);
  EXPECT_EQ(with([](json& c) { c["ep_size"] = 16; }).ep_size, 16);
  // null says that there are no shared experts; without the field nothing says so.
  EXPECT_EQ(with([](json& c) { c["n_shared_experts"] = nullptr; }).n_shared_experts, 0);
  expect_contains(refusal([](json& c) { c.erase("n_shared_experts"); }),
                  {"n_shared_experts", "is missing"});
}

TEST(HfConfig, ReadsRopeScalingOfEveryKind) {
  const auto rope = [](const json& scaling) {
    return with([&](json& c) { c["rope_scaling"] = scaling; }).rope_scaling;
  };
  EXPECT_EQ(rope(nullptr).type, RopeType::none);
  EXPECT_EQ(rope({{"type", "default"}}).type, RopeType::none);
  EXPECT_EQ(rope({{"rope_type", "linear"}, {"factor", 2}}).type, RopeType::linear);
  EXPECT_EQ(rope({{"type", "dynamic"}, {"factor", 1.5}}).factor, 1.5);
  EXPECT_EQ(rope({{"type", "dynamic"}, {"rope_type", "dynamic"}, {"factor", 1.5}}).type,
            RopeType::dynamic);
  const RopeScaling yarn =
      rope({{"type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 16}});
  EXPECT_EQ(yarn.beta_fast, 32);
  EXPECT_EQ(yarn.mscale, 1);
  EXPECT_EQ(yarn.mscale_all_dim, 0);
  // The reference scales the softmax by it under any type.
  for (const char* type : {"linear", "dynamic"}) {
    EXPECT_EQ(rope({{"type", type}, {"factor", 2}, {"mscale_all_dim", 0.7}}).mscale_all_dim, 0.7);
  }
  const DeepseekConfig newer = with([](json& c) {
    c.erase("rope_theta");
    c.erase("rope_scaling");
    c["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 3}, {"rope_theta", 50000}};
  });
  EXPECT_EQ(newer.rope_theta, 50000);
  EXPECT_EQ(newer.rope_scaling.factor, 3);
}

TEST(HfConfig, RefusesABaseThatYarnCannotDivideBy) {
  expect_contains(refusal([](json& c) { c["rope_theta"] = 1; }), {"rope_theta", "yarn"});
  EXPECT_EQ(with([](json& c) {
              c["rope_theta"] = 1;
              c["rope_scaling"] = nullptr;
            }).rope_theta,
            1);
}

TEST(HfConfig, RefusesRopeScalingItDoesNotKnow) {
  const auto refused = [](const json& scaling, const std::string& field,
                          const std::string& reason) {
    expect_contains(refusal([&](json& c) { c["rope_scaling"] = scaling; }), {field, reason});
  };
  refused({{"type", "longrope"}, {"factor", 4}}, "rope_scaling.type",
          "'longrope' is not supported");
  refused({{"rope_type", "llama3"}}, "rope_scaling.rope_type", "linear, dynamic, yarn");
  refused({{"factor", 4}}, "rope_scaling.type", "missing");
  refused({{"type", 3}}, "rope_scaling.type", "a string");
  refused({{"type", "linear"}}, "rope_scaling.factor", "missing");
  refused({{"type", "linear"}, {"factor", 0.5}}, "rope_scaling.factor", "at least 1");
  refused({{"type", "linear"}, {"factor", true}}, "rope_scaling.factor", "a number");
  refused({{"type", "linear"}, {"rope_type", "yarn"}}, "rope_scaling.type", "contradicts");
  refused({{"type", "yarn"}, {"factor", 4}}, "rope_scaling.original_max_position_embeddings",
          "missing");
  refused({{"type", "yarn"},
           {"factor", 4},
           {"original_max_position_embeddings", 16},
           {"beta_fast", 1},
           {"beta_slow", 32}},
          "rope_scaling.beta_fast", "below beta_slow");
  refused("yarn", "rope_scaling", "an object or null");
  refused(json::array(), "rope_scaling", "an object or null");
}

TEST(HfConfig, RefusesWhatItCannotCompute) {
  expect_refused("scoring_func", "softmax", "'softmax' is not supported; supported: sigmoid");
  expect_refused("topk_method", "greedy", "'greedy' is not supported; supported: noaux_tc");
  expect_refused("hidden_act", "gelu", "'gelu' is not supported; supported: silu");
  expect_refused("n_group", 7, "");
  expect_refused("n_routed_experts", 250, "n_group = 8 equal groups");
  expect_refused("topk_group", 9, "more than n_group = 8");
  expect_contains(refusal([](json& c) {
                    c["n_group"] = 256;
                    c["topk_group"] = 8;
                  }),
                  {"n_group: 256 leaves one expert to a group"});
  expect_refused("qk_rope_head_dim", 63, "odd");
  expect_contains(refusal([](json& c) {
                    c["topk_group"] = 1;
                    c["num_experts_per_tok"] = 33;
                  }),
                  {"num_experts_per_tok", "32 experts"});
}

TEST(HfConfig, RefusesOtherQuantisations) {
  const auto refused = [](const json& quantization, const std::vector<std::string>& parts) {
    expect_contains(refusal([&](json& c) { c["quantization_config"] = quantization; }), parts);
  };
  for (const char* method : {"awq", "gptq", "compressed-tensors", "bitsandbytes"}) {
    const std::string message = refusal([&](json& c) {
      c["quantization_config"] = {{"quant_method", method}};
    });
    expect_contains(message, {"quantization_config.quant_method", method, "supported: fp8"});
    EXPECT_EQ(message.find("weight_block_size"), std::string::npos);
  }
  refused({{"fmt", "e4m3"}}, {"quant_method", "missing"});
  refused({{"quant_method", "fp8"}, {"fmt", "e5m2"}, {"weight_block_size", {128, 128}}},
          {"quantization_config.fmt", "'e5m2'"});
  refused({{"quant_method", "fp8"}}, {"weight_block_size", "missing", "one scale per tensor"});
  for (const json& block : std::vector<json>{{128},
                                             {128, 0},
                                             {128, -1},
                                             {128, 1.5},
                                             "128",
                                             128,
                                             {128, 128, 128},
                                             {128, int64_t{1} << 40}}) {
    refused({{"quant_method", "fp8"}, {"weight_block_size", block}},
            {"weight_block_size", "two whole numbers"});
  }
  refused("fp8", {"quantization_config", "an object"});
  EXPECT_EQ(with([](json& c) { c["quantization_config"] = nullptr; }).weight_block_cols, 0);
  EXPECT_EQ(with([](json& c) {
              c["quantization_config"]["weight_block_size"] = {64, 256};
            }).weight_block_cols,
            256);
}

TEST(HfConfig, RefusesValuesOfTheWrongTypeOrSize) {
  for (const char* field :
       {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "kv_lora_rank",
        "q_lora_rank", "qk_nope_head_dim", "v_head_dim", "max_position_embeddings",
        "intermediate_size", "moe_intermediate_size"}) {
    expect_refused(field, true, "whole number");
    expect_refused(field, "128", "whole number");
    expect_refused(field, 1e4, "whole number");
    expect_refused(field, json::array(), "whole number");
    expect_refused(field, 0, "not between");
    expect_refused(field, -5, "not between");
    expect_refused(field, int64_t{1} << 62, "not between");
    expect_refused(field, UINT64_MAX, "not between");
  }
  expect_refused("rms_norm_eps", true, "a number");
  expect_refused("rms_norm_eps", "1e-6", "a number");
  expect_refused("rms_norm_eps", 0, "above 0");
  expect_refused("rope_theta", -1, "above 0");
  expect_refused("routed_scaling_factor", 0, "above 0");
  expect_refused("norm_topk_prob", 1, "true or false");
  expect_refused("attention_bias", "false", "true or false");
  expect_refused("scoring_func", 5, "a string");
  expect_refused("n_shared_experts", -1, "not between");
  expect_refused("ep_size", 0, "not between");
}

TEST(HfConfig, ChecksProductsToo) {
  expect_contains(refusal([](json& c) {
                    c["num_attention_heads"] = 65536;
                    c["v_head_dim"] = 1 << 20;
                  }),
                  {"num_attention_heads", "more than"});
  expect_contains(refusal([](json& c) {
                    c["num_hidden_layers"] = 4096;
                    c["n_routed_experts"] = 16384;
                  }),
                  {"n_routed_experts", "more than"});
  expect_contains(refusal([](json& c) {
                    c["n_shared_experts"] = 1024;
                    c["moe_intermediate_size"] = 1 << 20;
                  }),
                  {"n_shared_experts", "more than"});
}

TEST(HfConfig, TellsEveryProblemAtOnce) {
  const std::string message = refusal([](json& c) {
    c.erase("vocab_size");
    c.erase("q_lora_rank");
    c["hidden_size"] = "7168";
    c["hidden_act"] = "relu";
    c["rope_scaling"]["type"] = "su";
    c["quantization_config"]["quant_method"] = "awq";
    c["topk_group"] = 100;
  });
  expect_contains(message, {"7 fields are wrong", "vocab_size: is missing",
                            "q_lora_rank: is missing", "hidden_size", "hidden_act",
                            "rope_scaling.type", "quantization_config.quant_method", "topk_group"});
}

TEST(HfConfig, NamesTheArchitecture) {
  EXPECT_EQ(architecture_of(R"({"architectures":["A","B"]})", "c.json"), "A");
  for (const char* text : {"{}", R"({"architectures":null})", R"({"architectures":[]})",
                           R"({"architectures":"A"})", R"({"architectures":[1]})"}) {
    expect_contains(error_of([&] { architecture_of(text, "c.json"); }),
                    {"c.json", "architectures"});
  }
  for (const char* text : {"[]", "null", "7"}) {
    expect_contains(error_of([&] { architecture_of(text, "c.json"); }), {"c.json", "an object"});
  }
  expect_contains(error_of([&] { architecture_of("{\"a\":\n?}", "c.json"); }), {"c.json:2:1"});

  expect_contains(refusal([](json& c) { c["architectures"] = {"BertModel"}; }),
                  {"'BertModel' is not DeepseekV3ForCausalLM"});
}

TEST(HfConfig, ReadsGenerationDefaults) {
  const GenerationConfig config = parse_generation_config(
      R"({"bos_token_id":0,"eos_token_id":1,"do_sample":true,"temperature":0.6,"top_p":0.95,
          "_from_model_config":true,"transformers_version":"4.39.3"})",
      "g.json");
  EXPECT_EQ(config.do_sample, true);
  EXPECT_EQ(config.temperature, 0.6);
  EXPECT_EQ(config.top_p, 0.95);
  EXPECT_EQ(config.bos_token_id, 0);
  EXPECT_EQ(config.eos_token_ids, std::vector<int64_t>{1});
  EXPECT_FALSE(config.top_k || config.min_p || config.repetition_penalty);

  const GenerationConfig list = parse_generation_config(
      R"({"eos_token_id":[1,7],"top_k":50,"min_p":0.05,"repetition_penalty":1.1,
          "temperature":null,"top_p":1})",
      "g.json");
  EXPECT_EQ(list.eos_token_ids, (std::vector<int64_t>{1, 7}));
  EXPECT_EQ(list.top_k, 50);
  EXPECT_EQ(parse_generation_config(R"({"top_k":-1})", "g.json").top_k, 0);  // no limit
  EXPECT_EQ(list.min_p, 0.05);
  EXPECT_EQ(list.repetition_penalty, 1.1);
  EXPECT_FALSE(list.temperature);
  EXPECT_TRUE(parse_generation_config("{}", "g.json").eos_token_ids.empty());
  EXPECT_TRUE(parse_generation_config(R"({"eos_token_id":null})", "g.json").eos_token_ids.empty());
}

TEST(HfConfig, RefusesWrongGenerationDefaults) {
  const std::string message = error_of([] {
    parse_generation_config(
        R"({"eos_token_id":[1,"2"],"temperature":"hot","top_k":1.5,"top_p":2,"do_sample":1,
            "bos_token_id":-1,"min_p":-0.1,"repetition_penalty":0})",
        "g.json");
  });
  expect_contains(message, {"g.json", "8 fields", "eos_token_id", "temperature", "top_k", "top_p",
                            "do_sample", "bos_token_id", "min_p", "repetition_penalty"});
  for (const char* text : {R"({"eos_token_id":"1"})", R"({"eos_token_id":1.0})",
                           R"({"eos_token_id":[[1]]})", R"({"eos_token_id":-1})"}) {
    expect_contains(error_of([&] { parse_generation_config(text, "g.json"); }), {"eos_token_id"});
  }
  expect_contains(error_of([] { parse_generation_config("[]", "g.json"); }), {"an object"});
}

}  // namespace
}  // namespace fathom
