#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/extent_reader.h"
#include "base/units.h"
#include "cli/command_options.h"
#include "experts/cache_policy.h"
#include "kernels/dispatch.h"

namespace fathom::cli {
namespace {

constexpr int64_t kMostThreads = 1024;
constexpr int64_t kMostTokens = int64_t{1} << 40;
constexpr int64_t kMostId = std::numeric_limits<int32_t>::max();

KvPrecision parse_kv(const std::string& value) {
  if (value == "f32") return KvPrecision::f32;
  if (value == "bf16") return KvPrecision::bf16;
  if (value == "int8") return KvPrecision::int8;
  fail_usage("--kv: '{}' is none of f32, bf16, int8", value);
}

WeightPrecision parse_weight_precision(const std::string& value, const char* option) {
  if (value == "native") return WeightPrecision::native;
  if (value == "int8") return WeightPrecision::int8;
  fail_usage("{}: '{}' is none of native, int8", option, value);
}

WeightPrecision parse_layer_precision(const std::string& value) {
  if (value == "native") return WeightPrecision::native;
  if (value == "int8") return WeightPrecision::int8;
  if (value == "int4") return WeightPrecision::int4;
  fail_usage("--weights: '{}' is none of native, int8, int4", value);
}

ExpertsPlace parse_place(const std::string& value) {
  if (value == "auto") return ExpertsPlace::automatic;
  if (value == "memory") return ExpertsPlace::memory;
  if (value == "disk") return ExpertsPlace::disk;
  fail_usage("--experts: '{}' is none of auto, memory, disk", value);
}

Lookahead parse_lookahead(const std::string& value) {
  if (value == "auto") return Lookahead::automatic;
  if (value == "on") return Lookahead::on;
  if (value == "off") return Lookahead::off;
  fail_usage("--lookahead: '{}' is none of auto, on, off", value);
}

Speculation parse_speculation(const std::string& value) {
  if (value == "auto") return Speculation::automatic;
  if (value == "on") return Speculation::on;
  if (value == "off") return Speculation::off;
  fail_usage("--mtp: '{}' is none of on, off, auto", value);
}

// Memory, and experts on disk.
void add_memory(OptionSet& set, ModelOptions* model) {
  set.group("Memory and disk");
  set.value("--ram", "SIZE",
            "Most memory that the whole process may take, such as 20G (default: what is available, "
            "less a reserve)",
            [model](const std::string& value) {
              model->ram = parse_size(value, "--ram");
              if (model->ram == 0) fail_usage("--ram: 0 is no budget");
            });
  set.value("--prefill-chunk", "N",
            "Most tokens of a prompt in one pass (default: all, where memory allows); each pass "
            "reads experts anew, results are the same",
            [model](const std::string& value) {
              model->prefill_chunk = parse_integer(value, "--prefill-chunk", 1, kMostTokens);
            });
  set.value("--experts", "PLACE",
            "Where routed experts are kept: auto (default: in memory if all fit), memory, or disk",
            [model](const std::string& value) { model->experts = parse_place(value); });
  set.value("--io", "MODE", "How they are read: auto (default), io_uring, pread-direct or pread",
            [model](const std::string& value) {
              try {
                model->io = io_mode_name(io_mode_named(value));
              } catch (const Error& error) {
                fail_usage("--io: {}", error.what());
              }
            });
  set.repeated("--mirror", "DIR",
               "Another copy of the model folder, on another disk, that shares the reading; "
               "repeatable",
               [model](const std::string& value) {
                 if (value.empty()) fail_usage("--mirror: the folder's name is empty");
                 model->mirrors.push_back(value);
               });
  set.value("--cache-policy", "NAME",
            "Which experts stay in memory: forecast (default), lru, lfu or layers",
            [model](const std::string& value) {
              try {
                model->cache_policy = cache_policy_name(cache_policy_named(value));
              } catch (const Error& error) {
                fail_usage("--cache-policy: {}", error.what());
              }
            });
  set.value("--lookahead", "MODE",
            "Read experts ahead that the next layer will probably need: auto (default), on or off",
            [model](const std::string& value) { model->lookahead = parse_lookahead(value); });
  set.value("--trace-experts", "FILE", "Record every choice of experts, for fathom bench cache",
            &model->expert_trace);
  set.group("");
}

}  // namespace

void add_output(OptionSet& set, OutputOptions* output, const std::string& json_help) {
  set.flag("--json", json_help, &output->json);
  set.flag("--quiet", "Only results, warnings and errors", &output->quiet);
}

void add_folder(OptionSet& set, std::string* folder) {
  set.value("--model", "DIR",
            "Model folder: plain, a hub-cache snapshot or a hub-cache model folder "
            "(default: the demo model)",
            [folder](const std::string& value) {
              if (value.empty()) fail_usage("--model: the folder's name is empty");
              *folder = value;
            });
}

void add_threads(OptionSet& set, int* threads) {
  set.value("--threads", "N", "Threads (default: every processor this process may use)",
            [threads](const std::string& value) {
              *threads = static_cast<int>(parse_integer(value, "--threads", 1, kMostThreads));
            });
}

void add_kernels(OptionSet& set, std::string* kernels) {
  set.value("--kernels", "NAME",
            "reference, avx2, avx512 or neon (default: the fastest that runs here)",
            [kernels](const std::string& value) {
              try {
                *kernels = kernels_named(value).name;
              } catch (const Error& error) {
                fail_usage("--kernels: {}", error.what());
              }
            });
}

void add_model(OptionSet& set, ModelOptions* model, const std::string& context_help) {
  add_folder(set, &model->folder);
  add_running(set, model, context_help);
}

void add_running(OptionSet& set, ModelOptions* model, const std::string& context_help) {
  add_threads(set, &model->threads);
  add_kernels(set, &model->kernels);
  set.value("--kv", "FORMAT", "How the latent cache is kept: f32, bf16 (default) or int8",
            [model](const std::string& value) { model->kv = parse_kv(value); });
  set.value("--weights", "FORMAT",
            "How a dense model's layers are kept: native (default: as stored), int8 or int4, made "
            "while loading; slightly other logits, and a half or a quarter of BF16's memory",
            [model](const std::string& value) { model->weights = parse_layer_precision(value); });
  set.value(
      "--head", "FORMAT",
      "How the head is kept: native (default: as stored) or int8, which takes half of BF16's "
      "memory and time and gives slightly other logits",
      [model](const std::string& value) { model->head = parse_weight_precision(value, "--head"); });
  set.value("--embed", "FORMAT",
            "The same for the embedding; int8 keeps it in memory, also where experts are on disk",
            [model](const std::string& value) {
              model->embed = parse_weight_precision(value, "--embed");
            });
  set.value("--ctx", "N", context_help, [model](const std::string& value) {
    model->context = parse_token_count(value, "--ctx");
  });
  set.flag("--stats", "What it took, at the end: memory, disk, cache, time by part", &model->stats);
  add_memory(set, model);
  add_graph(set, &model->graph);
}

void add_chat_template(OptionSet& set, ModelOptions* model) {
  set.value("--chat-template", "FILE",
            "Use this template (Jinja) instead of the folder's, for tools that it shall see, say",
            &model->chat_template);
}

void add_speculation(OptionSet& set, ModelOptions* model) {
  set.value("--mtp", "MODE",
            "Draft tokens with the multi-token-prediction layer and verify them: off (default), "
            "on, or auto, which measures whether it is faster; results are the same",
            [model](const std::string& value) { model->speculation = parse_speculation(value); });
}

void add_ask(OptionSet& set, AskOptions* ask) {
  SamplingRequest* sampling = &ask->sampling;
  const auto real = [&set](const std::string& name, const std::string& help,
                           const std::function<void(double)>& take) {
    set.value(name, "X", help,
              [name, take](const std::string& value) { take(parse_real(value, name)); });
  };
  set.group("Sampling (default: generation_config.json)");
  real("--temp", "Temperature; 0 always takes the likeliest token",
       [sampling](double value) { sampling->temperature = value; });
  set.value("--top-k", "N", "Only the N likeliest tokens; 0 or -1 for all",
            [sampling](const std::string& value) {
              sampling->top_k = std::max<int64_t>(0, parse_integer(value, "--top-k", -1, kMostId));
            });
  real("--top-p", "Only the likeliest tokens whose probabilities reach X",
       [sampling](double value) { sampling->top_p = value; });
  real("--min-p", "Only tokens with at least X times the highest probability",
       [sampling](double value) { sampling->min_p = value; });
  set.value("--seed", "N",
            "The same seed gives the same tokens on every machine (default: a fresh one, reported)",
            [ask](const std::string& value) { ask->seed = parse_seed(value, "--seed"); });
  real("--repeat-penalty", "Makes every token seen so far less likely; 1 is off",
       [sampling](double value) { sampling->repetition_penalty = value; });
  real("--presence-penalty", "Taken from the logit of every token generated so far",
       [sampling](double value) { sampling->presence_penalty = value; });
  real("--frequency-penalty", "The same, as often as the token came",
       [sampling](double value) { sampling->frequency_penalty = value; });
  set.repeated("--logit-bias", "ID=VALUE", "Added to a token's logit; repeatable",
               [sampling](const std::string& value) {
                 sampling->logit_bias.push_back(parse_logit_bias(value, "--logit-bias"));
               });

  set.group("Length");
  set.value("-n,--max-tokens", "N",
            "Most tokens to generate, thought and answer together (default: what the context "
            "takes)",
            [ask](const std::string& value) {
              ask->max_tokens = parse_integer(value, "-n (--max-tokens)", 1, kMostTokens);
            });
  set.repeated("--stop", "TEXT", "Ends before this text; repeatable",
               [ask](const std::string& value) {
                 if (value.empty()) fail_usage("--stop: the text is empty");
                 ask->stop.push_back(value);
               });
  set.repeated("--stop-id", "ID", "Ends with this token; repeatable",
               [ask](const std::string& value) {
                 ask->stop_ids.push_back(
                     static_cast<int32_t>(parse_integer(value, "--stop-id", 0, kMostId)));
               });
  set.flag("--ignore-eos", "Go on after the model's own end", &ask->ignore_eos);
  set.value("--reasoning-budget", "N",
            "Most tokens of the thought, which is closed then; 0 for none (default: no limit)",
            [ask](const std::string& value) {
              ask->reasoning_budget = parse_integer(value, "--reasoning-budget", 0, kMostTokens);
            });

  set.group("Form of the answer, enforced after the thought");
  set.flag("--json-object", "A JSON object",
           [ask] { ask->format.kind = OutputFormat::Kind::json_object; });
  set.value("--json-schema", "FILE", "JSON that this JSON schema accepts",
            [ask](const std::string& value) {
              ask->format.kind = OutputFormat::Kind::json_schema;
              ask->format.schema = value;
            });
  set.group("");
}

std::vector<int32_t> parse_some_ids(const std::string& value, const char* option) {
  std::vector<int32_t> ids = parse_ids(value, option);
  if (ids.empty()) fail_usage("{}: there is no token id", option);
  return ids;
}

double parse_seconds(const std::string& value, const char* option) {
  const double seconds = parse_real(value, option);
  if (seconds <= 0 || seconds > 86400)
    fail_usage("{}: {} is not between 0 and 86400", option, value);
  return seconds;
}

ThinkMode parse_think(const std::string& value) {
  if (value == "on") return ThinkMode::on;
  if (value == "off") return ThinkMode::off;
  if (value == "hide") return ThinkMode::hide;
  fail_usage("--think: '{}' is none of on, off, hide", value);
}

}  // namespace fathom::cli
