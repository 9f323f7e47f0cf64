#include <filesystem>

#include "base/error.h"
#include "graph/four_graph.h"
#include "graph/graph_decoder.h"

namespace fathom {

bool is_graph_folder(const std::string& folder, const GraphChoice& choice) {
  std::error_code ignored;
  return choice.layout == "four-graph" ||
         std::filesystem::exists(folder + "/genai_config.json", ignored);
}

std::unique_ptr<GraphDecoder> open_graph_model(const std::string& folder,
                                               const GraphChoice& choice) {
  return std::make_unique<FourGraphModel>(folder, read_four_graph_config(folder, choice.layout),
                                          choice);
}

}  // namespace fathom
