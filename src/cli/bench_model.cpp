// fathom bench decode and bench prefill: a model's speed, part by part, beside what the disk or the
// memory gives at the same time.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/file.h"
#include "base/io_choice.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/footprint.h"
#include "cli/commands.h"
#include "cli/disk_subject.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "cli/session.h"
#include "engine/dense_backend.h"
#include "fathom/scheduler.h"
#include "kernels/limits/measure.h"

namespace fathom::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

// What happened between two looks at a model's counters.
struct Measured {
  double seconds = 0;
  int64_t passes = 0;
  int64_t tokens = 0;
  ModelStats stats;  // differences; peak_memory and the like are the later look's

  double per_pass(double sum) const { return passes > 0 ? sum / static_cast<double>(passes) : 0; }
};

ModelStats difference(const ModelStats& before, ModelStats after) {
  after.expert_hits -= before.expert_hits;
  after.expert_misses -= before.expert_misses;
  after.bytes_read -= before.bytes_read;
  after.reads_repeated -= before.reads_repeated;
  after.lookahead_reads -= before.lookahead_reads;
  after.lookahead_used -= before.lookahead_used;
  after.disk_seconds -= before.disk_seconds;
  after.wait_seconds -= before.wait_seconds;
  after.compute_seconds -= before.compute_seconds;
  after.attention_seconds -= before.attention_seconds;
  after.experts_seconds -= before.experts_seconds;
  after.mlp_seconds -= before.mlp_seconds;
  after.head_seconds -= before.head_seconds;
  return after;
}

// Ids of a prompt that is like no other: prompt `index` of a run. Low ones, which a live skeleton
// has rows for.
std::vector<int32_t> prompt_ids(const Model& model, int64_t count, int64_t index) {
  std::vector<int32_t> ids;
  uint64_t state = 0x9e3779b97f4a7c15u * static_cast<uint64_t>(index + 1);
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    ids.push_back(static_cast<int32_t>(
        (state >> 33) % static_cast<uint64_t>(std::min<int64_t>(model.info().vocab_size, 4096))));
  }
  return ids;
}

GenerateRequest request_for(std::vector<int32_t> ids, int64_t tokens) {
  GenerateRequest request;
  request.prompt.ids = std::move(ids);
  request.sampling.temperature = 0;
  request.max_tokens = tokens;
  request.ignore_eos = true;
  request.split_reasoning = false;
  request.cancel = &interrupt_token();
  return request;
}

// The speed that the model is set beside: of the disk that its experts come from, in reads as large
// as an expert and a layer's at a time; or of the memory that its weights lie in.
class Limit {
 public:
  explicit Limit(const std::string& folder) : subject_(DiskSubject::of_model(folder)) {}

  // Memory that measuring the disk takes, which a model's budget must leave room for.
  uint64_t memory() const { return subject_.expert_slots() * subject_.slot_bytes(); }

  // Bytes per second, measured now.
  double measure(const Model& model, const ModelOptions& options, double seconds) {
    if (!model.info().experts_on_disk) {
      return measure_read_bandwidth(kernels_named(model.info().kernels), model.info().threads,
                                    seconds);
    }
    ExtentReaderOptions reader_options;
    reader_options.paths = subject_.copies();
    reader_options.mode = io_mode_named(options.io);
    const std::unique_ptr<ExtentReader> reader = open_extent_reader(reader_options);
    const Buffer memory(std::max<size_t>(this->memory(), size_t{4} << 20));
    touch(memory.bytes());
    ReadLoad load;
    load.next = [this](size_t) { return std::optional(subject_.next_of_expert()); };
    load.slots = subject_.expert_slots();
    load.memory = memory.bytes().first(this->memory());
    load.seconds = seconds;
    load.cancel = &interrupt_token();
    return measure_reads(*reader, load).bytes_per_second();
  }

 private:
  DiskSubject subject_;
};

const char* limit_name(const Model& model) {
  return model.info().experts_on_disk ? "raw disk" : "read bandwidth";
}

// What measuring takes is not the model's: the budget is for both.
void leave_room(ModelOptions* options, const Limit& limit) {
  if (options->ram > limit.memory()) options->ram -= limit.memory();
}

// Weights that a token passes through, bytes as they are kept: all but the embedding, and of the
// routed experts those that it goes to.
struct TokenBytes {
  uint64_t resident = 0;
  uint64_t dense = 0;  // of it, dense layers and shared experts
  uint64_t dense_weights = 0;
  uint64_t expert = 0;  // one routed expert
  int64_t moe_layers = 0;
  int64_t experts_per_layer = 0;
  int64_t experts_per_token = 0;
  int64_t layers = 0;
};

