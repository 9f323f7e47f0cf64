#include "graph/export/decoder_graph.h"

#include <cmath>

namespace fathom {
namespace {

constexpr int64_t kOnnxFloat = 1;
constexpr int64_t kOnnxFloat16 = 10;

}  // namespace

std::string layer_prefix(int64_t layer) { return "model.layers." + std::to_string(layer) + "."; }

std::vector<onnx::ExternalTensor> export_layer_weights(const Checkpoint& checkpoint,
                                                       const DecoderShape& shape, int64_t layer,
                                                       WeightFile& file,
                                                       const CancelToken* cancel) {
  std::vector<onnx::ExternalTensor> tensors;
  const std::string prefix = layer_prefix(layer);
  const auto vector = [&](const std::string& name, int64_t size, double scale) {
    tensors.push_back(file.add(checkpoint, {prefix + name, {size}, false, scale, ""}, cancel));
  };
  const auto matrix = [&](const std::string& name, int64_t out, int64_t in, double scale = 1) {
    tensors.push_back(
        file.add(checkpoint, {prefix + name + ".weight", {out, in}, true, scale, ""}, cancel));
    if (checkpoint.find(prefix + name + ".bias") != nullptr) vector(name + ".bias", out, scale);
  };
  const int64_t hidden = shape.hidden_size;
  const double fold = 1 / std::sqrt(static_cast<double>(shape.head_dim));
  vector("input_layernorm.weight", hidden, 1);
  matrix("self_attn.q_proj", shape.q_width(), hidden, fold);
  matrix("self_attn.k_proj", shape.kv_width(), hidden);
  matrix("self_attn.v_proj", shape.kv_width(), hidden);
  matrix("self_attn.o_proj", hidden, shape.q_width());
  vector("post_attention_layernorm.weight", hidden, 1);
  matrix("mlp.gate_proj", shape.intermediate_size, hidden);
  matrix("mlp.up_proj", shape.intermediate_size, hidden);
  matrix("mlp.down_proj", hidden, shape.intermediate_size);
  return tensors;
}

std::string DecoderGraph::norm(const std::string& x, const std::string& weight) {
  const auto cast = [this](const std::string& from, int64_t to) {
    return writer_.node("Cast", {from}, {{"to", to}});
  };
  const bool half = type_ == ElementType::f16;
  const std::string wide = half ? cast(x, kOnnxFloat) : x;
  const std::string scale = half ? cast(weight, kOnnxFloat) : weight;
  const std::string eps =
      writer_.constant("rms_norm_eps", std::vector{static_cast<float>(shape_.rms_norm_eps)}, {1});
  const std::string square = writer_.node("Mul", {wide, wide});
  const std::string mean = writer_.node(
      "ReduceMean", {square}, {{"axes", std::vector<int64_t>{-1}}, {"keepdims", int64_t{1}}});
  const std::string root = writer_.node("Sqrt", {writer_.node("Add", {mean, eps})});
  const std::string normed = writer_.node("Mul", {writer_.node("Div", {wide, root}), scale});
  return half ? cast(normed, kOnnxFloat16) : normed;
}

std::string DecoderGraph::linear(const std::string& x, const std::string& name, bool bias) {
  const std::string product = writer_.node("MatMul", {x, name + ".weight"});
  return bias ? writer_.node("Add", {product, name + ".bias"}) : product;
}

std::string DecoderGraph::gated_mlp(const std::string& x, int64_t layer) {
  const std::string prefix = layer_prefix(layer) + "mlp.";
  const std::string gate = linear(x, prefix + "gate_proj");
  const std::string silu = writer_.node("Mul", {gate, writer_.node("Sigmoid", {gate})});
  const std::string up = linear(x, prefix + "up_proj");
  return linear(writer_.node("Mul", {silu, up}), prefix + "down_proj");
}

}  // namespace fathom
