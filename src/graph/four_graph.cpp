#include "graph/four_graph.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "graph/onnx/model_files.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kAnyRowsAtOnce = 64;

uint64_t bytes_of(const std::string& folder, const FourGraphConfig& config) {
  std::vector<std::string> names;
  const auto add = [&names](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const FourGraphStage& stage : config.stages) {
    add(stage.file);
    const onnx::ModelFiles files = onnx::read_model_files(folder + "/" + stage.file);
    for (const std::string& data : files.data_files) add(data);
    for (const onnx::ContextNode& context : files.contexts) {
      if (!context.file.empty()) add(context.file);
    }
  }
  uint64_t bytes = 0;
  for (const std::string& name : names) bytes += fs::file_size(fs::path(folder) / name);
  return bytes;
}

}  // namespace

FourGraphModel::FourGraphModel(const std::string& folder, FourGraphConfig config,
                               const GraphChoice& choice)
    : folder_(folder), config_(std::move(config)) {
  const bool wants_qnn = std::any_of(std::begin(config_.stages), std::end(config_.stages),
                                     [](const FourGraphStage& stage) { return stage.wants_qnn; });
  sessions_ = std::make_unique<GraphSessions>(choice, wants_qnn);
  shape_.contract = "four graphs";
  shape_.file_bytes = bytes_of(folder_, config_);
  shape_.eos_ids = config_.eos_ids;
  read_shapes();
  const int64_t total = shape_.num_hidden_layers * 2 * layer_values_;
  for (Array<float>& kv : kv_) kv = Array<float>(total);
  input_ = Array<float>(shape_.window * shape_.hidden_size);
  output_ = Array<float>(shape_.window * shape_.hidden_size);
  shape_.kv_bytes = static_cast<uint64_t>(2 * total) * sizeof(float);
}

GraphRunner& FourGraphModel::stage(StageRole role) {
  const FourGraphStage& stage = config_.stage(role);
  if (stage.reset && *stage.reset != role) runners_[static_cast<int>(*stage.reset)].reset();
  std::unique_ptr<GraphRunner>& runner = runners_[static_cast<int>(role)];
  if (!runner) {
    GraphFile file;
    file.name = stage.name;
    file.path = folder_ + "/" + stage.file;
    file.provider_options = stage.qnn_options;
    file.session_options = stage.session_options;
    const bool decodes = role == StageRole::context || role == StageRole::iteration;
    file.shares_context = decodes;
    file.last_to_share = role == StageRole::iteration;
    file.must_use_npu = decodes;
    if (decodes) {
      file.expected_on_cpu = {"com.microsoft.GroupQueryAttention"};
    } else {
      file.expected_on_cpu = {"*"};
    }
    runner = sessions_->open(file);
  }
  return *runner;
}

void FourGraphModel::require_width(const TensorSpec& spec, const GraphRunner& runner) const {
  if (spec.type == ElementType::f32 && spec.shape.size() == 3 &&
      spec.shape.back() == shape_.hidden_size) {
    return;
  }
  fail_input("{}: graph {}: tensor {} is {} {}; float32 [1,rows,{}] is expected", runner.file(),
             runner.name(), spec.name, element_name(spec.type), dims_text(spec.shape),
             shape_.hidden_size);
}

