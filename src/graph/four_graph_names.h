// Names of tensors where no genai_config.json says others.
#pragma once

#include <cstdint>
#include <string>

namespace fathom {

struct FourGraphNames {
  std::string input_ids = "input_ids";
  std::string input_hidden = "input_hidden_states";
  std::string output_hidden = "output_hidden_states";
  std::string logits = "logits";
  std::string past_length = "past_seq_len";
  std::string total_length = "total_seq_len";
  std::string past_keys = "past_keys_%d";  // %d: the layer
  std::string past_values = "past_values_%d";
  std::string present_keys = "present_keys_%d";
  std::string present_values = "present_values_%d";
};

inline std::string numbered(const std::string& pattern, int64_t layer) {
  const size_t at = pattern.find("%d");
  if (at == std::string::npos) return pattern;
  return pattern.substr(0, at) + std::to_string(layer) + pattern.substr(at + 2);
}

}  // namespace fathom
