#include "graph/export/four_graph_export.h"

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "graph/export/decoder_graph.h"
#include "graph/four_graph_names.h"
#include "numerics/elementary.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using Tensors = std::vector<onnx::ExternalTensor>;

// [max_len, head_dim / 2] of cosines and sines, by absolute position.
Tensors rope_tables(const DecoderShape& shape, int64_t max_len, WeightFile& file) {
  const int64_t half = shape.head_dim / 2;
  std::vector<float> cosines(static_cast<size_t>(max_len * half));
  std::vector<float> sines(cosines.size());
  for (int64_t p = 0; p < max_len; ++p) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(p) * shape.inverse_frequencies[static_cast<size_t>(i)];
      cosines[static_cast<size_t>(p * half + i)] = static_cast<float>(cos_f64(angle));
      sines[static_cast<size_t>(p * half + i)] = static_cast<float>(sin_f64(angle));
    }
  }
  return {file.add("cos_cache", {max_len, half}, cosines),
          file.add("sin_cache", {max_len, half}, sines)};
}

class Exporter {
 public:
  Exporter(const Checkpoint& checkpoint, const DecoderShape& shape, const FourGraphExport& options)
      : checkpoint_(checkpoint), shape_(shape), options_(options) {}

  void embedding() {
    WeightFile file(options_.out_folder, "embeddings.bin", ElementType::f32);
    const auto table = file.add(
        checkpoint_,
        {"model.embed_tokens.weight", {shape_.vocab_size, shape_.hidden_size}, false, 1, ""},
        options_.cancel);
    file.commit();
    onnx::GraphWriter writer("embeddings");
    writer.constant(table);
    writer.input({names_.input_ids, ElementType::i64, {1, -1}});
    writer.output({names_.input_hidden, ElementType::f32, {1, -1, shape_.hidden_size}});
    writer.node("Gather", {table.name, names_.input_ids}, {}, names_.input_hidden);
    finish(writer, "embeddings.onnx", file.bytes());
  }

  void decoder() {
    WeightFile file(options_.out_folder, "decoder.bin", ElementType::f32);
    Tensors tensors;
    for (int64_t layer = 0; layer < shape_.num_hidden_layers; ++layer) {
      const Tensors more = export_layer_weights(checkpoint_, shape_, layer, file, options_.cancel);
      tensors.insert(tensors.end(), more.begin(), more.end());
    }
    tensors.push_back(file.add(
        checkpoint_, {"model.norm.weight", {shape_.hidden_size}, false, 1, ""}, options_.cancel));
    const Tensors tables = rope_tables(shape_, options_.max_len, file);
    tensors.insert(tensors.end(), tables.begin(), tables.end());
    file.commit();
    bytes_ += file.bytes();
    ++files_;
    decoder_graph("context", options_.window, tensors);
    decoder_graph("iteration", 1, tensors);
  }

  void head() {
    const std::string name =
        shape_.tied ? "model.embed_tokens.weight" : std::string("lm_head.weight");
    WeightFile file(options_.out_folder, "lm_head.bin", ElementType::f32);
    const auto weight = file.add(
        checkpoint_, {name, {shape_.vocab_size, shape_.hidden_size}, true, 1, "lm_head.weight"},
        options_.cancel);
    file.commit();
    onnx::GraphWriter writer("lm_head");
    writer.constant(weight);
    writer.input({names_.output_hidden, ElementType::f32, {1, -1, shape_.hidden_size}});
    writer.output({names_.logits, ElementType::f32, {1, -1, shape_.vocab_size}});
    writer.node("MatMul", {names_.output_hidden, weight.name}, {}, names_.logits);
    finish(writer, "lm_head.onnx", file.bytes());
  }

  ExportResult result() const { return {files_, bytes_}; }

 private:
  void finish(const onnx::GraphWriter& writer, const std::string& name, uint64_t data_bytes) {
    const std::string path = options_.out_folder + "/" + name;
    writer.write(path);
    bytes_ += data_bytes + fs::file_size(path);
    files_ += data_bytes > 0 ? 2 : 1;
  }

