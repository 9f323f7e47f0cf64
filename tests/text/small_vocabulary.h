// Byte-level vocabularies small enough to write down: the text of a tokenizer.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "text/bpe.h"

namespace fathom {

// All 256 bytes (id = byte), then one token per merge, in order, from 256 up.
inline nlohmann::json small_vocabulary(
    const std::vector<std::pair<std::string, std::string>>& merges = {}) {
  using nlohmann::json;
  json vocabulary = json::object();
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    vocabulary[spelling_of_bytes({&byte, 1})] = b;
  }
  json pairs = json::array();
  int next = 256;
  for (const auto& [left, right] : merges) {
    const std::string spelled_left = spelling_of_bytes(left);
    const std::string spelled_right = spelling_of_bytes(right);
    pairs.push_back({spelled_left, spelled_right});
    if (!vocabulary.contains(spelled_left + spelled_right)) {
      vocabulary[spelled_left + spelled_right] = next++;
    }
  }
  return {
      {"version", "1.0"},
      {"added_tokens", json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", pairs}}},
  };
}

// `flags` may hold lstrip, rstrip, single_word, normalized, special.
inline void add_token(nlohmann::json& file, int id, const std::string& content,
                      const nlohmann::json& flags = nlohmann::json::object()) {
  nlohmann::json token = {
      {"id", id}, {"content", content}, {"special", false}, {"normalized", false}};
  token.update(flags);
  file["added_tokens"].push_back(token);
}

}  // namespace fathom
