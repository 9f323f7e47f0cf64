// What commands take for models that are graphs (docs/npu.md).
#include <cstdlib>

#include "base/error.h"
#include "cli/command_options.h"
#include "graph/qnn_options.h"

namespace fathom::cli {
namespace {

std::string word_of(const std::string& value, const char* option,
                    std::initializer_list<const char*> words) {
  std::string all;
  for (const char* word : words) {
    if (value == word) return value;
    all += all.empty() ? word : std::string(", ") + word;
  }
  fail_usage("{}: '{}' is none of {}", option, value, all);
}

}  // namespace

void add_graph(OptionSet& set, GraphLoadOptions* graph) {
  if (const char* root = std::getenv("ONNXRUNTIME_ROOT"); root != nullptr && *root != '\0') {
    graph->runtime_folders.emplace_back(root);
  }
  set.group("Models of ONNX graphs and QHexRT bundles");
  set.value("--provider", "NAME",
            "cpu or qnn, the NPU (default: as the model's files say, where it is there)",
            [graph](const std::string& value) {
              graph->provider = word_of(value, "--provider", {"cpu", "qnn"});
            });
  set.repeated("--qnn", "KEY=VALUE",
               "Option of the QNN provider, such as htp_performance_mode=burst; repeatable; "
               "--qnn help lists them",
               [graph](const std::string& value) {
                 if (value == "help") fail_usage("--qnn takes\n{}", qnn_options_help());
                 graph->qnn.push_back(parse_qnn_option(value, "--qnn"));
               });
  set.flag("--require-npu",
           "Fail where the NPU does not take every compiled part of the model, or nothing of a "
           "graph that is made for it",
           &graph->require_npu);
  set.flag("--no-cpu-fallback", "Fail where any operator is left to the CPU",
           [graph] { graph->cpu_fallback = false; });
  set.value("--qnn-library", "FILE",
            "The QNN provider's plugin library (default: beside ONNX Runtime)",
            &graph->qnn_library);
  set.value("--onnxruntime", "FILE",
            "ONNX Runtime's library (default: in $ONNXRUNTIME_ROOT, or where the system looks)",
            &graph->runtime);
  set.value("--layout", "NAME",
            "four-graph: a folder of four .onnx files without genai_config.json",
            [graph](const std::string& value) {
              graph->layout = word_of(value, "--layout", {"four-graph"});
            });
  set.flag("--prefill", "QHexRT: take the prompt through the bundle's prefill graph",
           &graph->prefill);
  set.value("--context-cache", "DIR", "Keep what the QNN provider compiles, for the next start",
            &graph->context_cache);
  set.value("--profile", "PREFIX",
            "Write a profile of each graph to PREFIX_<graph>..., and say at the end where the time "
            "went",
            &graph->profile);
  set.group("");
}

}  // namespace fathom::cli