// The sessions are the authority; the configuration has to agree with them.
void FourGraphModel::read_shapes() {
  const FourGraphNames& names = config_.names;
  const auto agree = [this](const char* what, int64_t configured, int64_t found) {
    if (configured != 0 && configured != found) {
      fail_input("{}: {} is {}, but the graphs have {}", config_.source, what, configured, found);
    }
  };
  GraphRunner& embedding = stage(StageRole::embedding);
  embedding.input(names.input_ids);
  const TensorSpec& embedded = embedding.output(names.input_hidden);
  shape_.hidden_size = embedded.shape.empty() ? 0 : embedded.shape.back();
  if (shape_.hidden_size <= 0) {
    fail_input("{}: graph {}: tensor {} has no fixed width", embedding.file(), embedding.name(),
               describe(embedded));
  }
  agree("hidden_size", config_.hidden_size, shape_.hidden_size);

  for (const StageRole role : {StageRole::context, StageRole::iteration}) {
    GraphRunner& runner = stage(role);
    const TensorSpec& hidden = runner.input(names.input_hidden);
    require_width(hidden, runner);
    require_width(runner.output(names.output_hidden), runner);
    runner.input(names.past_length);
    runner.input(names.total_length);
    if (role == StageRole::context) {
      const TensorSpec& keys = runner.input(numbered(names.past_keys, 0));
      if (keys.shape.size() != 4 || !keys.is_static()) {
        fail_input("{}: graph {}: tensor {}: a fixed shape [1, heads, rows, size] is expected",
                   runner.file(), runner.name(), describe(keys));
      }
      kv_shape_ = keys.shape;
      shape_.window = hidden.shape[1];
      if (shape_.window < 0) shape_.window = config_.window;
      while (runner.has_input(numbered(names.past_keys, shape_.num_hidden_layers))) {
        ++shape_.num_hidden_layers;
      }
    } else if (hidden.shape[1] != 1 && hidden.shape[1] != -1) {
      fail_input("{}: graph {}: tensor {}: one row is expected", runner.file(), runner.name(),
                 describe(hidden));
    }
  }
  shape_.max_len = kv_shape_[2];
  layer_values_ = kv_shape_[1] * kv_shape_[2] * kv_shape_[3];
  agree("num_hidden_layers", config_.num_hidden_layers, shape_.num_hidden_layers);
  agree("num_key_value_heads", config_.num_key_value_heads, kv_shape_[1]);
  agree("head_size", config_.head_size, kv_shape_[3]);
  if (shape_.window > shape_.max_len) {
    fail_input("{}: the window of {} rows is more than the {} rows of keys and values",
               config_.source, shape_.window, shape_.max_len);
  }
  total_length_ = static_cast<int32_t>(shape_.max_len);

  GraphRunner& head = stage(StageRole::head);
  require_width(head.input(names.output_hidden), head);
  const TensorSpec& logits = head.output(names.logits);
  shape_.vocab_size = logits.shape.empty() ? 0 : logits.shape.back();
  if (shape_.vocab_size <= 0) {
    fail_input("{}: graph {}: tensor {} has no fixed width", head.file(), head.name(),
               describe(logits));
  }
  agree("vocab_size", config_.vocab_size, shape_.vocab_size);
}

std::vector<GraphRunner*> FourGraphModel::graphs() {
  std::vector<GraphRunner*> result;
  for (const auto& runner : runners_) {
    if (runner) result.push_back(runner.get());
  }
  return result;
}

// `rows` ids, pads behind the real ones, to input_.
void FourGraphModel::embed(std::span<const int32_t> ids, int64_t rows) {
  GraphRunner& runner = stage(StageRole::embedding);
  const TensorSpec& spec = runner.input(config_.names.input_ids);
  // A graph of a fixed number of rows gets them all, one of any number just these.
  const int64_t fixed = spec.shape.empty() ? -1 : spec.shape.back();
  const int64_t step = fixed > 0 ? fixed : rows;
  std::vector<int64_t> wide(static_cast<size_t>(step));
  std::vector<int32_t> narrow(static_cast<size_t>(step));
  std::vector<float> out(static_cast<size_t>(step * shape_.hidden_size));
  for (int64_t begin = 0; begin < rows; begin += step) {
    for (int64_t i = 0; i < step; ++i) {
      const int64_t at = begin + i;
      const int64_t id =
          at < static_cast<int64_t>(ids.size()) ? ids[static_cast<size_t>(at)] : config_.pad_value;
      wide[static_cast<size_t>(i)] = id;
      narrow[static_cast<size_t>(i)] = static_cast<int32_t>(id);
    }
    const bool is_narrow = spec.type == ElementType::i32;
    runner.bind_input({spec.name,
                       is_narrow ? ElementType::i32 : ElementType::i64,
                       {1, step},
                       is_narrow ? static_cast<void*>(narrow.data()) : wide.data()});
    runner.bind_output(
        {config_.names.input_hidden, ElementType::f32, {1, step, shape_.hidden_size}, out.data()});
    runner.run();
    std::copy_n(out.data(), std::min(step, rows - begin) * shape_.hidden_size,
                input_.data() + begin * shape_.hidden_size);
  }
}

