#include <filesystem>

#include "base/error.h"
#include "graph/four_graph.h"
#include "graph/graph_decoder.h"
#include "graph/qhexrt/bundle.h"

namespace fathom {
namespace {

bool has_genai_config(const std::string& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder + "/genai_config.json", ignored);
}

bool is_checkpoint(const std::string& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder + "/config.json", ignored);
}

}  // namespace

bool is_graph_folder(const std::string& folder, const GraphChoice& choice) {
  if (choice.layout == "four-graph" || has_genai_config(folder)) return true;
  return !is_checkpoint(folder) && !find_qhexrt_manifest(folder, choice.qnn).empty();
}

std::string graph_text_folder(const std::string& folder, const GraphChoice& choice) {
  if (choice.layout == "four-graph" || has_genai_config(folder)) return folder;
  const std::string manifest = find_qhexrt_manifest(folder, choice.qnn);
  if (manifest.empty()) return folder;
  return std::filesystem::path(manifest).parent_path().string();
}

std::unique_ptr<GraphDecoder> open_graph_model(const std::string& folder,
                                               const GraphChoice& choice) {
  if (choice.layout == "four-graph" || has_genai_config(folder)) {
    return std::make_unique<FourGraphModel>(folder, read_four_graph_config(folder, choice.layout),
                                            choice);
  }
  const std::string manifest = find_qhexrt_manifest(folder, choice.qnn);
  if (manifest.empty()) {
    fail_input("{}: there is neither a genai_config.json nor a bundle's manifest", folder);
  }
  return std::make_unique<QhexrtModel>(
      parse_qhexrt_manifest(read_text(manifest, uint64_t{16} << 20), manifest), "", choice);
}

}  // namespace fathom