  void decoder_graph(const std::string& name, int64_t rows, const Tensors& tensors) {
    onnx::GraphWriter writer(name);
    for (const onnx::ExternalTensor& tensor : tensors) writer.constant(tensor);
    const std::vector<int64_t> hidden_shape{1, rows, shape_.hidden_size};
    const std::vector<int64_t> kv_shape{1, shape_.num_key_value_heads, options_.max_len,
                                        shape_.head_dim};
    writer.input({names_.input_hidden, ElementType::f32, hidden_shape});
    writer.input({names_.past_length, ElementType::i32, {1, 1}});
    writer.input({names_.total_length, ElementType::i32, {1}});
    writer.output({names_.output_hidden, ElementType::f32, hidden_shape});
    // One length per sequence of the batch, as the operator takes it.
    const std::string lengths =
        writer.node("Reshape", {names_.past_length, writer.constant("one_dimension", {-1})});
    DecoderGraph graph(writer, shape_, ElementType::f32);
    std::string x = names_.input_hidden;
    for (int64_t layer = 0; layer < shape_.num_hidden_layers; ++layer) {
      const auto kv = [&](const std::string& pattern) { return numbered(pattern, layer); };
      writer.input({kv(names_.past_keys), ElementType::f32, kv_shape});
      writer.input({kv(names_.past_values), ElementType::f32, kv_shape});
      writer.output({kv(names_.present_keys), ElementType::f32, kv_shape});
      writer.output({kv(names_.present_values), ElementType::f32, kv_shape});
      const std::string prefix = layer_prefix(layer);
      const std::string normed = graph.norm(x, prefix + "input_layernorm.weight");
      const auto projected = [&](const std::string& part) {
        const std::string full = prefix + "self_attn." + part;
        return graph.linear(normed, full, checkpoint_.find(full + ".bias") != nullptr);
      };
      const std::string attended = prefix + "attention_out";
      writer.node(
          {"GroupQueryAttention",
           prefix + "attention",
           {projected("q_proj"), projected("k_proj"), projected("v_proj"), kv(names_.past_keys),
            kv(names_.past_values), lengths, names_.total_length, "cos_cache", "sin_cache"},
           {attended, kv(names_.present_keys), kv(names_.present_values)},
           {{"num_heads", shape_.num_attention_heads},
            {"kv_num_heads", shape_.num_key_value_heads},
            {"do_rotary", int64_t{1}},
            {"rotary_interleaved", int64_t{0}},
            {"scale", 1.0}}});
      x = writer.node(
          "Add", {x, graph.linear(attended, prefix + "self_attn.o_proj",
                                  checkpoint_.find(prefix + "self_attn.o_proj.bias") != nullptr)});
      const std::string mlp =
          graph.gated_mlp(graph.norm(x, prefix + "post_attention_layernorm.weight"), layer);
      x = writer.node("Add", {x, mlp});
    }
    writer.node("Identity", {graph.norm(x, "model.norm.weight")}, {}, names_.output_hidden);
    finish(writer, name + ".onnx", 0);
  }

  const Checkpoint& checkpoint_;
  const DecoderShape& shape_;
  const FourGraphExport& options_;
  FourGraphNames names_;
  int files_ = 0;
  uint64_t bytes_ = 0;
};

