#include "graph/export/qhx_export.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "graph/export/decoder_graph.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using Tensors = std::vector<onnx::ExternalTensor>;
using Dims = std::vector<int64_t>;

// The attention of one layer, written out in plain operators. Rows is 1 for decode.
class AttentionGraph {
 public:
  AttentionGraph(onnx::GraphWriter& writer, DecoderGraph& graph, const DecoderShape& shape,
                 int64_t max_ctx)
      : writer_(writer), graph_(graph), shape_(shape), max_ctx_(max_ctx) {}

  struct Projections {
    std::string q, k, v;
  };
  Projections project(const std::string& x, int64_t layer, const Checkpoint& checkpoint) {
    const auto one = [&](const char* part) {
      const std::string name = layer_prefix(layer) + "self_attn." + part;
      return graph_.linear(x, name, checkpoint.find(name + ".bias") != nullptr);
    };
    return {one("q_proj"), one("k_proj"), one("v_proj")};
  }

  // One row against past rows and itself: its own score is a product of its own, so that what the
  // graph is given of the past is not copied to hold one row more.
  std::string decode(const Projections& in, int64_t layer) {
    const std::string suffix = std::to_string(layer);
    const std::string q =
        reshape(rotated(reshape(in.q, {heads(), dim()}), 1), {kv_heads(), group(), dim()});
    const std::string k = rotated(reshape(in.k, {kv_heads(), dim()}), 1);
    reshape(k, {1, shape_.kv_width()}, "new_k_" + suffix);
    writer_.node("Identity", {in.v}, {}, "new_v_" + suffix);
    const std::string past_k =
        transpose(reshape("past_k_" + suffix, {max_ctx_, kv_heads(), dim()}), {1, 2, 0});
    const std::string past_v =
        transpose(reshape("past_v_" + suffix, {max_ctx_, kv_heads(), dim()}), {1, 0, 2});
    const std::string past_scores =
        writer_.node("Add", {writer_.node("MatMul", {q, past_k}), "cmask"});
    const std::string own_score = writer_.node("MatMul", {q, reshape(k, {kv_heads(), dim(), 1})});
    const std::string weights = writer_.node(
        "Softmax", {writer_.node("Concat", {past_scores, own_score}, {{"axis", int64_t{2}}})},
        {{"axis", int64_t{2}}});
    const std::string from_past = writer_.node("MatMul", {slice(weights, 0, max_ctx_, 2), past_v});
    const std::string from_own = writer_.node("MatMul", {slice(weights, max_ctx_, max_ctx_ + 1, 2),
                                                         reshape(in.v, {kv_heads(), 1, dim()})});
    return reshape(writer_.node("Add", {from_past, from_own}), {1, shape_.q_width()});
  }

  // All rows at once, each seeing what cmask [rows, rows] leaves open.
  std::string prefill(const Projections& in, int64_t layer, int64_t rows) {
    const std::string suffix = std::to_string(layer);
    const std::string q =
        rotated(transpose(reshape(in.q, {rows, kv_heads(), group(), dim()}), {1, 2, 0, 3}), 3);
    const std::string k =
        rotated(transpose(reshape(in.k, {rows, kv_heads(), dim()}), {1, 0, 2}), 2);
    reshape(transpose(k, {1, 0, 2}), {rows, shape_.kv_width()}, "new_k_" + suffix);
    writer_.node("Identity", {in.v}, {}, "new_v_" + suffix);
    const std::string keys = reshape(transpose(k, {0, 2, 1}), {kv_heads(), 1, dim(), rows});
    const std::string values =
        reshape(transpose(reshape(in.v, {rows, kv_heads(), dim()}), {1, 0, 2}),
                {kv_heads(), 1, rows, dim()});
    const std::string scores = writer_.node("Add", {writer_.node("MatMul", {q, keys}), "cmask"});
    const std::string weights = writer_.node("Softmax", {scores}, {{"axis", int64_t{3}}});
    return reshape(transpose(writer_.node("MatMul", {weights, values}), {2, 0, 1, 3}),
                   {rows, shape_.q_width()});
  }

 private:
  int64_t heads() const { return shape_.num_attention_heads; }
  int64_t kv_heads() const { return shape_.num_key_value_heads; }
  int64_t group() const { return heads() / kv_heads(); }
  int64_t dim() const { return shape_.head_dim; }

  std::string reshape(const std::string& x, const Dims& shape, const std::string& output = "") {
    std::string name = "shape";
    for (const int64_t size : shape) name += "_" + std::to_string(size);
    return writer_.node("Reshape", {x, writer_.constant(name, shape)}, {}, output);
  }
  std::string transpose(const std::string& x, const Dims& order) {
    return writer_.node("Transpose", {x}, {{"perm", order}});
  }
  std::string slice(const std::string& x, int64_t begin, int64_t end, int64_t axis) {
    const auto number = [this](int64_t value) {
      return writer_.constant("number_" + std::to_string(value), Dims{value});
    };
    return writer_.node("Slice", {x, number(begin), number(end), number(axis)});
  }
  // x * cos + (-second half, first half) * sin along the last axis.
  std::string rotated(const std::string& x, int64_t axis) {
    const std::string first = slice(x, 0, dim() / 2, axis);
    const std::string second = slice(x, dim() / 2, dim(), axis);
    const std::string turned =
        writer_.node("Concat", {writer_.node("Neg", {second}), first}, {{"axis", axis}});
    return writer_.node("Add",
                        {writer_.node("Mul", {x, "cos"}), writer_.node("Mul", {turned, "sin"})});
  }

