#include "graph/qhexrt/bundle.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/join.h"
#include "base/log.h"
#include "base/system.h"
#include "graph/onnx/model_files.h"
#include "graph/qhexrt/context_wrapper.h"
#include "graph/qhexrt/names.h"
#include "numerics/elementary.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

int64_t number_of(const std::string& text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

QhexrtManifest read_qhexrt_manifest(const std::string& folder, const GraphChoice& choice) {
  const std::string path =
      choice.manifest.empty() ? find_qhexrt_manifest(folder, choice.qnn) : choice.manifest;
  return parse_qhexrt_manifest(read_text(path, kMostManifestBytes), path);
}

File open_qhexrt_embedding(const QhexrtManifest& manifest, const std::string& root) {
  File file((fs::path(root) / manifest.embed).string());
  const auto expected = static_cast<uint64_t>(manifest.vocab * manifest.hidden) * 2;
  if (file.size() != expected) {
    fail_input("{}: {} bytes, but {} x {} values of float16 are {}", file.path(), file.size(),
               manifest.vocab, manifest.hidden, expected);
  }
  return file;
}

std::string artifacts_of(const QhexrtManifest& manifest, const GraphChoice& choice) {
  if (!choice.artifacts.empty()) return choice.artifacts;
  return fs::path(manifest.path).parent_path().string();
}

QhexrtModel::QhexrtModel(QhexrtManifest manifest, const GraphChoice& choice)
    : manifest_(std::move(manifest)), root_(artifacts_of(manifest_, choice)), choice_(choice) {
  check_qhexrt_target(manifest_, choice.qnn);
  check_files();
  const auto binary = std::find_if(manifest_.decode.begin(), manifest_.decode.end(),
                                   [](const QhexrtContext& c) { return c.is_binary(); });
  const bool needs_npu = binary != manifest_.decode.end() || manifest_.lmhead.is_binary();
  sessions_ = std::make_unique<GraphSessions>(choice, needs_npu);
  if (needs_npu && sessions_->provider() != Provider::qnn) {
    fail_input("{}: its contexts are QNN binaries, which run on a Hexagon NPU only: {}",
               manifest_.path, sessions_->provider_reason());
  }
  for (int64_t i = 0; 2 * i < manifest_.head_dim; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(manifest_.head_dim);
    frequencies_.push_back(pow_f64(manifest_.rope_theta, exponent));
  }
  const int64_t kv = manifest_.n_layers * manifest_.max_ctx * manifest_.kv_dim;
  keys_ = Halves(kv);
  values_ = Halves(kv);
  for (Halves& x : x_) x = Halves(manifest_.hidden);
  cos_ = Halves(manifest_.head_dim);
  sin_ = Halves(manifest_.head_dim);
  cmask_ = Halves(manifest_.max_ctx);
  new_kv_ = Halves(2 * manifest_.n_layers * manifest_.kv_dim);
  open_decode();
  if (choice_.prefill) open_prefill();
  open_head();

  shape_.contract = "QHexRT bundle";
  shape_.name = manifest_.name;
  shape_.vocab_size = manifest_.vocab;
  shape_.hidden_size = manifest_.hidden;
  shape_.num_hidden_layers = manifest_.n_layers;
  shape_.max_len = manifest_.max_ctx;
  shape_.window = prefill_ ? prefill_rows_ : 1;
  shape_.file_bytes = bytes_of_files();
  shape_.kv_bytes = static_cast<uint64_t>(2 * kv) * sizeof(uint16_t);
  shape_.eos_ids = manifest_.eos_ids;
  shape_.bos_ids = manifest_.bos_ids;
}

QhexrtModel::~QhexrtModel() {
  if (temporary_.empty()) return;
  decode_.clear();
  prefill_.reset();
  head_.reset();
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

std::string QhexrtModel::path_of(const std::string& file) const {
  return (fs::path(root_) / file).string();
}

// Of what is loaded: contexts, the data files of those that are ONNX, the embedding.
uint64_t QhexrtModel::bytes_of_files() const {
  uint64_t bytes = embed_.size();
  std::set<fs::path> files;
  const auto add = [&](const QhexrtContext& context) {
    const fs::path path = path_of(context.file);
    files.insert(path);
    if (context.is_binary()) return;
    for (const std::string& data : onnx::read_model_files(path.string()).data_files) {
      files.insert(path.parent_path() / data);
    }
  };
  for (const QhexrtContext& context : manifest_.decode) add(context);
  add(manifest_.lmhead);
  if (prefill_) add(*manifest_.prefill);
  for (const fs::path& file : files) bytes += fs::file_size(file);
  return bytes;
}

void QhexrtModel::check_files() {
  std::vector<std::string> missing;
  const auto need = [&](const std::string& file, const std::string& what) {
    std::error_code ignored;
    if (!fs::exists(path_of(file), ignored)) missing.push_back(file + " (" + what + ")");
  };
  for (size_t i = 0; i < manifest_.decode.size(); ++i) {
    need(manifest_.decode[i].file,
         manifest_.decode.size() == 1
             ? "decode"
             : fmt::format("decode shard {} of {}", i + 1, manifest_.decode.size()));
  }
  need(manifest_.lmhead.file, "lmhead");
  if (choice_.prefill && manifest_.prefill) need(manifest_.prefill->file, "prefill");
  need(manifest_.embed, "embedding");
  if (!missing.empty()) {
    fail_input("{}: files that it names are missing in {}:\n  {}", manifest_.path, root_,
               join(missing, "\n  "));
  }
  embed_ = open_qhexrt_embedding(manifest_, root_);
}

std::string QhexrtModel::work_folder() {
  if (!choice_.work_folder.empty()) {
    fs::create_directories(choice_.work_folder);
    return choice_.work_folder;
  }
  if (temporary_.empty()) {
    temporary_ = system::temporary_name((fs::temp_directory_path() / "fathom-contexts").string());
    fs::create_directories(temporary_);
  }
  return temporary_;
}

std::vector<TensorSpec> QhexrtModel::decoder_inputs(int64_t rows, int64_t first,
                                                    int64_t layers) const {
  const auto half = [](std::string name, std::vector<int64_t> shape) {
    return TensorSpec{std::move(name), ElementType::f16, std::move(shape)};
  };
  const bool one = rows == 1;
  std::vector<TensorSpec> specs{
      half("x", {rows, manifest_.hidden}), half("cos", {rows, manifest_.head_dim}),
      half("sin", {rows, manifest_.head_dim}),
      half("cmask", one ? std::vector{manifest_.max_ctx} : std::vector{rows, rows})};
  if (!one) return specs;
  for (int64_t i = 0; i < layers; ++i) {
    const std::string suffix = std::to_string(manifest_.local_layer_names ? i : first + i);
    specs.push_back(half(kPastKeys + suffix, {manifest_.max_ctx, manifest_.kv_dim}));
    specs.push_back(half(kPastValues + suffix, {manifest_.max_ctx, manifest_.kv_dim}));
  }
  return specs;
}

std::vector<TensorSpec> QhexrtModel::decoder_outputs(int64_t rows, int64_t first,
                                                     int64_t layers) const {
  std::vector<TensorSpec> specs{{"y", ElementType::f16, {rows, manifest_.hidden}}};
  for (int64_t i = 0; i < layers; ++i) {
    const std::string suffix = std::to_string(manifest_.local_layer_names ? i : first + i);
    specs.push_back({kNewKeys + suffix, ElementType::f16, {rows, manifest_.kv_dim}});
    specs.push_back({kNewValues + suffix, ElementType::f16, {rows, manifest_.kv_dim}});
  }
  return specs;
}

std::unique_ptr<GraphRunner> QhexrtModel::open(const std::string& role,
                                               const QhexrtContext& context,
                                               const std::vector<TensorSpec>& inputs,
                                               const std::vector<TensorSpec>& outputs) {
  GraphFile file;
  file.name = role;
  file.path = path_of(context.file);
  if (context.is_binary()) {
    file.path =
        write_context_wrapper({role, file.path, context.graph, inputs, outputs}, work_folder());
  }
  file.must_use_npu = true;
  return sessions_->open(file);
}

QhexrtModel::Layers QhexrtModel::layers_of(const GraphRunner& runner, int64_t first,
                                           bool has_past) const {
  Layers layers;
  layers.first = first;
  std::vector<std::string> unknown;
  for (const TensorSpec& spec : runner.outputs()) {
    if (spec.name.starts_with(kNewKeys)) {
      layers.suffixes.push_back(spec.name.substr(std::string_view(kNewKeys).size()));
    } else if (!spec.name.starts_with(kNewValues) && spec.name != "y") {
      unknown.push_back("output " + describe(spec));
    }
  }
  std::sort(layers.suffixes.begin(), layers.suffixes.end(),
            [](const std::string& a, const std::string& b) { return number_of(a) < number_of(b); });
  for (const TensorSpec& spec : runner.inputs()) {
    const bool known =
        spec.name == "x" || spec.name == "cos" || spec.name == "sin" || spec.name == "cmask" ||
        (has_past && (spec.name.starts_with(kPastKeys) || spec.name.starts_with(kPastValues)));
    if (!known) unknown.push_back("input " + describe(spec));
  }
  if (!unknown.empty()) {
    fail_input("{}: graph {}: tensors that the contract does not know: {}", runner.file(),
               runner.name(), join(unknown, "; "));
  }
  for (const std::string& suffix : layers.suffixes) {
    runner.output(kNewValues + suffix);
    if (!has_past) continue;
    runner.input(kPastKeys + suffix);
    runner.input(kPastValues + suffix);
  }
  return layers;
}

void QhexrtModel::open_decode() {
  const auto shards = static_cast<int64_t>(manifest_.decode.size());
  int64_t first = 0;
  for (int64_t i = 0; i < shards; ++i) {
    const QhexrtContext& context = manifest_.decode[static_cast<size_t>(i)];
    const int64_t share = context.layers > 0 ? context.layers
                                             : manifest_.n_layers * (i + 1) / shards -
                                                   manifest_.n_layers * i / shards;
    const std::string role = shards == 1 ? "decode" : "decode_p" + std::to_string(i);
    decode_.push_back(
        open(role, context, decoder_inputs(1, first, share), decoder_outputs(1, first, share)));
    decode_layers_.push_back(layers_of(*decode_.back(), first, true));
    first += static_cast<int64_t>(decode_layers_.back().suffixes.size());
  }
  if (first != manifest_.n_layers) {
    fail_input("{}: params.n_layers is {}, but the decode graphs have {} together", manifest_.path,
               manifest_.n_layers, first);
  }
  for (int64_t i = 0; i < shards; ++i) {
    GraphRunner& runner = *decode_[static_cast<size_t>(i)];
    const Layers& layers = decode_layers_[static_cast<size_t>(i)];
    runner.bind_input(half_view("x", {1, manifest_.hidden}, x_[i % 2].data()));
    runner.bind_output(half_view("y", {1, manifest_.hidden}, x_[(i + 1) % 2].data()));
    runner.bind_input(half_view("cos", {1, manifest_.head_dim}, cos_.data()));
    runner.bind_input(half_view("sin", {1, manifest_.head_dim}, sin_.data()));
    runner.bind_input(half_view("cmask", {manifest_.max_ctx}, cmask_.data()));
    for (size_t n = 0; n < layers.suffixes.size(); ++n) {
      const int64_t layer = layers.first + static_cast<int64_t>(n);
      const std::string& suffix = layers.suffixes[n];
      const std::vector<int64_t> past{manifest_.max_ctx, manifest_.kv_dim};
      const std::vector<int64_t> row{1, manifest_.kv_dim};
      uint16_t* fresh = new_kv_.data() + 2 * layer * manifest_.kv_dim;
      runner.bind_input(half_view(kPastKeys + suffix, past, key_row(layer, 0)));
      runner.bind_input(half_view(kPastValues + suffix, past, value_row(layer, 0)));
      runner.bind_output(half_view(kNewKeys + suffix, row, fresh));
      runner.bind_output(half_view(kNewValues + suffix, row, fresh + manifest_.kv_dim));
    }
  }
}

void QhexrtModel::open_prefill() {
  if (!manifest_.prefill) fail_usage("{}: there is no prefill graph to use", manifest_.path);
  const int64_t rows = manifest_.prefill_rows;
  if (manifest_.prefill->is_binary() && rows == 0) {
    fail_input(
        "{}: artifacts.contexts.prefill.rows is missing, without which the binary's shapes "
        "are not known",
        manifest_.path);
  }
  prefill_ = open("prefill", *manifest_.prefill, decoder_inputs(rows, 0, manifest_.n_layers),
                  decoder_outputs(rows, 0, manifest_.n_layers));
  prefill_layers_ = layers_of(*prefill_, 0, false);
  const TensorSpec& x = prefill_->input("x");
  prefill_rows_ = x.shape.empty() ? 0 : x.shape[0];
  if (prefill_rows_ < 1 || prefill_rows_ > manifest_.max_ctx) {
    fail_input("{}: graph prefill: {}: a fixed number of rows up to max_ctx {} is expected",
               prefill_->file(), describe(x), manifest_.max_ctx);
  }
  if (static_cast<int64_t>(prefill_layers_.suffixes.size()) != manifest_.n_layers) {
    fail_input("{}: graph prefill: {} layers, but params.n_layers is {}", prefill_->file(),
               prefill_layers_.suffixes.size(), manifest_.n_layers);
  }
}

void QhexrtModel::open_head() {
  head_ = open("lmhead", manifest_.lmhead,
               {{manifest_.lmhead_input, ElementType::f16, {1, manifest_.hidden}}},
               {{manifest_.lmhead_output, ElementType::f16, {1, manifest_.vocab}}});
  if (head_->inputs().size() != 1 || head_->outputs().size() != 1) {
    fail_input("{}: graph lmhead: {} inputs and {} outputs; one of each is expected", head_->file(),
               head_->inputs().size(), head_->outputs().size());
  }
  head_input_ = head_->inputs()[0];
  head_output_ = head_->outputs()[0];
}

std::vector<GraphRunner*> QhexrtModel::graphs() {
  std::vector<GraphRunner*> result;
  if (prefill_) result.push_back(prefill_.get());
  for (const auto& runner : decode_) result.push_back(runner.get());
  result.push_back(head_.get());
  return result;
}

}  // namespace fathom
