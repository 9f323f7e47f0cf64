// inspect, of models that are graphs.
#include <fmt/core.h>

#include "base/join.h"
#include "base/units.h"
#include "cli/inspect.h"
#include "cli/json_output.h"

namespace fathom::cli {
namespace {

std::string devices_text(const GraphInspection& inspection) {
  std::vector<std::string> parts;
  for (const GraphDevice& device : inspection.devices) {
    parts.push_back(device.provider + " on " + device.type +
                    (device.vendor.empty() ? "" : " of " + device.vendor));
  }
  return parts.empty() ? "none told" : join(parts, ", ");
}

template <typename T, typename Make>
std::string json_list(const std::vector<T>& items, const Make& make) {
  std::string text = "[";
  for (const T& item : items) text += (text.size() > 1 ? "," : "") + make(item);
  return text + "]";
}

std::string spec_json(const TensorSpec& spec) {
  std::string shape = json_list(spec.shape, [](int64_t dim) { return std::to_string(dim); });
  return JsonObject()
      .text("name", spec.name)
      .text("type", element_name(spec.type))
      .raw("shape", shape)
      .str();
}

std::string graph_json(const InspectedGraph& graph) {
  return JsonObject()
      .text("name", graph.name)
      .text("file", graph.file)
      .natural("bytes", graph.bytes)
      .raw("inputs", json_list(graph.inputs, spec_json))
      .raw("outputs", json_list(graph.outputs, spec_json))
      .raw("contexts", json_list(graph.contexts, json_string))
      .str();
}

}  // namespace

std::string graph_inspection_text(const GraphInspection& inspection) {
  const Platform& platform = inspection.platform;
  std::string text =
      fmt::format("{}: {}, {}\n\n", inspection.folder, inspection.contract, inspection.source);
  const auto line = [&text](const char* name, const std::string& value) {
    text += fmt::format("{:<14}{}\n", name, value);
  };
  line("system", platform.system);
  line("architecture",
       platform.emulated()
           ? fmt::format("{}, emulated on {}: the NPU's libraries need a program built for {}",
                         platform.program, platform.machine, platform.machine)
           : platform.program + ", not emulated");
  line("runtime", inspection.runtime.empty() ? "not found" : inspection.runtime);
  line("providers", inspection.providers.empty() ? "none" : join(inspection.providers, ", "));
  line("devices", devices_text(inspection));
  line("QNN plugin", inspection.qnn_library.empty() ? "not found" : inspection.qnn_library);
  for (const InspectedGraph& graph : inspection.graphs) {
    text += fmt::format("\n{}: {} ({})\n", graph.name, graph.file, format_size(graph.bytes));
    for (const TensorSpec& spec : graph.inputs) text += "  in   " + describe(spec) + "\n";
    for (const TensorSpec& spec : graph.outputs) text += "  out  " + describe(spec) + "\n";
    for (const std::string& context : graph.contexts) text += "  QNN  " + context + "\n";
  }
  for (const std::string& problem : inspection.problems) text += "\nproblem: " + problem + "\n";
  return text;
}

std::string graph_inspection_json(const GraphInspection& inspection) {
  const Platform& platform = inspection.platform;
  return JsonObject()
      .text("folder", inspection.folder)
      .text("contract", inspection.contract)
      .text("source", inspection.source)
      .object("platform", JsonObject()
                              .text("system", platform.system)
                              .text("program", platform.program)
                              .text("machine", platform.machine)
                              .boolean("emulated", platform.emulated()))
      .text("runtime", inspection.runtime)
      .raw("providers", json_list(inspection.providers, json_string))
      .raw("devices", json_list(inspection.devices,
                                [](const GraphDevice& device) {
                                  return JsonObject()
                                      .text("provider", device.provider)
                                      .text("type", device.type)
                                      .text("vendor", device.vendor)
                                      .str();
                                }))
      .text("qnn_library", inspection.qnn_library)
      .raw("graphs", json_list(inspection.graphs, graph_json))
      .raw("problems", json_list(inspection.problems, json_string))
      .str();
}

}  // namespace fathom::cli
