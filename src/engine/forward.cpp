// One pass over one sequence with everything that the reference's forward() returns.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "engine/engine.h"
#include "sample/logprobs.h"

namespace fathom {
namespace {

// Logits are made for this many rows at once.
constexpr int64_t kHeadRows = 64;
constexpr int32_t kIgnoredLabel = -100;

// What the input asks for, checked; padding rows left out.
struct Plan {
  int64_t n = 0;        // rows as the caller counts them
  int64_t padding = 0;  // of them, masked ones on the left
  int64_t rows() const { return n - padding; }
};

Plan check(const Engine& engine, const ForwardInput& input, int64_t cached) {
  const ModelShape& config = engine.shape();
  Plan plan;
  if (!input.ids.empty() && !input.embeddings.empty()) {
    fail_usage("forward: ids and embeddings cannot both be given");
  }
  if (!input.embeddings.empty()) {
    if (input.embeddings.size() % static_cast<size_t>(config.hidden_size) != 0) {
      fail_usage("forward: embeddings: {} values are no whole number of rows of hidden_size {}",
                 input.embeddings.size(), config.hidden_size);
    }
    plan.n = static_cast<int64_t>(input.embeddings.size()) / config.hidden_size;
  } else {
    engine.check_ids(input.ids);
    plan.n = static_cast<int64_t>(input.ids.size());
  }
  if (plan.n == 0) fail_usage("forward: the input is empty");
  const auto n = static_cast<size_t>(plan.n);
  if (!input.positions.empty() && input.positions.size() != n) {
    fail_usage("forward: positions: {} given for {} rows", input.positions.size(), n);
  }
  for (const int64_t position : input.positions) {
    if (position < 0) fail_usage("forward: positions: {} is negative", position);
  }
  if (!input.labels.empty()) {
    if (input.labels.size() != n) {
      fail_usage("forward: labels: {} given for {} rows", input.labels.size(), n);
    }
    for (const int32_t label : input.labels) {
      if (label != kIgnoredLabel && (label < 0 || label >= config.vocab_size)) {
        fail_usage("forward: labels: {} is outside the vocabulary of {}", label, config.vocab_size);
      }
    }
  }
  if (!input.attention_mask.empty()) {
    if (input.attention_mask.size() != n) {
      fail_usage("forward: attention_mask: {} given for {} rows", input.attention_mask.size(), n);
    }
    const auto first_one = std::find(input.attention_mask.begin(), input.attention_mask.end(), 1);
    plan.padding = first_one - input.attention_mask.begin();
    if (plan.padding == plan.n) fail_usage("forward: attention_mask: every row is masked");
    if (std::any_of(first_one, input.attention_mask.end(), [](uint8_t m) { return m != 1; })) {
      fail_usage("forward: attention_mask: zeros may stand on the left only (padding)");
    }
    if (plan.padding > 0 && cached > 0) {
      fail_usage("forward: attention_mask: padding cannot follow cached tokens");
    }
  }
  if (cached + plan.rows() > engine.info().context.tokens) {
    fail_usage("forward: {} tokens are more than the context of {}", cached + plan.rows(),
               engine.info().context.tokens);
  }
  if (input.mtp_logits) {
    if (!engine.info().has_mtp) fail_usage("forward: the MTP layer was not loaded");
    if (input.ids.empty()) fail_usage("forward: MTP logits need ids, not embeddings");
    if (cached > 0) fail_usage("forward: MTP logits need the whole sequence in one pass");
  }
  return plan;
}

// Copies [rows][width] behind the padding rows, which stay zero.
void place(const float* from, int64_t rows, int64_t width, int64_t padding, float* to) {
  std::copy_n(from, rows * width, to + padding * width);
}

// Logits of all rows (or the last one) and the loss, some rows at a time.
void logits_and_loss(Engine& engine, const ForwardInput& input, const Plan& plan,
                     const Matrix& final_hidden, ForwardOutput& output) {
  const int64_t vocab = output.vocab;
  const bool all_rows = input.logits && !input.last_logits_only;
  if (input.logits) output.logits.assign(static_cast<size_t>((all_rows ? plan.n : 1) * vocab), 0);
  const int64_t first = all_rows || !input.labels.empty() ? 0 : plan.rows() - 1;
  if (!input.logits && input.labels.empty()) return;

  double sum = 0;
  int64_t counted = 0;
  Matrix part(std::min(kHeadRows, plan.rows() - first), vocab);
  for (int64_t begin = first; begin < plan.rows(); begin += part.rows()) {
    if (input.cancel != nullptr) input.cancel->throw_if_cancelled();
    const int64_t count = std::min(part.rows(), plan.rows() - begin);
    const Span2d<float> logits = part.view().middle_rows(0, count);
    engine.model().head(final_hidden.view().middle_rows(begin, count), logits);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = plan.padding + begin + i;  // as the caller counts
      if (all_rows) std::copy_n(logits.row(i), vocab, output.logits.data() + row * vocab);
      if (input.labels.empty() || row + 1 >= plan.n) continue;
      const int32_t label = input.labels[static_cast<size_t>(row + 1)];
      if (label == kIgnoredLabel) continue;
      sum -= Logprobs(logits.row_span(i)).exact(label);
      ++counted;
    }
    if (input.logits && !all_rows && begin + count == plan.rows()) {
      std::copy_n(logits.row(count - 1), vocab, output.logits.data());
    }
  }
  if (!input.labels.empty() && counted > 0) output.loss = sum / static_cast<double>(counted);
}

void mtp_logits(Engine& engine, const ForwardInput& input, const Plan& plan,
                const Matrix& final_hidden, const Sweep& main, ForwardOutput& output) {
  const int64_t n = plan.rows() - 1;
  output.mtp_logits.assign(static_cast<size_t>((plan.n - 1) * output.vocab), 0);
  if (n == 0) return;
  Sweep sweep;
  sweep.rows.assign(main.rows.begin(), main.rows.begin() + n);
  for (int64_t i = 0; i < n; ++i) {
    sweep.rows[static_cast<size_t>(i)].token = main.rows[static_cast<size_t>(i + 1)].token;
  }
  engine.model().begin_mtp(sweep, final_hidden.view().middle_rows(0, n));
  engine.model().advance(sweep, input.cancel);
  Matrix logits(n, output.vocab);
  engine.model().mtp_head(sweep, logits);
  place(logits.data(), n, output.vocab, plan.padding, output.mtp_logits.data());
}

}  // namespace

