#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "cli/session.h"
#include "numerics/elementary.h"

namespace fathom::cli {
namespace {

constexpr int64_t kDefaultWindow = 2048;

struct Score {
  int64_t predicted = 0;  // tokens that had one before them in their window
  int64_t windows = 0;
  double sum = 0;  // of negative log-likelihoods
};

// The loss of every window by itself, as the reference's forward() with labels; a last window of
// one token predicts nothing.
Score score(Model& model, const std::vector<int32_t>& ids, int64_t window) {
  Score score;
  const auto total = static_cast<int64_t>(ids.size());
  Progress progress("perplexity", ids.size(), ProgressUnit::items);
  for (int64_t begin = 0; begin + 1 < total; begin += window) {
    const int64_t end = std::min(begin + window, total);
    ForwardInput input;
    input.ids.assign(ids.begin() + begin, ids.begin() + end);
    input.labels = input.ids;
    input.logits = false;
    input.cancel = &interrupt_token();
    const ForwardOutput output = model.forward(input);
    const int64_t predicted = end - begin - 1;
    score.sum += output.loss.value() * static_cast<double>(predicted);
    score.predicted += predicted;
    ++score.windows;
    progress.set(static_cast<uint64_t>(end));
  }
  return score;
}

}  // namespace

int run_command(const PerplexityOptions& options, Output& output) {
  ModelOptions model_options = options.model;
  model_options.folder = model_folder(options.model.folder);
  std::string text;
  if (!options.file.empty()) {
    text = read_input(options.file);
    if (text.empty()) fail_input("{}: the text is empty", options.file);
  }
  Model model = load_model(model_options, options.output,
                           options.file.empty() ? TextNeeds::none : TextNeeds::tokenizer);
  const int64_t context = model.info().context.tokens;
  const int64_t window =
      options.model.context > 0 ? options.model.context : std::min(context, kDefaultWindow);
  const std::vector<int32_t> ids =
      options.file.empty() ? options.tokens : model.raw_prompt(text).ids;
  if (ids.size() < 2) {
    fail_input("{}: {} token, and at least 2 are needed: the first predicts the second",
               options.file.empty() ? "--tokens" : options.file, ids.size());
  }

  const Score result = score(model, ids, window);
  const double mean = result.sum / static_cast<double>(result.predicted);
  const double perplexity = exp_f64(mean);
  if (options.output.json) {
    output.write(JsonObject()
                     .natural("tokens", ids.size())
                     .integer("predicted", result.predicted)
                     .number("mean_nll", mean)
                     .number("perplexity", perplexity)
                     .integer("windows", result.windows)
                     .integer("ctx", window)
                     .str() +
                 "\n");
    return kExitOk;
  }
  output.write(
      fmt::format("mean negative log-likelihood {:.6f}\nperplexity {:.6f}\n", mean, perplexity));
  log::info("{} tokens, {} of them predicted, {} window{} of {}", ids.size(), result.predicted,
            result.windows, result.windows == 1 ? "" : "s", window);
  return kExitOk;
}

}  // namespace fathom::cli