std::string genai_config(const DecoderShape& shape, const GenerationConfig& generation,
                         const FourGraphExport& options) {
  const FourGraphNames names;
  std::vector<std::string> past;
  std::vector<std::string> present;
  for (int64_t layer = 0; layer < shape.num_hidden_layers; ++layer) {
    past.push_back(numbered(names.past_keys, layer));
    past.push_back(numbered(names.past_values, layer));
    present.push_back(numbered(names.present_keys, layer));
    present.push_back(numbered(names.present_values, layer));
  }
  std::vector<std::string> decoder_inputs{names.input_hidden, names.past_length,
                                          names.total_length};
  decoder_inputs.insert(decoder_inputs.end(), past.begin(), past.end());
  std::vector<std::string> decoder_outputs{names.output_hidden};
  decoder_outputs.insert(decoder_outputs.end(), present.begin(), present.end());
  const auto stage = [](const char* file, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs) {
    return ordered_json{{"filename", file}, {"inputs", inputs}, {"outputs", outputs}};
  };
  ordered_json context = stage("context.onnx", decoder_inputs, decoder_outputs);
  context["run_on_token_gen"] = false;
  ordered_json iteration = stage("iteration.onnx", decoder_inputs, decoder_outputs);
  iteration["run_on_prompt"] = false;
  ordered_json head = stage("lm_head.onnx", {names.output_hidden}, {names.logits});
  head["is_lm_head"] = true;
  const int64_t eos = generation.eos_token_ids.empty() ? 0 : generation.eos_token_ids.front();
  ordered_json pipeline = ordered_json::array();
  pipeline.push_back(
      {{"embeddings", stage("embeddings.onnx", {names.input_ids}, {names.input_hidden})}});
  pipeline.push_back({{"context", context}});
  pipeline.push_back({{"iteration", iteration}});
  pipeline.push_back({{"lm_head", head}});
  ordered_json decoder;
  decoder["head_size"] = shape.head_dim;
  decoder["hidden_size"] = shape.hidden_size;
  decoder["num_attention_heads"] = shape.num_attention_heads;
  decoder["num_hidden_layers"] = shape.num_hidden_layers;
  decoder["num_key_value_heads"] = shape.num_key_value_heads;
  decoder["inputs"] = {{"input_ids", names.input_ids},
                       {"past_sequence_length", names.past_length},
                       {"total_sequence_length", names.total_length},
                       {"past_key_names", names.past_keys},
                       {"past_value_names", names.past_values}};
  decoder["outputs"] = {{"logits", names.logits},
                        {"present_key_names", names.present_keys},
                        {"present_value_names", names.present_values}};
  decoder["sliding_window"] = {{"window_size", options.window},
                               {"pad_value", eos},
                               {"alignment", "left"},
                               {"slide_key_value_cache", false}};
  decoder["pipeline"] = pipeline;
  ordered_json model;
  model["type"] = "decoder-pipeline";
  model["bos_token_id"] = generation.bos_token_id.value_or(0);
  model["eos_token_id"] = generation.eos_token_ids;
  model["pad_token_id"] = eos;
  model["vocab_size"] = shape.vocab_size;
  model["context_length"] = options.max_len;
  model["decoder"] = decoder;
  ordered_json search;
  search["max_length"] = options.max_len;
  search["do_sample"] = generation.do_sample.value_or(false);
  if (generation.temperature) search["temperature"] = *generation.temperature;
  if (generation.top_p) search["top_p"] = *generation.top_p;
  if (generation.top_k) search["top_k"] = *generation.top_k;
  return ordered_json{{"model", model}, {"search", search}}.dump(2) + "\n";
}

void check(const DecoderShape& shape, const FourGraphExport& options) {
  if (options.window < 1) fail_usage("--window: {} is no number of rows", options.window);
  if (options.max_len <= options.window) {
    fail_usage("--max-len: {} rows must be more than the window of {}", options.max_len,
               options.window);
  }
  if (shape.head_dim % 16 != 0) {
    fail_input(
        "head_dim {} is no multiple of 16, which GroupQueryAttention with rotary positions "
        "needs",
        shape.head_dim);
  }
  for (const char* name :
       {"embeddings.onnx", "context.onnx", "iteration.onnx", "lm_head.onnx", "genai_config.json"}) {
    if (fs::exists(fs::path(options.out_folder) / name)) {
      fail_usage("{}/{} is there already: nothing was written", options.out_folder, name);
    }
  }
}

}  // namespace

int copy_text_files(const std::string& from, const std::string& to) {
  constexpr std::array kFiles = {"tokenizer.json", "tokenizer_config.json",
                                 "generation_config.json", "chat_template.jinja",
                                 "special_tokens_map.json"};
  int copied = 0;
  for (const char* name : kFiles) {
    const fs::path source = fs::path(from) / name;
    std::error_code ignored;
    if (!fs::is_regular_file(source, ignored)) continue;
    OutputFile file((fs::path(to) / name).string());
    file.write(read_text(source.string()));
    file.commit();
    ++copied;
  }
  return copied;
}

ExportResult export_four_graphs(const Checkpoint& checkpoint, const DecoderShape& shape,
                                const GenerationConfig& generation,
                                const FourGraphExport& options) {
  check(shape, options);
  std::error_code error;
  fs::create_directories(options.out_folder, error);
  if (error) fail(ErrorKind::io, "{}: cannot be made: {}", options.out_folder, error.message());
  Exporter exporter(checkpoint, shape, options);
  exporter.embedding();
  exporter.decoder();
  exporter.head();
  ExportResult result = exporter.result();
  result.files += copy_text_files(checkpoint.folder(), options.out_folder);
  OutputFile config(options.out_folder + "/genai_config.json");
  config.write(genai_config(shape, generation, options));
  config.commit();
  ++result.files;
  return result;
}

}  // namespace fathom