ForwardOutput forward(Engine& engine, const ForwardInput& input, CacheState& cache) {
  KvSequence& sequence = cache.in(engine.pages());
  const int64_t cached = sequence.length();
  const Plan plan = check(engine, input, cached);
  const ModelShape& config = engine.shape();
  const int64_t rows = plan.rows();

  Sweep sweep;
  for (int64_t i = 0; i < rows; ++i) {
    const auto at = static_cast<size_t>(plan.padding + i);
    SweepRow row;
    row.token = input.ids.empty() ? 0 : input.ids[at];
    row.index = cached + i;
    row.position = input.positions.empty() ? row.index : input.positions[at];
    row.cache = &sequence;
    row.wants_logits = true;
    sweep.rows.push_back(row);
  }
  if (input.embeddings.empty()) {
    engine.model().begin(sweep);
  } else {
    engine.model().begin(
        sweep, Span2d<const float>(input.embeddings.data() + plan.padding * config.hidden_size,
                                   rows, config.hidden_size));
  }
  std::vector<Matrix> hidden_states;
  std::vector<Matrix> attentions;
  SweepTrace trace;
  if (input.hidden_states) trace.hidden_states = &hidden_states;
  if (input.attentions) trace.attentions = &attentions;
  engine.run(sweep, input.cancel, {}, trace);

  ForwardOutput output;
  output.rows = plan.n;
  output.vocab = config.vocab_size;
  output.hidden = config.hidden_size;
  output.layers = config.num_hidden_layers;
  output.heads = config.num_attention_heads;
  output.positions = sequence.length() + plan.padding;
  Matrix final_hidden(rows, config.hidden_size);
  engine.model().final_hidden(sweep, final_hidden);
  logits_and_loss(engine, input, plan, final_hidden, output);
  if (input.mtp_logits) mtp_logits(engine, input, plan, final_hidden, sweep, output);

  if (input.hidden_states) {
    const int64_t layer_values = plan.n * output.hidden;
    output.hidden_states.assign(hidden_states.size() * static_cast<size_t>(layer_values), 0);
    for (size_t layer = 0; layer < hidden_states.size(); ++layer) {
      place(hidden_states[layer].data(), rows, output.hidden, plan.padding,
            output.hidden_states.data() + static_cast<int64_t>(layer) * layer_values);
    }
  }
  if (input.attentions) {
    const int64_t layer_values = output.heads * plan.n * output.positions;
    output.attentions.assign(attentions.size() * static_cast<size_t>(layer_values), 0);
    for (size_t layer = 0; layer < attentions.size(); ++layer) {
      float* to = output.attentions.data() + static_cast<int64_t>(layer) * layer_values;
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t h = 0; h < output.heads; ++h) {
          std::copy_n(attentions[layer].row(i * output.heads + h), attentions[layer].cols(),
                      to + (h * plan.n + plan.padding + i) * output.positions + plan.padding);
        }
      }
    }
  }
  cache.ids.insert(cache.ids.end(), input.ids.begin(), input.ids.end());
  return output;
}

}  // namespace fathom
