#include "graph/qhexrt/context_wrapper.h"

#include <filesystem>

#include "base/error.h"
#include "graph/onnx/graph_writer.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

void link_beside(const fs::path& binary, const fs::path& link) {
  std::error_code error;
  fs::remove(link, error);
  const fs::path target = fs::absolute(binary);
  fs::create_symlink(target, link, error);
  if (error) fs::create_hard_link(target, link, error);
  if (error) {
    error.clear();
    fs::copy_file(target, link, error);
  }
  if (error) {
    fail(ErrorKind::io, "{}: no link to {} can be made: {}", link.string(), target.string(),
         error.message());
  }
}

}  // namespace

std::string write_context_wrapper(const ContextWrapper& wrapper, const std::string& folder) {
  if (!fs::exists(wrapper.binary)) {
    fail(ErrorKind::io, "{}: the context binary is missing", wrapper.binary);
  }
  const std::string link = wrapper.name + fs::path(wrapper.binary).extension().string();
  link_beside(wrapper.binary, fs::path(folder) / link);

  onnx::GraphWriter writer(wrapper.name);
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  for (const TensorSpec& spec : wrapper.inputs) {
    writer.input(spec);
    inputs.push_back(spec.name);
  }
  for (const TensorSpec& spec : wrapper.outputs) {
    writer.output(spec);
    outputs.push_back(spec.name);
  }
  writer.node({"EPContext",
               wrapper.graph.empty() ? wrapper.name : wrapper.graph,
               inputs,
               outputs,
               {{"main_context", int64_t{1}},
                {"embed_mode", int64_t{0}},
                {"ep_cache_context", link},
                {"source", std::string("Qnn")}}});
  const std::string path = (fs::path(folder) / (wrapper.name + ".onnx")).string();
  writer.write(path);
  return path;
}

}  // namespace fathom
