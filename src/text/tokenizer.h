// tokenizer.json: text to ids and back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fathom {

using TokenId = int32_t;

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;
  bool lstrip = false;
  bool rstrip = false;
  bool single_word = false;
  bool normalized = false;
};

enum class ControlTokens {
  parse,    // added tokens in the text become their ids
  as_text,  // nothing in the text becomes an added token: what users write
};

// Byte-level BPE with the normalizer, pre-tokenizers and added tokens of its file. Immutable after
// loading: any number of threads may use one.
class Tokenizer {
 public:
  // Reads tokenizer.json (and tokenizer_config.json beside it, where there is one) of a folder.
  // Errors name the file and the field.
  static Tokenizer load(const std::string& folder);
  // From the text of a tokenizer.json alone; `path` names it in errors.
  static Tokenizer parse(std::string_view json, const std::string& path);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Ids of `text`; nothing is added before or after. Invalid UTF-8 is an Error(input) that names
  // the offset.
  std::vector<TokenId> encode(std::string_view text, ControlTokens control) const;
  // The bytes of one id; empty for ids that no text reaches.
  std::string_view bytes(TokenId id) const;
  // All ids as text; ill-formed bytes become U+FFFD as Utf8Stream does it. Special tokens (flag
  // `special`) are left out where `skip_special` is set.
  std::string decode(std::span<const TokenId> ids, bool skip_special = false) const;

  std::optional<TokenId> id_of(
      std::string_view token) const;                // an added token or a vocabulary entry
  const AddedToken* added_token(TokenId id) const;  // nullptr for ordinary ids
  int64_t size() const;                             // highest id + 1

  // What tokenizer_config.json says, where it is there.
  const std::string& bos_token() const;  // "" where there is none
  const std::string& eos_token() const;
  bool add_bos_token() const;
  std::optional<int64_t> model_max_length() const;
  // The chat template: chat_template.jinja beside it wins over tokenizer_config.json's; "" where
  // there is neither.
  const std::string& chat_template() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
