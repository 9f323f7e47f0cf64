// What the exporters of graphs and the NPU's self-check take.
#include <memory>

#include "base/error.h"
#include "cli/command_options.h"

namespace fathom::cli {
namespace {

constexpr int64_t kMostPositions = int64_t{1} << 24;
constexpr int64_t kMostShards = 4096;

void add_out(OptionSet& set, std::string* out) {
  set.value("--out", "DIR", "Folder that receives it",
            [out](const std::string& value) {
              if (value.empty()) fail_usage("--out: the folder's name is empty");
              *out = value;
            })
      .required();
}

void add_count(OptionSet& set, const char* name, const char* help, int64_t least, int64_t most,
               int64_t* count) {
  set.value(name, "N", help,
            [=](const std::string& value) { *count = parse_integer(value, name, least, most); });
}

}  // namespace

FinishCommand add_export_onnx_options(OptionSet& set) {
  auto options = std::make_shared<ExportOnnxOptions>();
  ExportOnnxOptions* o = options.get();
  add_output(set, &o->output, "{out, files, bytes}");
  add_folder(set, &o->folder);
  add_out(set, &o->out);
  add_count(set, "--max-len", "Positions of prompt and answer together (default: 2048)", 2,
            kMostPositions, &o->max_len);
  add_count(set, "--window", "Tokens of a prompt in one pass (default: 64)", 1, kMostPositions,
            &o->window);
  return [options] { return *options; };
}

FinishCommand add_export_qhx_options(OptionSet& set) {
  auto options = std::make_shared<ExportQhxOptions>();
  ExportQhxOptions* o = options.get();
  add_output(set, &o->output, "{out, files, bytes}");
  add_folder(set, &o->folder);
  add_out(set, &o->out);
  set.value("--dsp-arch", "vN", "Hexagon generation that the manifest names (default: v81)",
            [o](const std::string& value) {
              const bool v = value.starts_with('v');
              o->dsp_arch =
                  static_cast<int>(parse_integer(value.substr(v ? 1 : 0), "--dsp-arch", 1, 999));
            });
  add_count(set, "--max-ctx", "Positions of prompt and answer together (default: 1024)", 2,
            kMostPositions, &o->max_ctx);
  add_count(set, "--shards", "Parts of the decode graph, which run in a chain (default: 1)", 1,
            kMostShards, &o->shards);
  add_count(set, "--prefill-rows", "Rows of the prefill graph; 0: none (default: 64)", 0,
            kMostPositions, &o->prefill_rows);
  return [options] { return *options; };
}

FinishCommand add_npu_check_options(OptionSet& set) {
  auto options = std::make_shared<NpuCheckOptions>();
  NpuCheckOptions* o = options.get();
  add_output(set, &o->output, "The report as one JSON object");
  set.value("bundle", "DIR", "The bundle, or its folder for one Hexagon generation",
            [o](const std::string& value) {
              if (value.empty()) fail_usage("DIR: the folder's name is empty");
              o->folder = value;
            })
      .required();
  add_graph(set, &o->graph);
  return [options] { return *options; };
}

}  // namespace fathom::cli