TokenBytes token_bytes(const ModelInfo& info) {
  const Checkpoint checkpoint = Checkpoint::open(info.folder);
  const std::string path = checkpoint.folder() + "/config.json";
  const ModelConfig config = parse_model_config(read_text(path), path);
  const ModelShape shape = shape_of(config);
  const auto* dense = std::get_if<DenseConfig>(&config);
  const Footprint footprint = dense != nullptr ? dense_footprint(checkpoint, *dense, info.weights)
                                               : footprint_of(checkpoint, config);
  TokenBytes bytes;
  bytes.dense = footprint.of(Part::dense_mlp, false) + footprint.of(Part::shared_experts, false);
  uint64_t head = footprint.of(Part::head, false);
  if (head == 0) head = footprint.of(Part::embedding, false);
  if (info.head == WeightPrecision::int8) {
    head = static_cast<uint64_t>(shape.vocab_size) *
           (static_cast<uint64_t>(shape.hidden_size) + sizeof(float));
  }
  bytes.resident =
      footprint.of(Part::attention, false) + bytes.dense + footprint.of(Part::router, false) + head;
  bytes.layers = shape.num_hidden_layers;
  bytes.dense_weights = bytes.dense;  // FP8: bytes, as released
  if (dense != nullptr) {
    bytes.dense_weights = static_cast<uint64_t>(3 * dense->num_hidden_layers *
                                                dense->intermediate_size * dense->hidden_size);
  }
  const auto* moe = std::get_if<DeepseekConfig>(&config);
  if (moe == nullptr) return bytes;
  for (int64_t layer = 0; layer < moe->num_hidden_layers; ++layer) {
    bytes.moe_layers += moe->is_moe_layer(layer) ? 1 : 0;
  }
  bytes.experts_per_layer = moe->n_routed_experts;
  bytes.experts_per_token = moe->num_experts_per_tok;
  const auto experts = static_cast<uint64_t>(bytes.moe_layers * moe->n_routed_experts);
  if (experts > 0) bytes.expert = footprint.of(Part::routed_experts, false) / experts;
  return bytes;
}

JsonObject parts_json(const Measured& m) {
  return JsonObject()
      .number("attention_seconds", m.per_pass(m.stats.attention_seconds))
      .number("experts_seconds", m.per_pass(m.stats.experts_seconds))
      .number("experts_wait_seconds", m.per_pass(m.stats.wait_seconds))
      .number("experts_compute_seconds", m.per_pass(m.stats.compute_seconds))
      .number("mlp_seconds", m.per_pass(m.stats.mlp_seconds))
      .number("head_seconds", m.per_pass(m.stats.head_seconds));
}

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

double disk_rate(const Measured& m) {
  return ratio(static_cast<double>(m.stats.bytes_read), m.stats.disk_seconds);
}

// What a run with the layers of `bytes` says of the whole model, layer by layer.
double projected_seconds(const Measured& m, const TokenBytes& bytes, int64_t layers,
                         int64_t dense_layers) {
  const auto per = [](double seconds, int64_t count) {
    return count > 0 ? seconds / static_cast<double>(count) : 0;
  };
  const double moe_layers = static_cast<double>(layers - dense_layers);
  // Dense layers and shared experts are timed together and told apart by their bytes, which the
  // caller has not; the whole of it per layer is close enough where both are small.
  return static_cast<double>(layers) * (per(m.per_pass(m.stats.attention_seconds), bytes.layers) +
                                        per(m.per_pass(m.stats.mlp_seconds), bytes.layers)) +
         moe_layers * per(m.per_pass(m.stats.experts_seconds), bytes.moe_layers) +
         m.per_pass(m.stats.head_seconds);
}

std::string stats_text(const Measured& m) {
  return fmt::format(
      "attention {:.0f} ms, experts {:.0f} ms (waiting {:.0f}, computing {:.0f}), dense and shared "
      "{:.0f} ms, head {:.0f} ms",
      m.per_pass(m.stats.attention_seconds) * 1e3, m.per_pass(m.stats.experts_seconds) * 1e3,
      m.per_pass(m.stats.wait_seconds) * 1e3, m.per_pass(m.stats.compute_seconds) * 1e3,
      m.per_pass(m.stats.mlp_seconds) * 1e3, m.per_pass(m.stats.head_seconds) * 1e3);
}

}  // namespace

