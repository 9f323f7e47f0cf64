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

std::optional<GraphContract> graph_contract(const std::string& folder, const GraphChoice& choice) {
  if (!choice.manifest.empty()) return GraphContract::qhexrt;
  if (choice.layout == "four-graph" || has_genai_config(folder)) return GraphContract::four_graph;
  if (is_checkpoint(folder) || find_qhexrt_manifest(folder, choice.qnn).empty()) {
    return std::nullopt;
  }
  return GraphContract::qhexrt;
}

std::string graph_text_folder(const std::string& folder, const GraphChoice& choice) {
  if (graph_contract(folder, choice) != GraphContract::qhexrt) return folder;
  const QhexrtManifest manifest = read_qhexrt_manifest(folder, choice);
  const std::filesystem::path tokenizer =
      std::filesystem::path(artifacts_of(manifest, choice)) / manifest.tokenizer;
  if (tokenizer.filename() != "tokenizer.json") {
    fail_input("{}: artifacts.tokenizer: {} is not a tokenizer.json", manifest.path,
               manifest.tokenizer);
  }
  return tokenizer.parent_path().string();
}

std::unique_ptr<GraphDecoder> open_graph_model(const std::string& folder,
                                               const GraphChoice& choice) {
  const auto contract = graph_contract(folder, choice);
  if (!contract) {
    fail_input("{}: there is neither a genai_config.json nor a bundle's manifest", folder);
  }
  if (*contract == GraphContract::four_graph) {
    return std::make_unique<FourGraphModel>(folder, read_four_graph_config(folder, choice.layout),
                                            choice);
  }
  return std::make_unique<QhexrtModel>(read_qhexrt_manifest(folder, choice), choice);
}

}  // namespace fathom
