// The command line as plain structs, one per command.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/ask_options.h"
#include "fathom/model.h"

namespace fathom::cli {

struct OutputOptions {
  bool json = false;   // one JSON document on standard output
  bool quiet = false;  // no banner, no progress, no summary
};

struct ModelOptions {
  std::string folder;  // "": the demo model
  int threads = 0;
  std::string kernels;
  KvPrecision kv = KvPrecision::bf16;
  WeightPrecision weights = WeightPrecision::native;
  WeightPrecision head = WeightPrecision::native;
  WeightPrecision embed = WeightPrecision::native;
  int64_t context = 0;
  uint64_t ram = 0;  // bytes; 0: what is available, less a reserve
  int64_t prefill_chunk = 0;
  int64_t sequences = 1;      // set by the command, not by an option
  std::string chat_template;  // a file used instead of the folder's template; "": none
  ExpertsPlace experts = ExpertsPlace::automatic;
  std::string io = "auto";
  std::vector<std::string> mirrors;
  std::string cache_policy;
  Lookahead lookahead = Lookahead::automatic;
  std::string expert_trace;
  Speculation speculation = Speculation::off;
  bool stats = false;
  GraphLoadOptions graph;
};

enum class ThinkMode { on, off, hide };

struct ChatOptions {
  OutputOptions output;
  ModelOptions model;
  AskOptions ask;
  std::optional<std::string> system;
  std::optional<ThinkMode> think;  // on, or as the session says
  std::string session;             // a file; "": none
  int64_t autosave = 32;           // tokens of an answer between two saves
};

enum class PromptKind { text, file, chat, tokens };

struct GenerateOptions {
  OutputOptions output;
  ModelOptions model;
  AskOptions ask;
  PromptKind kind = PromptKind::text;
  std::string prompt;  // the text, the file's name or the user's message
  std::vector<int32_t> tokens;
  std::optional<std::string> system;
  std::string tools;                // a file with OpenAI's array of tools; "": none
  std::optional<int64_t> logprobs;  // with --json
  std::string prompt_cache;         // a file; "": none
  int64_t samples = 0;              // 0: one, printed as it comes
};

struct BatchOptions {
  OutputOptions output;
  ModelOptions model;
  std::string requests;  // a file of OpenAI batch lines
  std::string out;
  int64_t parallel = 8;
  int64_t max_tokens = 0;  // of requests that do not say; 0: what the context takes
  uint64_t seed = 0;
};

struct ServeOptions {
  OutputOptions output;
  ModelOptions model;
  std::string host = "127.0.0.1";
  uint16_t port = 8080;               // 0: any free one
  std::vector<std::string> api_keys;  // empty: everybody may
  std::vector<std::string> aliases;
  std::vector<std::string> origins;  // behind --cors
  int64_t max_sequences = 8;
  int64_t queue = 64;
  int64_t connections = 256;
  uint64_t body_bytes = uint64_t{8} << 20;
  int64_t max_tokens = 0;  // of requests that do not say; 0: what the context takes
  double drain_seconds = 30;
  std::string access_log;  // a file, "-" for standard error, "" for none
  bool log_prompts = false;
};

struct LogitsOptions {
  OutputOptions output;
  ModelOptions model;
  std::optional<std::string> text;
  std::vector<int32_t> tokens;
  int64_t position = 0;
  bool mtp = false;
  std::string out;
  std::string hidden;
  std::string attentions;
};

struct TokenizeOptions {
  OutputOptions output;
  std::string folder;
  std::optional<std::string> text;
  bool control_tokens = true;
  bool bos = false;
  bool jsonl = false;
};

struct DetokenizeOptions {
  OutputOptions output;
  std::string folder;
  std::optional<std::vector<int32_t>> tokens;
  bool skip_special = false;
  bool jsonl = false;
};

enum class RenderPart { both, text, ids };

struct RenderCommandOptions {
  OutputOptions output;
  std::string folder;
  std::string messages;  // a file's name, "-" is standard input
  bool generation_prompt = true;
  RenderPart part = RenderPart::both;
};

struct PerplexityOptions {
  OutputOptions output;
  ModelOptions model;
  std::string file;
  std::vector<int32_t> tokens;
};

struct VerifyCommandOptions {
  OutputOptions output;
  std::string folder;
  bool hashes = false;
  std::string sums;         // a list of hashes; "": what the hub's client noted
  std::string resume_file;  // "": none
  bool values = false;
  int threads = 0;
};

struct PlanOptions {
  OutputOptions output;
  std::string folder;
  uint64_t ram = 0;  // as in ModelOptions
  int64_t context = 0;
  int threads = 0;
  std::optional<double> disk;  // bytes per second; empty: measured
  std::optional<double> memory;
  std::optional<double> operations;  // per second
};

struct SynthCommandOptions {
  OutputOptions output;
  std::string config;
  std::string out;
  uint64_t seed = 0;
  int shards = 1;
  std::string shard_table;  // the file behind --shards-csv
  bool skeleton = false;
  bool live = false;
  std::optional<int64_t> live_rows;
  int threads = 0;
};

struct QuantizeOptions {
  OutputOptions output;
  std::string folder;
  std::string out;
  int bits = 0;
  uint64_t ram = 0;
  int threads = 0;
};

struct CompareOptions {
  OutputOptions output;
  std::string folder_a;
  // Of both, but for the precision of weights, head and embedding, which is the second one's.
  ModelOptions model;
  std::string folder_b;
  std::string file;
  std::vector<int32_t> tokens;
  std::string scratch;  // folder for the first one's logits
};

struct InspectOptions {
  OutputOptions output;
  std::string folder;
  std::optional<int64_t> layer;
  std::string html;        // a file; "": none
  GraphLoadOptions graph;  // of models that are graphs
};

struct BenchCacheOptions {
  OutputOptions output;
  std::string trace;
  std::vector<int64_t> slots;  // empty: what is usual
};

struct BenchKernelsOptions {
  OutputOptions output;
  std::string kernels;
  int threads = 0;
  double seconds = 60;  // for the whole
  std::string only;     // what stands in "kernel shape rows"; empty: all
};

struct BenchDiskOptions {
  OutputOptions output;
  std::string folder;  // of a model, or
  std::string file;
  double seconds = 20;  // for the whole
};

struct BenchDecodeOptions {
  OutputOptions output;
  ModelOptions model;
  int64_t prompt = 16;
  int64_t tokens = 8;  // passes that are timed
  std::vector<int64_t> sequences = {1};
  double limit_seconds = 1;  // for each measurement of the limit
  int64_t project_layers = 61;
  int64_t project_dense = 3;
};

struct BenchPrefillOptions {
  OutputOptions output;
  ModelOptions model;
  int64_t prompt = 512;
  double limit_seconds = 1;
};

struct ExportOnnxOptions {
  OutputOptions output;
  std::string folder;
  std::string out;
  int64_t max_len = 2048;
  int64_t window = 64;
};

struct ExportQhxOptions {
  OutputOptions output;
  std::string folder;
  std::string out;
  int dsp_arch = 81;
  int64_t max_ctx = 1024;
  int64_t shards = 1;
  int64_t prefill_rows = 64;
};

struct NpuCheckOptions {
  OutputOptions output;
  std::string folder;
  GraphLoadOptions graph;
};

using Command =
    std::variant<BenchDecodeOptions, BenchPrefillOptions, ChatOptions, GenerateOptions,
                 BatchOptions, ServeOptions, LogitsOptions, TokenizeOptions, DetokenizeOptions,
                 RenderCommandOptions, PerplexityOptions, SynthCommandOptions, QuantizeOptions,
                 CompareOptions, BenchCacheOptions, BenchKernelsOptions, BenchDiskOptions,
                 InspectOptions, VerifyCommandOptions, PlanOptions, ExportOnnxOptions,
                 ExportQhxOptions, NpuCheckOptions>;

struct ParsedLine {
  std::optional<Command> command;
  std::string text;  // where there is no command: the help or the version that was asked for
};

// Error(usage) with one line that names the option.
ParsedLine parse_command_line(int argc, const char* const* argv);

}  // namespace fathom::cli