  onnx::GraphWriter& writer_;
  DecoderGraph& graph_;
  const DecoderShape& shape_;
  int64_t max_ctx_;
};

class BundleExporter {
 public:
  BundleExporter(const Checkpoint& checkpoint, const DecoderShape& shape, const QhxExport& options)
      : checkpoint_(checkpoint),
        shape_(shape),
        options_(options),
        folder_(options.out_folder + "/v" + std::to_string(options.dsp_arch)) {}

  const std::string& folder() const { return folder_; }

  void embed() {
    WeightFile file(folder_, "embed_f16.bin", ElementType::f16);
    file.add(checkpoint_, {kEmbedding, {shape_.vocab_size, shape_.hidden_size}, false, 1, ""},
             options_.cancel);
    count(file);
  }

  void decode() {
    Tensors all;
    for (int64_t shard = 0; shard < options_.shards; ++shard) {
      const int64_t first = shape_.num_hidden_layers * shard / options_.shards;
      const int64_t end = shape_.num_hidden_layers * (shard + 1) / options_.shards;
      const std::string name =
          options_.shards == 1 ? "decode_f16" : "decode_p" + std::to_string(shard) + "_f16";
      WeightFile file(folder_, name + ".data", ElementType::f16);
      Tensors tensors;
      for (int64_t layer = first; layer < end; ++layer) {
        const Tensors more =
            export_layer_weights(checkpoint_, shape_, layer, file, options_.cancel);
        tensors.insert(tensors.end(), more.begin(), more.end());
      }
      count(file);
      graph(name, 1, first, end, tensors);
      decode_files_.push_back(name + ".onnx");
      all.insert(all.end(), tensors.begin(), tensors.end());
    }
    if (options_.prefill_rows > 0) {
      graph("prefill_f16", options_.prefill_rows, 0, shape_.num_hidden_layers, all);
    }
  }

  void lmhead() {
    WeightFile file(folder_, "lmhead_f16.data", ElementType::f16);
    const auto norm = file.add(
        checkpoint_, {"model.norm.weight", {shape_.hidden_size}, false, 1, ""}, options_.cancel);
    const auto weight = file.add(checkpoint_,
                                 {shape_.tied ? kEmbedding : "lm_head.weight",
                                  {shape_.vocab_size, shape_.hidden_size},
                                  true,
                                  1,
                                  "lm_head.weight"},
                                 options_.cancel);
    count(file);
    onnx::GraphWriter writer("lmhead");
    writer.constant(norm);
    writer.constant(weight);
    writer.input({"x", ElementType::f16, {1, shape_.hidden_size}});
    writer.output({"logits", ElementType::f16, {1, shape_.vocab_size}});
    DecoderGraph graph(writer, shape_, ElementType::f16);
    writer.node("MatMul", {graph.norm("x", "model.norm.weight"), weight.name}, {}, "logits");
    write(writer, "lmhead_f16.onnx");
  }

  void manifest(const GenerationConfig& generation) {
    using nlohmann::ordered_json;
    ordered_json contexts;
    if (options_.prefill_rows > 0) {
      contexts["prefill"] = {{"bin", "prefill_f16.onnx"}, {"rows", options_.prefill_rows}};
    }
    if (options_.shards == 1) {
      contexts["decode"] = {{"bin", decode_files_[0]}};
    } else {
      ordered_json shards = ordered_json::array();
      for (const std::string& file : decode_files_) shards.push_back({{"bin", file}});
      contexts["decode"] = {{"shards", shards}};
    }
    contexts["lmhead"] = {{"bin", "lmhead_f16.onnx"}};
    ordered_json bos = ordered_json::array();
    if (generation.bos_token_id) bos.push_back(*generation.bos_token_id);
    const ordered_json document{
        {"schema_version", 1},
        {"model",
         {{"name", fs::path(checkpoint_.folder()).filename().string()},
          {"family", shape_.architecture},
          {"dsp_arch", "v" + std::to_string(options_.dsp_arch)}}},
        {"params",
         {{"hidden", shape_.hidden_size},
          {"vocab", shape_.vocab_size},
          {"n_layers", shape_.num_hidden_layers},
          {"max_ctx", options_.max_ctx},
          {"kv_dim", shape_.kv_width()},
          {"head_dim", shape_.head_dim},
          {"rope_theta", shape_.rope_theta},
          {"eos_token_id", generation.eos_token_ids}}},
        {"artifacts",
         {{"contexts", contexts}, {"embed", "embed_f16.bin"}, {"tokenizer", "tokenizer.json"}}},
        {"plan", {{"decode", "decode"}, {"lmhead", "lmhead"}, {"prefill", "prefill"}}},
        {"chat", {{"bos", bos}}}};
    OutputFile file(folder_ + "/manifest.json");
    file.write(document.dump(2) + "\n");
    file.commit();
    ++result_.files;
  }

