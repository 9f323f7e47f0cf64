#include "checkpoint/deepseek_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "checkpoint/problem_list.h"
#include "checkpoint/synth_layout.h"
#include "tests/checkpoint/configs.h"
#include "tests/checkpoint/toy.h"

namespace fathom {
namespace {

using nlohmann::json;
using Layout = std::vector<TensorInfo>;

TensorInfo& named(Layout& layout, const std::string& name) {
  for (TensorInfo& tensor : layout) {
    if (tensor.name == name) return tensor;
  }
  ADD_FAILURE() << name;
  return layout.front();
}

void reshape(TensorInfo& tensor, Dtype dtype, const std::vector<int64_t>& shape) {
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.bytes = static_cast<uint64_t>(dtype_bytes(dtype));
  for (const int64_t size : shape) tensor.bytes *= static_cast<uint64_t>(size);
}

void retype(TensorInfo& tensor, Dtype dtype) { reshape(tensor, dtype, tensor.shape); }

void drop(Layout& layout, const std::function<bool(const std::string&)>& which) {
  const size_t before = layout.size();
  std::erase_if(layout, [&](const TensorInfo& tensor) { return which(tensor.name); });
  ASSERT_LT(layout.size(), before);
}

auto is(const std::string& name) {
  return [name](const std::string& other) { return other == name; };
}
auto ends(const std::string& suffix) {
  return [suffix](const std::string& name) { return name.ends_with(suffix); };
}
auto begins(const std::string& prefix) {
  return [prefix](const std::string& name) { return name.starts_with(prefix); };
}

// Checks a checkpoint with the tensors of `change`d layout against `config`.
TensorReport check(const std::function<void(Layout&)>& change,
                   const json& config = small_config()) {
  TemporaryFolder folder;
  const DeepseekConfig typed = parse_deepseek_config(config.dump(), "config.json");
  Layout layout = released_layout(typed);
  change(layout);
  write_file(folder / "model.safetensors", zeros_of(layout));
  return check_deepseek_tensors(Checkpoint::open(folder.path()), typed);
}

std::string refusal(const std::function<void(Layout&)>& change,
                    const json& config = small_config()) {
  return error_of([&] { check(change, config); });
}

void as_it_is(Layout&) {}

json changed(const char* field, const json& value) {
  json config = small_config();
  config[field] = value;
  return config;
}

TEST(DeepseekTensors, CountsTheReleasedModel) {
  const DeepseekConfig config = parse_deepseek_config(released_config().dump(), "config.json");
  Layout layout = released_layout(config);
  std::map<Dtype, std::pair<size_t, uint64_t>> sums;
  for (const TensorInfo& tensor : layout) {
    ++sums[tensor.dtype].first;
    sums[tensor.dtype].second += tensor.bytes;
  }
  EXPECT_EQ(layout.size(), 91991u);
  EXPECT_EQ(sums[Dtype::f8_e4m3], std::make_pair(size_t{45808}, uint64_t{680'571'043'840}));
  EXPECT_EQ(sums[Dtype::f32], std::make_pair(size_t{45867}, uint64_t{166'222'400}));
  EXPECT_EQ(sums[Dtype::bf16], std::make_pair(size_t{316}, uint64_t{7'837'573'120}));
  EXPECT_EQ(named(layout, "model.layers.60.self_attn.kv_a_proj_with_mqa.weight_scale_inv").shape,
            (std::vector<int64_t>{5, 56}));

  uint64_t base = 0;
  for (const TensorInfo& tensor : layout) {
    if (!tensor.name.starts_with("model.layers.61.")) base += tensor.bytes;
  }
  EXPECT_EQ(base, 673'150'611'808u);
}

TEST(DeepseekTensors, PlacesTheReleasedShards) {
  const DeepseekConfig config = parse_deepseek_config(released_config().dump(), "config.json");
  Layout layout = released_layout(config);
  // The first shard holds 270 tensors, the last one what comes after 91,991 - 353.
  const std::vector<std::string> headers = place_in_shards({270, 91991 - 270}, &layout);
  EXPECT_EQ(headers[0].size(), 34119u);
  EXPECT_EQ(layout[269].offset + layout[269].bytes, 5'234'139'343u);
  EXPECT_EQ(layout[0].offset, 34127u);
  EXPECT_EQ(layout[270].shard, 1);
}

TEST(DeepseekTensors, AcceptsWhatTheConfigCallsFor) {
  EXPECT_TRUE(check(as_it_is).has_mtp);
  EXPECT_TRUE(check(as_it_is).unexpected.empty());
  for (const json& config :
       {changed("q_lora_rank", nullptr), changed("attention_bias", true),
        changed("n_shared_experts", 0), changed("n_shared_experts", 3),
        changed("moe_layer_freq", 2), changed("quantization_config", nullptr),
        changed("tie_word_embeddings", true), changed("n_routed_experts", 0)}) {
    const TensorReport report = check(as_it_is, config);
    EXPECT_TRUE(report.has_mtp);
    EXPECT_TRUE(report.unexpected.empty());
  }
  // Order and storage are the exporter's business.
  EXPECT_TRUE(check([](Layout& l) { std::reverse(l.begin(), l.end()); }).unexpected.empty());
}

TEST(DeepseekTensors, NamesEachMissingTensor) {
  const std::string message = refusal([](Layout& l) {
    drop(l, is("model.norm.weight"));
    drop(l, is("model.layers.1.mlp.gate.weight"));
    drop(l, begins("model.layers.2.mlp.experts.3."));
  });
  expect_contains(message, {"5 tensors are missing or wrong", "missing: model.norm.weight",
                            "missing: model.layers.1.mlp.gate.weight",
                            "missing: model.layers.2.mlp.experts.3.gate_proj.weight",
                            "missing: model.layers.2.mlp.experts.3.up_proj.weight",
                            "missing: model.layers.2.mlp.experts.3.down_proj.weight"});
  expect_contains(refusal([](Layout& l) { drop(l, is("lm_head.weight")); }), {"lm_head.weight"});
  expect_contains(
      refusal([](Layout& l) { drop(l, ends(".q_a_proj.bias")); }, changed("attention_bias", true)),
      {"model.layers.0.self_attn.q_a_proj.bias"});
}

TEST(DeepseekTensors, GroupsManyProblems) {
  json config = small_config();
  config["n_routed_experts"] = 64;
  const std::string message = refusal([](Layout& l) { drop(l, ends(".up_proj.weight")); }, config);
  // 64 experts in layers 1, 2 and 3, three shared ones and a dense layer.
  expect_contains(message,
                  {"196 tensors are missing or wrong",
                   "missing: model.layers.*.mlp.experts.*.up_proj.weight: 192 tensors, "
                   "model.layers.1.mlp.experts.0.up_proj.weight to "
                   "model.layers.3.mlp.experts.63.up_proj.weight",
                   "missing: model.layers.*.mlp.shared_experts.up_proj.weight: 3 tensors"});
  EXPECT_LT(message.size(), 1000u);

  ProblemList many;
  for (int i = 0; i < 1000; ++i) {
    many.add("missing", "family" + std::string(1 + i % 25, 'x') + ".weight", "");
  }
  expect_contains(error_of([&] { many.fail_if_any("folder"); }),
                  {"folder", "1000 tensors", "and 5 more kinds"});
  EXPECT_EQ(tensor_family("model.layers.3.mlp.experts.17.up_proj.weight"),
            "model.layers.*.mlp.experts.*.up_proj.weight");
  EXPECT_EQ(tensor_family("a.12"), "a.*");
  EXPECT_EQ(tensor_family("12."), "*.");
}

TEST(DeepseekTensors, NamesWrongShapes) {
  const std::string message = refusal([](Layout& l) {
    reshape(named(l, "model.embed_tokens.weight"), Dtype::bf16, {30, 21});
    reshape(named(l, "model.layers.0.mlp.down_proj.weight"), Dtype::f8_e4m3, {36, 20});
    reshape(named(l, "model.norm.weight"), Dtype::bf16, {20, 1});
  });
  expect_contains(message,
                  {"wrong shape: model.embed_tokens.weight: [30,21], by config.json [30,20]",
                   "model.layers.0.mlp.down_proj.weight: [36,20], by config.json [20,36]",
                   "model.norm.weight: [20,1], by config.json [20]"});
}

TEST(DeepseekTensors, NamesFp8WeightsWithoutScale) {
  const std::string weight = "model.layers.1.mlp.experts.2.up_proj.weight";
  expect_contains(refusal([&](Layout& l) { drop(l, is(weight + "_scale_inv")); }),
                  {"no scale: " + weight, weight + "_scale_inv is missing"});
  // Under the name that other tools give it, it is not taken either, but said.
  expect_contains(
      refusal([&](Layout& l) { named(l, weight + "_scale_inv").name = weight + "_scale"; }),
      {"no scale: " + weight, weight + "_scale is there instead"});
  // Weights that are not FP8 need none.
  EXPECT_TRUE(check([&](Layout& l) {
                retype(named(l, weight), Dtype::bf16);
                drop(l, is(weight + "_scale_inv"));
              }).unexpected.empty());
  // A scale without its use is unexpected.
  EXPECT_EQ(check([&](Layout& l) { retype(named(l, weight), Dtype::f16); }).unexpected,
            std::vector<std::string>{weight + "_scale_inv"});
  expect_contains(refusal([&](Layout& l) { retype(named(l, weight), Dtype::f8_e4m3); },
                          changed("quantization_config", nullptr)),
                  {weight, "no quantization_config"});
}

TEST(DeepseekTensors, NamesScalesOfTheWrongShapeOrDtype) {
  // 16 rows and 20 columns in blocks of 16 x 8.
  const std::string scale = "model.layers.0.self_attn.kv_a_proj_with_mqa.weight_scale_inv";
  EXPECT_TRUE(check([&](Layout& l) {
                EXPECT_EQ(named(l, scale).shape, (std::vector<int64_t>{1, 3}));
              }).unexpected.empty());
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{1, 2}, {3, 1}, {3}, {1, 3, 1}, {2, 3}, {}}) {
    expect_contains(refusal([&](Layout& l) { reshape(named(l, scale), Dtype::f32, shape); }),
                    {"wrong shape: " + scale, shape_text(shape), "must be [1,3]"});
  }
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f64, Dtype::f8_e8m0}) {
    expect_contains(refusal([&](Layout& l) { retype(named(l, scale), dtype); }),
                    {"wrong dtype: " + scale, std::string(dtype_name(dtype)), "F32"});
  }
}

TEST(DeepseekTensors, NamesDtypesThatNoKernelTakes) {
  for (const char* name :
       {"model.embed_tokens.weight", "model.norm.weight", "model.layers.1.mlp.gate.weight",
        "model.layers.3.eh_proj.weight", "model.layers.0.self_attn.o_proj.weight"}) {
    for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
      EXPECT_NO_THROW(check([&](Layout& l) { retype(named(l, name), dtype); })) << name;
    }
    for (const Dtype dtype : {Dtype::f64, Dtype::i8, Dtype::f8_e5m2, Dtype::i64}) {
      expect_contains(refusal([&](Layout& l) { retype(named(l, name), dtype); }),
                      {"wrong dtype: " + std::string(name), std::string(dtype_name(dtype))});
    }
  }
  expect_contains(
      refusal([](Layout& l) { retype(named(l, "model.embed_tokens.weight"), Dtype::f8_e4m3); }),
      {"wrong dtype: model.embed_tokens.weight: F8_E4M3; accepted: BF16, F16, F32"});
}

TEST(DeepseekTensors, WarnsOfARoundedRouterBias) {
  testing::internal::CaptureStderr();
  EXPECT_NO_THROW(check([](Layout& l) {
    retype(named(l, "model.layers.1.mlp.gate.e_score_correction_bias"), Dtype::bf16);
  }));
  expect_contains(testing::internal::GetCapturedStderr(),
                  {"model.layers.1.mlp.gate.e_score_correction_bias is BF16 and not F32"});
}

TEST(DeepseekTensors, TakesTheEmbeddingForATiedHead) {
  const json tied = changed("tie_word_embeddings", true);
  EXPECT_NO_THROW(check(
      [](Layout& l) {
        const bool head = std::any_of(l.begin(), l.end(),
                                      [](const TensorInfo& t) { return t.name == names::kHead; });
        EXPECT_FALSE(head);
      },
      tied));
  // Where it is there nevertheless, it must fit.
  const auto add_head = [](const std::vector<int64_t>& shape) {
    return [shape](Layout& l) {
      l.push_back(l.front());
      l.back().name = names::kHead;
      reshape(l.back(), Dtype::bf16, shape);
    };
  };
  EXPECT_TRUE(check(add_head({30, 20}), tied).unexpected.empty());
  expect_contains(refusal(add_head({31, 20}), tied), {"lm_head.weight: [31,20]"});
}

TEST(DeepseekTensors, KnowsTheMtpLayer) {
  const std::string mtp = "model.layers.3.";
  // All absent: no MTP, no error.
  const TensorReport none = check([&](Layout& l) { drop(l, begins(mtp)); });
  EXPECT_FALSE(none.has_mtp);
  EXPECT_TRUE(none.unexpected.empty());
  // Partly absent: what is missing is named.
  expect_contains(refusal([&](Layout& l) {
                    drop(l, is(mtp + "enorm.weight"));
                    drop(l, is(mtp + "mlp.experts.1.gate_proj.weight"));
                  }),
                  {"missing: model.layers.3.enorm.weight",
                   "missing: model.layers.3.mlp.experts.1.gate_proj.weight"});
  expect_contains(refusal([&](Layout& l) {
                    std::erase_if(l, [&](const TensorInfo& t) {
                      return t.name.starts_with(mtp) && t.name != mtp + "hnorm.weight";
                    });
                  }),
                  {"missing: model.layers.3.eh_proj.weight"});
  // Copies of embedding and head may be left out.
  const TensorReport bare = check([&](Layout& l) {
    drop(l, is(mtp + "embed_tokens.weight"));
    drop(l, is(mtp + "shared_head.head.weight"));
  });
  EXPECT_TRUE(bare.has_mtp);
  EXPECT_TRUE(bare.unexpected.empty());
}

TEST(DeepseekTensors, LeavesMtpLayersOutThatTheConfigDoesNotHave) {
  const DeepseekConfig typed = parse_deepseek_config(small_config().dump(), "config.json");
  const json without = changed("num_nextn_predict_layers", 0);
  const auto with_mtp_of = [&](Layout& l) { l = released_layout(typed); };
  const TensorReport report = check(with_mtp_of, without);
  EXPECT_FALSE(report.has_mtp);
  EXPECT_TRUE(report.unexpected.empty());
  // They need not even be whole, and further ones are known too.
  const TensorReport odd = check(
      [&](Layout& l) {
        with_mtp_of(l);
        drop(l, is("model.layers.3.eh_proj.weight"));
        l.push_back(l.front());
        l.back().name = "model.layers.4.enorm.weight";
      },
      without);
  EXPECT_FALSE(odd.has_mtp);
  EXPECT_TRUE(odd.unexpected.empty());
}

TEST(DeepseekTensors, NamesDecoderLayersBeyondTheConfig) {
  const json without = changed("num_nextn_predict_layers", 0);
  const TensorReport report = check(
      [](Layout& l) {
        l.push_back(l.front());
        l.back().name = "model.layers.3.input_layernorm.weight";
        l.push_back(l.front());
        l.back().name = "model.layers.4.eh_proj.weight";
      },
      without);
  EXPECT_EQ(report.unexpected, std::vector<std::string>{"model.layers.3.input_layernorm.weight"});
}

TEST(DeepseekTensors, NamesWhatNothingExpects) {
  testing::internal::CaptureStderr();
  const TensorReport report = check([](Layout& l) {
    for (const char* name :
         {"model.vision.weight", "model.layers.1.mlp.experts.4.up_proj.weight",
          "model.layers.0.self_attn.rotary_emb.inv_freq", "model.layers.x.weight"}) {
      l.push_back(l.back());
      l.back().name = name;
    }
  });
  EXPECT_EQ(report.unexpected,
            (std::vector<std::string>{"model.vision.weight",
                                      "model.layers.1.mlp.experts.4.up_proj.weight",
                                      "model.layers.x.weight"}));
  expect_contains(testing::internal::GetCapturedStderr(),
                  {"3 tensors are not used", "'model.vision.weight'"});
}

}  // namespace
}  // namespace fathom
