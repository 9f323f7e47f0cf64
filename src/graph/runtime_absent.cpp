// In a program that was built without ONNX Runtime's headers.
#include "base/error.h"
#include "graph/runtime.h"

namespace fathom {

std::shared_ptr<GraphRuntime> load_graph_runtime(const RuntimePlaces&) {
  fail(ErrorKind::io,
       "this program was built without ONNX Runtime's headers and cannot run graphs: run "
       "setup/onnxruntime, or set ONNXRUNTIME_ROOT, and build it again");
}

}  // namespace fathom
