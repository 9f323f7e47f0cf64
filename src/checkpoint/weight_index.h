// model.safetensors.index.json: which file holds which tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace fathom {

struct WeightIndex {
  std::vector<std::string> files;                       // sorted, each once
  std::unordered_map<std::string, int> file_of_tensor;  // tensor name -> index into files
  // metadata.total_size where it is a whole number. Exporters disagree on what it counts: it is
  // only ever shown, nothing is sized by it.
  std::optional<uint64_t> total_size;
};

// Error(input) where the text is no index: syntax, a name that is listed twice, a file name that
// leads out of the folder.
WeightIndex parse_weight_index(std::string_view text, const std::string& path);

}  // namespace fathom