int run_command(const BenchDecodeOptions& given, Output& output) {
  BenchDecodeOptions options = given;
  options.model.sequences = *std::max_element(given.sequences.begin(), given.sequences.end());
  if (options.model.context == 0) options.model.context = options.prompt + options.tokens + 2;
  Limit limit(model_folder(options.model.folder));
  leave_room(&options.model, limit);
  Model model = load_model(options.model, options.output, TextNeeds::none);
  const TokenBytes bytes = token_bytes(model.info());
  std::string runs = "[";
  for (const int64_t sequences : options.sequences) {
    const double before_limit = limit.measure(model, options.model, options.limit_seconds);
    // One token more than are timed: no sequence ends, and leaves, in a pass that counts.
    Scheduler scheduler(model, {.parallel = sequences});
    for (int64_t i = 0; i < sequences; ++i) {
      scheduler.add(request_for(prompt_ids(model, options.prompt, i), options.tokens + 2), 1,
                    [](int64_t, GenerateResult&& result) {
                      if (result.error) throw Error(*result.error);
                    });
    }
    scheduler.step(&interrupt_token());  // the prompts
    interrupt_token().throw_if_cancelled();
    const ModelStats before = model.stats();
    const auto generated_before = static_cast<int64_t>(scheduler.status().generated);
    const Clock::time_point began = Clock::now();
    Measured m;
    {
      Progress progress(fmt::format("{} at once", sequences), static_cast<uint64_t>(options.tokens),
                        ProgressUnit::items);
      while (m.passes < options.tokens && scheduler.step(&interrupt_token())) {
        interrupt_token().throw_if_cancelled();
        ++m.passes;
        progress.add(1);
      }
    }
    m.seconds = seconds_since(began);
    m.tokens = static_cast<int64_t>(scheduler.status().generated) - generated_before;
    m.stats = difference(before, model.stats());
    const double after_limit = limit.measure(model, options.model, options.limit_seconds);
    const double raw = (before_limit + after_limit) / 2;

    const double per_pass = m.per_pass(m.seconds);
    const uint64_t uses = m.stats.expert_hits + m.stats.expert_misses;
    const double resident_rate =
        (static_cast<double>(bytes.resident) * static_cast<double>(m.passes) +
         static_cast<double>(uses * bytes.expert)) /
        m.seconds;
    const double reached = model.info().experts_on_disk ? disk_rate(m) : resident_rate;
    const double projected =
        projected_seconds(m, bytes, options.project_layers, options.project_dense);
    if (runs.size() > 1) runs += ",";
    runs += JsonObject()
                .integer("sequences", sequences)
                .integer("passes", m.passes)
                .number("seconds_per_pass", per_pass)
                .number("tokens_per_second", ratio(static_cast<double>(m.tokens), m.seconds))
                .object("parts", parts_json(m))
                .natural("expert_uses", uses)
                .natural("expert_misses", m.stats.expert_misses)
                .natural("bytes_read", m.stats.bytes_read)
                .number("bytes_read_per_token", ratio(static_cast<double>(m.stats.bytes_read),
                                                      static_cast<double>(m.tokens)))
                .number("reached_bytes_per_second", reached)
                .number("limit_bytes_per_second", raw)
                .text("limit_name", limit_name(model))
                .number("ratio", ratio(reached, raw))
                .number("projected_seconds_per_pass", projected)
                .str();
    if (options.output.json) continue;
    output.write(fmt::format("{} sequence{}: {:.3f} s per pass, {:.2f} tokens/s\n  {}\n", sequences,
                             sequences == 1 ? "" : "s", per_pass,
                             ratio(static_cast<double>(m.tokens), m.seconds), stats_text(m)));
    if (model.info().experts_on_disk) {
      output.write(fmt::format(
          "  {} read per token, {:.1f} experts per pass, {:.0f}% of them in memory\n",
          format_size(static_cast<uint64_t>(
              ratio(static_cast<double>(m.stats.bytes_read), static_cast<double>(m.tokens)))),
          m.per_pass(static_cast<double>(uses)),
          100 * ratio(static_cast<double>(m.stats.expert_hits), static_cast<double>(uses))));
    }
    output.write(fmt::format("  {:.2f} GB/s of {:.2f} GB/s {}: {:.0f}%\n", reached / 1e9, raw / 1e9,
                             limit_name(model), 100 * ratio(reached, raw)));
    output.write(fmt::format("  projected to {} layers ({} dense): {:.2f} s per pass\n",
                             options.project_layers, options.project_dense, projected));
    output.flush();
  }
  const ModelStats end = model.stats();
  if (options.output.json) {
    output.write(JsonObject()
                     .text("model", model.info().name)
                     .text("kernels", model.info().kernels)
                     .integer("threads", model.info().threads)
                     .text("weights", precision_name(model.info().weights))
                     .text("head", precision_name(model.info().head))
                     .text("embed", precision_name(model.info().embed))
                     .natural("memory_budget", model.info().memory_budget)
                     .natural("peak_memory", end.peak_memory)
                     .natural("expert_slots", end.expert_slots)
                     .text("experts", model.info().experts)
                     .raw("runs", runs + "]")
                     .str() +
                 "\n");
  } else {
    output.write(fmt::format("peak memory {}\n", format_size(end.peak_memory)));
  }
  return kExitOk;
}

