// What logits, perplexity, synth and the benchmarks take.
#include <fmt/core.h>

#include <memory>

#include "base/error.h"
#include "cli/command_options.h"

namespace fathom::cli {
namespace {

constexpr int64_t kMostShards = 100'000;

}  // namespace

FinishCommand add_logits_options(OptionSet& set) {
  auto options = std::make_shared<LogitsOptions>();
  LogitsOptions* o = options.get();
  add_output(set, &o->output, "{rows, vocab, files, argmax} instead of lines");
  set.value("--tokens", "IDS", "Token ids, such as 0,5,9",
            [o](const std::string& v) { o->tokens = parse_some_ids(v, "--tokens"); });
  set.value("--text", "TEXT", "Text instead of ids", [o](const std::string& v) {
    if (v.empty()) fail_usage("--text: the text is empty");
    o->text = v;
  });
  set.value("--out", "FILE", "Logits, float32 [n, vocab]", &o->out);
  set.flag("--mtp",
           "Into --out: logits of the multi-token-prediction layer [n-1, vocab], row i from "
           "hidden state i and token i+1",
           &o->mtp);
  set.value("--hidden", "FILE", "Hidden states, float32 [layers+1, n, hidden]", &o->hidden);
  set.value("--attentions", "FILE", "Attention probabilities, float32 [layers, heads, n, n]",
            &o->attentions);
  set.value("--position", "N", "RoPE positions N, N+1, ... instead of 0, 1, ...",
            [o](const std::string& v) {
              o->position = parse_integer(v, "--position", 0, int64_t{1} << 30);
            });
  add_model(set, &o->model, kContextHelp);
  return [options] {
    if (options->tokens.empty() == !options->text) {
      fail_usage("give exactly one of --tokens and --text");
    }
    if (options->out.empty() && options->hidden.empty() && options->attentions.empty()) {
      fail_usage("give at least one of --out, --hidden and --attentions");
    }
    if (options->mtp && options->out.empty()) fail_usage("--mtp: give --out too");
    return *options;
  };
}

FinishCommand add_perplexity_options(OptionSet& set) {
  auto options = std::make_shared<PerplexityOptions>();
  PerplexityOptions* o = options.get();
  add_output(set, &o->output, "{tokens, predicted, mean_nll, perplexity, windows, ctx}");
  set.value("--file", "FILE", "The text; - is standard input", [o](const std::string& v) {
    if (v.empty()) fail_usage("--file: the file's name is empty");
    o->file = v;
  });
  set.value("--tokens", "IDS", "Token ids instead of a file; no tokenizer is needed",
            [o](const std::string& v) { o->tokens = parse_some_ids(v, "--tokens"); });
  add_model(set, &o->model,
            "Tokens of a window, such as 4096 or 16K (default: 2048 or the model's context)");
  return [options] {
    if (options->tokens.empty() == options->file.empty()) {
      fail_usage("give exactly one of --file and --tokens");
    }
    if (options->model.context == 1) fail_usage("--ctx: a window has at least 2 tokens");
    return *options;
  };
}

FinishCommand add_synth_options(OptionSet& set) {
  auto options = std::make_shared<SynthCommandOptions>();
  SynthCommandOptions* o = options.get();
  add_output(set, &o->output, "{out, files, bytes, written_bytes, seconds, seed}");
  set.value("--config", "FILE", "config.json of the model", &o->config).required();
  set.value("--out", "DIR", "A new or empty folder", &o->out).required();
  set.value("--seed", "N", "The same seed gives the same bytes (default: 0)",
            [o](const std::string& v) { o->seed = parse_seed(v, "--seed"); });
  set.value("--shards", "K", "Files to spread the tensors over (default: 1)",
            [o](const std::string& v) {
              o->shards = static_cast<int>(parse_integer(v, "--shards", 1, kMostShards));
            });
  set.value("--shards-csv", "FILE",
            "Tensors of each file instead: lines of shard, first_layer, last_layer, tensors",
            [o](const std::string& v) {
              if (v.empty()) fail_usage("--shards-csv: the file's name is empty");
              o->shard_table = v;
            })
      .excludes("--shards");
  set.flag("--skeleton", "True headers, holes in place of the data: takes almost no disk",
           &o->skeleton);
  set.flag("--live",
           "A skeleton with routers, norms and some rows of embedding and head, so that "
           "different tokens choose different experts",
           &o->live);
  set.value("--live-rows", "N",
            "Token ids with such rows: 0 to N-1, the last N/4, and the end ids (default: 4096)",
            [o](const std::string& v) {
              o->live_rows = parse_integer(v, "--live-rows", 1, int64_t{1} << 31);
            });
  add_threads(set, &o->threads);
  return [options] {
    if (options->live && !options->skeleton) fail_usage("--live: give --skeleton too");
    if (options->live_rows && !options->live) fail_usage("--live-rows: give --live too");
    return *options;
  };
}

FinishCommand add_bench_kernels_options(OptionSet& set) {
  auto options = std::make_shared<BenchKernelsOptions>();
  BenchKernelsOptions* o = options.get();
  add_output(set, &o->output, "{kernels, threads, results: [...]}");
  add_threads(set, &o->threads);
  add_kernels(set, &o->kernels);
  set.value("--seconds", "S", "How long to measure, all together (default: 60)",
            [o](const std::string& v) { o->seconds = parse_seconds(v, "--seconds"); });
  set.value("--only", "TEXT", "Only what has TEXT in its kernel, shape and rows: 'bf16 2048x7168'",
            [o](const std::string& v) { o->only = v; });
  return [options] { return *options; };
}

namespace {

void add_prompt_tokens(OptionSet& set, int64_t* count) {
  set.value("--prompt-tokens", "N", fmt::format("Length of the prompt (default: {})", *count),
            [count](const std::string& v) { *count = parse_token_count(v, "--prompt-tokens"); });
}

void add_limit_seconds(OptionSet& set, double* seconds) {
  set.value("--limit-seconds", "S", "For each measurement of the disk or memory (default: 1)",
            [seconds](const std::string& v) { *seconds = parse_seconds(v, "--limit-seconds"); });
}

}  // namespace

FinishCommand add_bench_decode_options(OptionSet& set) {
  auto options = std::make_shared<BenchDecodeOptions>();
  BenchDecodeOptions* o = options.get();
  add_output(set, &o->output, "{model, peak_memory, runs: [...], ...}");
  add_prompt_tokens(set, &o->prompt);
  set.value("--tokens", "N", "Passes that are timed (default: 8)",
            [o](const std::string& v) { o->tokens = parse_integer(v, "--tokens", 1, 1 << 20); });
  set.value("--sequences", "N,N,...", "How many are generated at once (default: 1)",
            [o](const std::string& v) {
              o->sequences.clear();
              for (const int32_t n : parse_some_ids(v, "--sequences")) {
                if (n < 1) fail_usage("--sequences: {} is less than 1", n);
                o->sequences.push_back(n);
              }
            });
  add_limit_seconds(set, &o->limit_seconds);
  set.value("--project-layers", "N",
            "Layers of the whole model that this is a slice of (default: 61)",
            [o](const std::string& v) {
              o->project_layers = parse_integer(v, "--project-layers", 1, 100'000);
            });
  set.value("--project-dense", "N", "Of them, dense ones (default: 3)", [o](const std::string& v) {
    o->project_dense = parse_integer(v, "--project-dense", 0, 100'000);
  });
  add_model(set, &o->model, kContextHelp);
  return [options] {
    if (options->project_dense > options->project_layers) {
      fail_usage("--project-dense: more than --project-layers");
    }
    return *options;
  };
}

FinishCommand add_bench_prefill_options(OptionSet& set) {
  auto options = std::make_shared<BenchPrefillOptions>();
  BenchPrefillOptions* o = options.get();
  add_output(set, &o->output, "{model, tokens, seconds, parts, bytes_read, ...}");
  add_prompt_tokens(set, &o->prompt);
  add_limit_seconds(set, &o->limit_seconds);
  add_model(set, &o->model, kContextHelp);
  return [options] { return *options; };
}

}  // namespace fathom::cli
