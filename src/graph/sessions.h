// Opens graphs as the user has asked for: provider, its options, caching, sharing; and says which
// provider took what.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/runner.h"
#include "graph/runtime.h"

namespace fathom {

// What the command line says of graphs.
struct GraphChoice {
  RuntimePlaces runtime;
  std::optional<Provider>
      provider;             // empty: qnn where a plugin library is named, or where the
                            // folder's configuration asks for it and there is one; else cpu
  GraphOptions qnn;         // of the QNN provider; they win over the folder's own
  std::string qnn_library;  // the plugin; "": beside the runtime, where there is one
  bool require_npu = false;
  bool cpu_fallback = true;   // false: session.disable_cpu_ep_fallback
  std::string layout;         // "four-graph": the walkthrough's files, without genai_config.json
  std::string context_cache;  // a folder for compiled contexts; "": none
  std::string profile;        // prefix of profile files; "": none
  std::string work_folder;    // for EPContext wrappers; "": a temporary one
  bool prefill = false;       // QHexRT: use the prefill graph
  std::string manifest;       // QHexRT: this one, whatever the folder holds
  std::string artifacts;      // QHexRT: where its files lie; "": beside the manifest
  int threads = 0;
};

// What one graph is.
struct GraphFile {
  std::string name;  // "context"
  std::string path;
  GraphOptions provider_options;  // the folder's own
  GraphOptions session_options;   // likewise
  bool shares_context = false;    // with other graphs of this model
  bool last_to_share = false;
  // Operators that are expected on the CPU though the NPU was asked for; "*": all.
  std::vector<std::string> expected_on_cpu;
  bool must_use_npu = false;  // under require_npu
};

class GraphSessions {
 public:
  // Loads the runtime, and the plugin where one is needed. `wants_qnn`: the folder asks for it.
  GraphSessions(const GraphChoice& choice, bool wants_qnn);

  std::unique_ptr<GraphRunner> open(const GraphFile& file);
  const GraphRuntime& runtime() const { return *runtime_; }
  Provider provider() const { return provider_; }
  const std::string& provider_reason() const { return reason_; }
  // A line per graph that was opened: "context: QNNExecutionProvider 28 EPContext; CPU ..."
  const std::vector<std::string>& report() const { return report_; }

 private:
  std::string describe_assignment(const GraphFile& file, const GraphRunner& runner);

  GraphChoice choice_;
  std::shared_ptr<GraphRuntime> runtime_;
  Provider provider_ = Provider::cpu;
  std::string reason_;
  std::vector<std::string> report_;
};

// The plugin library beside the runtime's, or in the folders that are searched; "" where there is
// none.
std::string find_qnn_library(const GraphRuntime& runtime, const RuntimePlaces& places);

}  // namespace fathom