int run_command(const BenchPrefillOptions& given, Output& output) {
  BenchPrefillOptions options = given;
  if (options.model.context == 0) options.model.context = options.prompt + 1;
  Limit limit(model_folder(options.model.folder));
  leave_room(&options.model, limit);
  Model model = load_model(options.model, options.output, TextNeeds::none);
  const TokenBytes bytes = token_bytes(model.info());
  const double before_limit = limit.measure(model, options.model, options.limit_seconds);
  const double peak = measure_multiply_add_peak(kernels_named(model.info().kernels),
                                                model.info().threads, options.limit_seconds);
  const ModelStats before = model.stats();
  GenerateRequest request = request_for(prompt_ids(model, options.prompt, 0), 1);
  Measured m;
  {
    Progress progress("prefill", static_cast<uint64_t>(bytes.layers), ProgressUnit::items);
    request.on_prefill = [&](double share) {
      progress.set(static_cast<uint64_t>(share * static_cast<double>(bytes.layers)));
    };
    const Clock::time_point began = Clock::now();
    const GenerateResult result = model.generate(request);
    m.seconds = seconds_since(began);
    if (result.finish_reason == FinishReason::cancelled) interrupt_token().throw_if_cancelled();
  }
  m.passes = 1;
  m.tokens = options.prompt;
  m.stats = difference(before, model.stats());
  const double raw =
      (before_limit + limit.measure(model, options.model, options.limit_seconds)) / 2;

  // Every group is one expert asked once, so uses count the distinct experts of each pass.
  const uint64_t distinct = m.stats.expert_hits + m.stats.expert_misses;
  const double distinct_bytes = static_cast<double>(distinct * bytes.expert);
  // Two operations per weight and token.
  const double dense_rate =
      ratio(2.0 * static_cast<double>(bytes.dense_weights) * static_cast<double>(options.prompt),
            m.stats.mlp_seconds);
  if (options.output.json) {
    output.write(JsonObject()
                     .text("model", model.info().name)
                     .text("kernels", model.info().kernels)
                     .integer("threads", model.info().threads)
                     .text("weights", precision_name(model.info().weights))
                     .text("head", precision_name(model.info().head))
                     .text("embed", precision_name(model.info().embed))
                     .integer("tokens", options.prompt)
                     .number("seconds", m.seconds)
                     .object("parts", parts_json(m))
                     .natural("distinct_experts", distinct)
                     .natural("bytes_read", m.stats.bytes_read)
                     .number("bytes_read_per_distinct",
                             ratio(static_cast<double>(m.stats.bytes_read), distinct_bytes))
                     .number("disk_bytes_per_second", disk_rate(m))
                     .number("limit_bytes_per_second", raw)
                     .text("limit_name", limit_name(model))
                     .number("ratio", ratio(disk_rate(m), raw))
                     .number("dense_operations_per_second", dense_rate)
                     .number("multiply_add_peak", peak)
                     .natural("memory_budget", model.info().memory_budget)
                     .natural("peak_memory", m.stats.peak_memory)
                     .str() +
                 "\n");
    return kExitOk;
  }
  output.write(fmt::format("{} tokens in {:.2f} s, {:.1f} tokens/s\n  {}\n", options.prompt,
                           m.seconds, ratio(static_cast<double>(m.tokens), m.seconds),
                           stats_text(m)));
  output.write(
      fmt::format("  dense and shared: {:.0f} GFLOP/s, {:.0f}% of the FMA peak of {:.0f}\n",
                  dense_rate / 1e9, 100 * ratio(dense_rate, peak), peak / 1e9));
  if (model.info().experts_on_disk) {
    output.write(fmt::format(
        "  {} read for {} experts that were used, {:.3f} times what they are; {:.2f} GB/s of "
        "{:.2f} GB/s {}: {:.0f}%\n",
        format_size(m.stats.bytes_read), distinct,
        ratio(static_cast<double>(m.stats.bytes_read), distinct_bytes), disk_rate(m) / 1e9,
        raw / 1e9, limit_name(model), 100 * ratio(disk_rate(m), raw)));
  }
  output.write(fmt::format("peak memory {}\n", format_size(m.stats.peak_memory)));
  return kExitOk;
}

}  // namespace fathom::cli
