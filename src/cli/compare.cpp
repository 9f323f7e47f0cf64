#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/system.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "cli/session.h"
#include "numerics/elementary.h"

namespace fathom::cli {
namespace {

constexpr int64_t kDefaultWindow = 2048;
// Logits that are held at a time; a model's output, and what is read back of the other's.
constexpr uint64_t kPieceBytes = uint64_t{8} << 20;

// What of a model is asked: logits of every token that has one behind it in its window, in pieces.
struct Text {
  std::vector<int32_t> ids;
  int64_t window = 0;

  int64_t windows() const {
    const auto total = static_cast<int64_t>(ids.size());
    return (total - 1 + window - 1) / window;  // a last one of one token predicts nothing
  }
  int64_t predicted() const {
    const auto total = static_cast<int64_t>(ids.size());
    int64_t sum = 0;
    for (int64_t begin = 0; begin + 1 < total; begin += window) {
      sum += std::min(begin + window, total) - begin - 1;
    }
    return sum;
  }
};

// Calls use(row's logits, the token that follows) for all of them, in order.
using Use = std::function<void(std::span<const float>, int32_t)>;
void each_row(Model& model, const Text& text, const std::string& label, const Use& use) {
  const auto total = static_cast<int64_t>(text.ids.size());
  const int64_t vocab = model.info().vocab_size;
  const int64_t step = std::max<int64_t>(1, static_cast<int64_t>(kPieceBytes) / (vocab * 4));
  Progress progress(label, static_cast<uint64_t>(text.predicted()), ProgressUnit::items);
  for (int64_t begin = 0; begin + 1 < total; begin += text.window) {
    const int64_t end = std::min(begin + text.window, total) - 1;
    Cache cache;
    for (int64_t first = begin; first < end; first += step) {
      const int64_t last = std::min(first + step, end);
      ForwardInput input;
      input.ids.assign(text.ids.begin() + first, text.ids.begin() + last);
      input.cache = &cache;
      input.cancel = &interrupt_token();
      const ForwardOutput output = model.forward(input);
      for (int64_t i = 0; i < last - first; ++i) {
        use(std::span(output.logits)
                .subspan(static_cast<size_t>(i * vocab), static_cast<size_t>(vocab)),
            text.ids[static_cast<size_t>(first + i + 1)]);
        progress.add(1);
      }
    }
  }
}

// A row of logits as a distribution.
struct Distribution {
  explicit Distribution(std::span<const float> logits) : logits(logits) {
    for (size_t i = 1; i < logits.size(); ++i) {
      if (logits[i] > logits[top]) top = i;
    }
    double sum = 0;
    for (const float logit : logits) sum += exp_f64(double{logit} - logits[top]);
    log_sum = log_f64(sum) + logits[top];
  }
  double log_probability(size_t i) const { return logits[i] - log_sum; }

  std::span<const float> logits;
  size_t top = 0;
  double log_sum = 0;
};

double divergence(const Distribution& p, const Distribution& q) {
  double sum = 0;
  for (size_t i = 0; i < p.logits.size(); ++i) {
    const double log_p = p.log_probability(i);
    sum += exp_f64(log_p) * (log_p - q.log_probability(i));
  }
  return std::max(sum, 0.0);  // rounding may leave a little below zero
}

// The first model's logits between the two runs: a file that goes with this object.
class StoredLogits {
 public:
  StoredLogits(const std::string& scratch, uint64_t bytes) {
    std::error_code error;
    const std::string folder =
        scratch.empty() ? std::filesystem::temp_directory_path(error).string() : scratch;
    if (!std::filesystem::is_directory(folder)) {
      fail_usage("--scratch: {}: there is no such folder", folder);
    }
    if (const uint64_t available = system::free_disk_bytes(folder); bytes > available) {
      fail(ErrorKind::io,
           "{}: the first model's logits take {}, but only {} are free; a shorter text or another "
           "--scratch does",
           folder, format_size(bytes), format_size(available));
    }
    path_ = system::temporary_name(folder + "/fathom-compare");
    writer_.emplace(path_);
  }
  ~StoredLogits() {
    reader_ = File();
    writer_.reset();
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  StoredLogits(const StoredLogits&) = delete;
  StoredLogits& operator=(const StoredLogits&) = delete;

  void write(std::span<const float> row) { writer_->write(std::as_bytes(row)); }
  void end_writing() {
    writer_->commit();
    writer_.reset();
    reader_ = File(path_);
  }
  void read(std::span<float> row) {
    const auto bytes = std::as_writable_bytes(row);
    reader_.read_at(at_, bytes);
    reader_.drop_cached(at_, bytes.size());
    at_ += bytes.size();
  }

 private:
  std::string path_;
  std::optional<OutputFile> writer_;
  File reader_;
  uint64_t at_ = 0;
};

struct Subject {
  std::string name;
  int64_t vocab = 0;
  double nll = 0;  // sum over all that was predicted
};

struct Comparison {
  Text text;
  Subject a, b;
  double kl_sum = 0;
  double kl_max = 0;
  int64_t kl_max_position = 0;  // counted over all that was predicted
  int64_t same_top = 0;

