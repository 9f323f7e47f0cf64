// What quantize and compare take.
#include <map>
#include <memory>

#include "base/error.h"
#include "base/units.h"
#include "cli/command_options.h"

namespace fathom::cli {

FinishCommand add_quantize_options(OptionSet& set) {
  auto options = std::make_shared<QuantizeOptions>();
  QuantizeOptions* o = options.get();
  add_output(set, &o->output,
             "{out, format, matrices, matrix_bytes, packed_bytes, bytes, shards, earlier_shards, "
             "seconds}");
  set.value("directory", "DIR", "The checkpoint",
            [o](const std::string& v) {
              if (v.empty()) fail_usage("DIR: the folder's name is empty");
              o->folder = v;
            })
      .required();
  set.value("--to", "FORMAT", "int8, int4, int3 or int2",
            [o](const std::string& v) {
              const std::map<std::string, int> formats = {
                  {"int8", 8}, {"int4", 4}, {"int3", 3}, {"int2", 2}};
              const auto found = formats.find(v);
              if (found == formats.end())
                fail_usage("--to: '{}' is none of int8, int4, int3, int2", v);
              o->bits = found->second;
            })
      .required();
  set.value("--out", "DIR", "A new or empty folder, or one that an interrupted call has left",
            [o](const std::string& v) {
              if (v.empty()) fail_usage("--out: the folder's name is empty");
              o->out = v;
            })
      .required();
  set.value("--ram", "SIZE", "Most memory that the process may take (some 100 MiB do)",
            [o](const std::string& v) {
              o->ram = parse_size(v, "--ram");
              if (o->ram == 0) fail_usage("--ram: 0 is no budget");
            });
  add_threads(set, &o->threads);
  return [options] { return *options; };
}

FinishCommand add_compare_options(OptionSet& set) {
  auto options = std::make_shared<CompareOptions>();
  CompareOptions* o = options.get();
  add_output(set, &o->output,
             "{tokens, predicted, windows, ctx, a: {model, mean_nll, perplexity}, b: {...}, "
             "kl_mean, kl_max, kl_max_position, top1_agreement}");
  set.value("first", "A", "The model to compare with", &o->folder_a).required();
  set.value("second", "B", "The other one; its vocabulary must be the same", &o->folder_b)
      .required();
  set.value("--file", "FILE", "The text; - is standard input", [o](const std::string& v) {
    if (v.empty()) fail_usage("--file: the file's name is empty");
    o->file = v;
  });
  set.value("--tokens", "IDS", "Token ids instead of a file; no tokenizer is needed",
            [o](const std::string& v) { o->tokens = parse_some_ids(v, "--tokens"); });
  set.value("--scratch", "DIR",
            "Folder for the first model's logits, 4 bytes for each token and entry of the "
            "vocabulary (default: the system's folder for temporary files)",
            &o->scratch);
  add_running(set, &o->model,
              "Tokens of a window, such as 4096 or 16K (default: 2048 or the models' context)");
  return [options] {
    if (options->tokens.empty() == options->file.empty()) {
      fail_usage("give exactly one of --file and --tokens");
    }
    if (options->model.context == 1) fail_usage("--ctx: a window has at least 2 tokens");
    return *options;
  };
}

}  // namespace fathom::cli