  ExportResult result() const { return result_; }

 private:
  static constexpr const char* kEmbedding = "model.embed_tokens.weight";

  void count(WeightFile& file) {
    file.commit();
    result_.bytes += file.bytes();
    ++result_.files;
  }
  void write(const onnx::GraphWriter& writer, const std::string& name) {
    writer.write(folder_ + "/" + name);
    result_.bytes += fs::file_size(folder_ + "/" + name);
    ++result_.files;
  }

  void graph(const std::string& name, int64_t rows, int64_t first, int64_t end,
             const Tensors& tensors) {
    onnx::GraphWriter writer(name);
    for (const onnx::ExternalTensor& tensor : tensors) writer.constant(tensor);
    const auto half = [](const std::string& tensor, const Dims& dims) {
      return TensorSpec{tensor, ElementType::f16, dims};
    };
    const bool one = rows == 1;
    writer.input(half("x", {rows, shape_.hidden_size}));
    writer.input(half("cos", {rows, shape_.head_dim}));
    writer.input(half("sin", {rows, shape_.head_dim}));
    writer.input(half("cmask", one ? Dims{options_.max_ctx} : Dims{rows, rows}));
    writer.output(half("y", {rows, shape_.hidden_size}));
    DecoderGraph parts(writer, shape_, ElementType::f16);
    AttentionGraph attention(writer, parts, shape_, options_.max_ctx);
    std::string x = "x";
    for (int64_t layer = first; layer < end; ++layer) {
      const std::string suffix = std::to_string(layer);
      const Dims past{options_.max_ctx, shape_.kv_width()};
      const Dims row{rows, shape_.kv_width()};
      if (one) {
        writer.input(half("past_k_" + suffix, past));
        writer.input(half("past_v_" + suffix, past));
      }
      writer.output(half("new_k_" + suffix, row));
      writer.output(half("new_v_" + suffix, row));
      const std::string prefix = layer_prefix(layer);
      const auto projections =
          attention.project(parts.norm(x, prefix + "input_layernorm.weight"), layer, checkpoint_);
      const std::string attended =
          one ? attention.decode(projections, layer) : attention.prefill(projections, layer, rows);
      const std::string output = prefix + "self_attn.o_proj";
      x = writer.node("Add", {x, parts.linear(attended, output,
                                              checkpoint_.find(output + ".bias") != nullptr)});
      x = writer.node(
          "Add",
          {x, parts.gated_mlp(parts.norm(x, prefix + "post_attention_layernorm.weight"), layer)});
    }
    writer.node("Identity", {x}, {}, "y");
    write(writer, name + ".onnx");
  }

  const Checkpoint& checkpoint_;
  const DecoderShape& shape_;
  const QhxExport& options_;
  std::string folder_;
  std::vector<std::string> decode_files_;
  ExportResult result_;
};

void check(const DecoderShape& shape, const QhxExport& options) {
  if (options.shards < 1 || options.shards > shape.num_hidden_layers) {
    fail_usage("--shards: {} is not between 1 and the {} layers", options.shards,
               shape.num_hidden_layers);
  }
  if (options.max_ctx < 2) fail_usage("--max-ctx: {} positions are too few", options.max_ctx);
  if (options.prefill_rows < 0 || options.prefill_rows == 1 ||
      options.prefill_rows > options.max_ctx) {
    fail_usage("--prefill-rows: {} is neither 0 nor between 2 and the {} positions",
               options.prefill_rows, options.max_ctx);
  }
}

// A bundle's host makes plain rotary tables from theta alone.
void require_plain_rope(const DecoderShape& shape, const std::string& folder) {
  const double second = shape.inverse_frequencies.size() > 1 ? shape.inverse_frequencies.back() : 1;
  const auto half = static_cast<double>(shape.head_dim) / 2;
  const double plain = std::pow(shape.rope_theta, -(half - 1) / half);
  if (std::abs(second / plain - 1) > 1e-6) {
    fail_input(
        "{}: rope_scaling: a bundle's manifest has rope_theta alone, so scaled positions "
        "cannot be exported",
        folder);
  }
}

}  // namespace

ExportResult export_qhx_bundle(const Checkpoint& checkpoint, const DecoderShape& shape,
                               const GenerationConfig& generation, const QhxExport& options) {
  check(shape, options);
  require_plain_rope(shape, checkpoint.folder());
  BundleExporter exporter(checkpoint, shape, options);
  if (fs::exists(exporter.folder())) {
    fail_usage("{} is there already: nothing was written", exporter.folder());
  }
  std::error_code error;
  fs::create_directories(exporter.folder(), error);
  if (error) fail(ErrorKind::io, "{}: cannot be made: {}", exporter.folder(), error.message());
  exporter.embed();
  exporter.decode();
  exporter.lmhead();
  copy_text_files(checkpoint.folder(), exporter.folder());
  exporter.manifest(generation);
  return exporter.result();
}

}  // namespace fathom
