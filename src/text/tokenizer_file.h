// tokenizer.json and tokenizer_config.json, checked and taken apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace fathom {

// The bytes of every id, back to back.
class TokenBytes {
 public:
  // False where the id has bytes already.
  bool set(TokenId id, std::string_view bytes);
  std::string_view of(TokenId id) const;
  bool has(TokenId id) const;
  int64_t size() const { return static_cast<int64_t>(places_.size()); }  // highest id + 1

 private:
  struct Place {
    uint32_t offset = 0;
    uint32_t length = UINT32_MAX;  // none
  };
  std::string pool_;
  std::vector<Place> places_;
};

struct TokenizerParts {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::vector<AddedToken> added;
  Bpe bpe;
  TokenBytes bytes;
  // Vocabulary entries that are not written in the byte alphabet: no text reaches them.
  std::unordered_map<std::string, TokenId> unspelled;
};

// Errors are Error(input) and begin with the path and the field.
TokenizerParts read_tokenizer_json(std::string_view json, const std::string& path);

struct TokenizerConfig {
  std::string bos_token;
  std::string eos_token;
  bool add_bos_token = false;
  std::optional<int64_t> model_max_length;
  std::string chat_template;
};

TokenizerConfig read_tokenizer_config(std::string_view json, const std::string& path);

}  // namespace fathom
