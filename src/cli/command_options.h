// What each command takes, and what several of them take alike.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/option_set.h"

namespace fathom::cli {

using FinishCommand = std::function<Command()>;

FinishCommand add_chat_options(OptionSet& set);
FinishCommand add_generate_options(OptionSet& set);
FinishCommand add_batch_options(OptionSet& set);
FinishCommand add_serve_options(OptionSet& set);
FinishCommand add_logits_options(OptionSet& set);
FinishCommand add_perplexity_options(OptionSet& set);
FinishCommand add_tokenize_options(OptionSet& set);
FinishCommand add_detokenize_options(OptionSet& set);
FinishCommand add_render_options(OptionSet& set);
FinishCommand add_synth_options(OptionSet& set);
FinishCommand add_quantize_options(OptionSet& set);
FinishCommand add_compare_options(OptionSet& set);
FinishCommand add_verify_options(OptionSet& set);
FinishCommand add_plan_options(OptionSet& set);
FinishCommand add_inspect_options(OptionSet& set);
FinishCommand add_export_onnx_options(OptionSet& set);
FinishCommand add_export_qhx_options(OptionSet& set);
FinishCommand add_npu_check_options(OptionSet& set);
FinishCommand add_bench_kernels_options(OptionSet& set);
FinishCommand add_bench_cache_options(OptionSet& set);
FinishCommand add_bench_disk_options(OptionSet& set);
FinishCommand add_bench_decode_options(OptionSet& set);
FinishCommand add_bench_prefill_options(OptionSet& set);

inline constexpr const char* kContextHelp =
    "Most tokens of a sequence, such as 4096 or 16K (default: as the model's files say)";

void add_output(OptionSet& set, OutputOptions* output, const std::string& json_help);
void add_folder(OptionSet& set, std::string* folder);
void add_threads(OptionSet& set, int* threads);
void add_kernels(OptionSet& set, std::string* kernels);
// Everything about loading and running a model.
void add_model(OptionSet& set, ModelOptions* model, const std::string& context_help);
// The same without the folder.
void add_running(OptionSet& set, ModelOptions* model, const std::string& context_help);
void add_chat_template(OptionSet& set, ModelOptions* model);
// What runs models that are graphs, and how.
void add_graph(OptionSet& set, GraphLoadOptions* graph);
// Drafting, for commands that generate.
void add_speculation(OptionSet& set, ModelOptions* model);
// Sampling, length and stops.
void add_ask(OptionSet& set, AskOptions* ask);

// Token ids where at least one must be given.
std::vector<int32_t> parse_some_ids(const std::string& value, const char* option);
// More than 0 and at most a day.
double parse_seconds(const std::string& value, const char* option);
ThinkMode parse_think(const std::string& value);

}  // namespace fathom::cli