void FourGraphModel::bind_kv(GraphRunner& runner) {
  const FourGraphNames& names = config_.names;
  for (int64_t layer = 0; layer < shape_.num_hidden_layers; ++layer) {
    const int64_t keys = 2 * layer * layer_values_;
    const int64_t values = keys + layer_values_;
    const auto bind = [&](const std::string& past, const std::string& present, int64_t at) {
      const std::string in = numbered(past, layer);
      const std::string out = numbered(present, layer);
      runner.bind_input({in, ElementType::f32, kv_shape_, kv_[now_].data() + at});
      runner.bind_output({out, ElementType::f32, kv_shape_, kv_[1 - now_].data() + at});
    };
    bind(names.past_keys, names.present_keys, keys);
    bind(names.past_values, names.present_values, values);
  }
}

void FourGraphModel::decoder_pass(StageRole role, int64_t rows, int64_t past_seq_len) {
  GraphRunner& runner = stage(role);
  past_length_ = static_cast<int32_t>(past_seq_len);
  const std::vector<int64_t> hidden{1, rows, shape_.hidden_size};
  const FourGraphNames& names = config_.names;
  runner.bind_input({names.input_hidden, ElementType::f32, hidden, input_.data()});
  runner.bind_input({names.past_length, ElementType::i32, {1, 1}, &past_length_});
  runner.bind_input({names.total_length, ElementType::i32, {1}, &total_length_});
  runner.bind_output({names.output_hidden, ElementType::f32, hidden, output_.data()});
  bind_kv(runner);
  runner.run();
  now_ = 1 - now_;
}

void FourGraphModel::context_pass(std::span<const int32_t> ids, int64_t past_seq_len) {
  embed(ids, shape_.window);
  decoder_pass(StageRole::context, shape_.window, past_seq_len);
}

void FourGraphModel::iteration_pass(int32_t id, int64_t past_seq_len) {
  embed(std::span(&id, 1), 1);
  decoder_pass(StageRole::iteration, 1, past_seq_len);
}

std::span<const float> FourGraphModel::output_row(int64_t row) const {
  return {output_.data() + row * shape_.hidden_size, static_cast<size_t>(shape_.hidden_size)};
}

void FourGraphModel::feed(std::span<const int32_t> ids, int64_t first, Span2d<float> hidden,
                          const CancelToken* cancel) {
  const auto count = static_cast<int64_t>(ids.size());
  if (first + count > shape_.max_len) {
    fail_usage("{} tokens are more than the {} rows of keys and values that these graphs have",
               first + count, shape_.max_len);
  }
  for (int64_t done = 0; done < count;) {
    if (cancel != nullptr) cancel->throw_if_cancelled();
    const int64_t at = first + done;
    const int64_t left = count - done;
    const auto next = ids.subspan(static_cast<size_t>(done));
    // A window that would reach behind the last row goes token by token instead.
    if (left == 1 || at + shape_.window > shape_.max_len) {
      iteration_pass(next[0], at);
      std::copy_n(output_row(0).data(), shape_.hidden_size, hidden.row(done));
      ++done;
      continue;
    }
    const int64_t real = std::min(left, shape_.window);
    context_pass(next.first(static_cast<size_t>(real)), at + shape_.window - 1);
    for (int64_t i = 0; i < real; ++i) {
      std::copy_n(output_row(i).data(), shape_.hidden_size, hidden.row(done + i));
    }
    done += real;
  }
}

void FourGraphModel::head(Span2d<const float> hidden, Span2d<float> logits) {
  GraphRunner& runner = stage(StageRole::head);
  const FourGraphNames& names = config_.names;
  const int64_t fixed = runner.input(names.output_hidden).shape[1];
  const int64_t step = fixed > 0 ? fixed : std::min<int64_t>(hidden.rows, kAnyRowsAtOnce);
  for (int64_t begin = 0; begin < hidden.rows; begin += step) {
    const int64_t real = std::min(step, hidden.rows - begin);
    const int64_t rows = fixed > 0 ? fixed : real;
    Matrix in(rows, shape_.hidden_size);
    Matrix out(rows, shape_.vocab_size);
    for (int64_t i = 0; i < real; ++i) {
      std::copy_n(hidden.row(begin + i), shape_.hidden_size, in.row(i));
    }
    runner.bind_input(
        {names.output_hidden, ElementType::f32, {1, rows, shape_.hidden_size}, in.data()});
    runner.bind_output({names.logits, ElementType::f32, {1, rows, shape_.vocab_size}, out.data()});
    runner.run();
    for (int64_t i = 0; i < real; ++i) {
      std::copy_n(out.row(i), shape_.vocab_size, logits.row(begin + i));
    }
  }
}

}  // namespace fathom
