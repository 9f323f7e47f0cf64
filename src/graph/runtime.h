// The library that runs ONNX graphs, loaded while the program runs. Only src/graph/onnxruntime
// knows its headers; a program built without them says so when a graph is to be run.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/tensor.h"

namespace fathom {

using GraphOptions = std::map<std::string, std::string>;

enum class Provider { cpu, qnn };
inline constexpr const char* kQnnProvider = "QNNExecutionProvider";
inline constexpr const char* kCpuProvider = "CPUExecutionProvider";

// Which operators of a graph a provider took.
struct ProviderShare {
  std::string provider;
  std::map<std::string, int64_t> operators;  // "EPContext", "com.microsoft.GroupQueryAttention"
};

// One loaded graph. Used by one thread at a time.
class GraphSession {
 public:
  virtual ~GraphSession() = default;
  virtual const std::vector<TensorSpec>& inputs() const = 0;
  virtual const std::vector<TensorSpec>& outputs() const = 0;
  // Empty where the runtime is too old to tell.
  virtual const std::vector<ProviderShare>& assignment() const = 0;
  // Every input and output is bound to memory that the caller owns.
  virtual void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs) = 0;
  // Ends profiling and names its file; "" where there is none.
  virtual std::string end_profiling() = 0;
};

struct SessionRequest {
  std::string name;  // in messages: "context"
  std::string file;  // an .onnx file
  Provider provider = Provider::cpu;
  GraphOptions provider_options;  // of the QNN provider, checked
  GraphOptions session_options;   // "ep.context_enable", ...
  int threads = 0;                // of operators that run on the CPU; 0: the runtime's choice
  std::string profile_prefix;     // "": no profile
};

struct GraphDevice {
  std::string provider;  // "QNNExecutionProvider"
  std::string type;      // "CPU", "GPU", "NPU"
  std::string vendor;
};

class GraphRuntime {
 public:
  virtual ~GraphRuntime() = default;
  virtual const std::string& version() const = 0;  // "1.29.0"
  virtual const std::string& library() const = 0;  // the file it was loaded from
  virtual std::vector<std::string> providers() const = 0;
  virtual std::vector<GraphDevice> devices() const = 0;
  // Makes the QNN provider of a plugin library available, once.
  virtual void register_qnn(const std::string& library) = 0;
  virtual std::unique_ptr<GraphSession> open(const SessionRequest& request) = 0;
};

// Where the runtime is looked for, in this order: `library` (a file) alone where it is given; else
// the folders (and their lib/), the place that the build knows, the system's own places. Error(io)
// lists what was tried.
struct RuntimePlaces {
  std::string library;
  std::vector<std::string> folders;
};
std::shared_ptr<GraphRuntime> load_graph_runtime(const RuntimePlaces& places);

}  // namespace fathom
