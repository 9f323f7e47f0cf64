// What logits, perplexity, synth and the benchmarks take.
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

}  // namespace fathom::cli
