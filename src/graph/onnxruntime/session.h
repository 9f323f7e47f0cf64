// One session of ONNX Runtime.
#pragma once

#include <memory>

#include "graph/onnxruntime/api.h"
#include "graph/runtime.h"

namespace fathom::ort {

// What sessions share; it outlives them.
struct Environment {
  Api api;
  OrtEnv* env = nullptr;
  std::string version;
  std::string library;
  // The plugin library that was registered for the QNN provider; "": none.
  std::string qnn_plugin;
  ~Environment();
};

std::unique_ptr<GraphSession> open_session(std::shared_ptr<Environment> environment,
                                           const SessionRequest& request);

}  // namespace fathom::ort