  double mean(double sum) const { return sum / static_cast<double>(text.predicted()); }
};

Model load_subject(const CompareOptions& options, const std::string& folder, bool second) {
  ModelOptions model = options.model;
  model.folder = model_folder(folder);
  if (!second) {
    model.weights = WeightPrecision::native;
    model.head = WeightPrecision::native;
    model.embed = WeightPrecision::native;
  }
  // The logits held here are not the model's.
  if (model.ram > 3 * kPieceBytes) model.ram -= 3 * kPieceBytes;
  return load_model(model, options.output,
                    options.file.empty() ? TextNeeds::none : TextNeeds::tokenizer);
}

std::vector<int32_t> ids_of(const CompareOptions& options, const Model& model,
                            const std::string& text) {
  return options.file.empty() ? options.tokens : model.raw_prompt(text).ids;
}

Text text_of(const CompareOptions& options, const Model& model, const std::string& contents) {
  Text text;
  text.ids = ids_of(options, model, contents);
  text.window = options.model.context > 0 ? options.model.context
                                          : std::min(model.info().context.tokens, kDefaultWindow);
  if (text.ids.size() < 2) {
    fail_input("{}: {} token, and at least 2 are needed: the first predicts the second",
               options.file.empty() ? "--tokens" : options.file, text.ids.size());
  }
  return text;
}

// The first model's logits, kept for the second one, which never lies in memory beside it.
std::unique_ptr<StoredLogits> run_first(const CompareOptions& options, const std::string& contents,
                                        Comparison* result) {
  Model model = load_subject(options, options.folder_a, false);
  Subject& a = result->a;
  a.name = model.info().name;
  a.vocab = model.info().vocab_size;
  result->text = text_of(options, model, contents);
  auto stored = std::make_unique<StoredLogits>(
      options.scratch, static_cast<uint64_t>(result->text.predicted() * a.vocab) * 4);
  each_row(model, result->text, "first model", [&](std::span<const float> row, int32_t next) {
    stored->write(row);
    a.nll -= Distribution(row).log_probability(static_cast<size_t>(next));
  });
  stored->end_writing();
  return stored;
}

void run_second(const CompareOptions& options, const std::string& contents, StoredLogits* stored,
                Comparison* result) {
  Model model = load_subject(options, options.folder_b, true);
  Subject& b = result->b;
  b.name = model.info().name;
  b.vocab = model.info().vocab_size;
  if (b.vocab != result->a.vocab || ids_of(options, model, contents) != result->text.ids) {
    fail_input("{}: its vocabulary is not that of {}: {} and {} tokens", options.folder_b,
               options.folder_a, b.vocab, result->a.vocab);
  }
  std::vector<float> first(static_cast<size_t>(b.vocab));
  int64_t position = 0;
  each_row(model, result->text, "second model", [&](std::span<const float> row, int32_t next) {
    stored->read(first);
    const Distribution p(first);
    const Distribution q(row);
    b.nll -= q.log_probability(static_cast<size_t>(next));
    const double kl = divergence(p, q);
    result->kl_sum += kl;
    if (kl > result->kl_max) {
      result->kl_max = kl;
      result->kl_max_position = position;
    }
    result->same_top += p.top == q.top ? 1 : 0;
    ++position;
  });
}

std::string as_json(const Comparison& c) {
  const auto subject = [&c](const Subject& of) {
    return JsonObject()
        .text("model", of.name)
        .number("mean_nll", c.mean(of.nll))
        .number("perplexity", exp_f64(c.mean(of.nll)));
  };
  return JsonObject()
             .natural("tokens", c.text.ids.size())
             .integer("predicted", c.text.predicted())
             .integer("windows", c.text.windows())
             .integer("ctx", c.text.window)
             .object("a", subject(c.a))
             .object("b", subject(c.b))
             .number("kl_mean", c.mean(c.kl_sum))
             .number("kl_max", c.kl_max)
             .integer("kl_max_position", c.kl_max_position)
             .number("top1_agreement", c.mean(static_cast<double>(c.same_top)))
             .str() +
         "\n";
}

std::string as_text(const Comparison& c) {
  return fmt::format(
      "perplexity      {:.6f} ({})\n                {:.6f} ({})\n"
      "KL divergence   mean {:.6f}, largest {:.6f} (prediction {} of {})\n"
      "same top token  {:.2f}%\n",
      exp_f64(c.mean(c.a.nll)), c.a.name, exp_f64(c.mean(c.b.nll)), c.b.name, c.mean(c.kl_sum),
      c.kl_max, c.kl_max_position + 1, c.text.predicted(),
      100 * c.mean(static_cast<double>(c.same_top)));
}

}  // namespace

int run_command(const CompareOptions& options, Output& output) {
  std::string contents;
  if (!options.file.empty()) {
    contents = read_input(options.file);
    if (contents.empty()) fail_input("{}: the text is empty", options.file);
  }
  Comparison result;
  const std::unique_ptr<StoredLogits> stored = run_first(options, contents, &result);
  run_second(options, contents, stored.get(), &result);
  output.write(options.output.json ? as_json(result) : as_text(result));
  return kExitOk;
}

}  // namespace fathom::cli
