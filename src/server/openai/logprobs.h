// Log probabilities in OpenAI's two shapes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "fathom/model.h"

namespace fathom::server {

// Of a chat: {"content": [{token, logprob, bytes, top_logprobs}], "refusal": null}, an entry for
// every token, those of the thought included.
std::string chat_logprobs(std::span<const PositionLogprobs> positions);

// Of /v1/completions: {tokens, token_logprobs, top_logprobs, text_offset}. Offsets count characters
// and go on from one piece of a stream to the next.
class CompletionLogprobs {
 public:
  // A prompt's first token. One that does not stand in the text takes no characters.
  void add_first(const std::string& token, bool stands_in_text);
  void add(std::span<const PositionLogprobs> positions);
  // What was added since the last call.
  std::string take();

 private:
  void add_token(const std::string& bytes);

  int64_t offset_ = 0;
  std::string tokens_;
  std::string logprobs_;
  std::string top_;
  std::string offsets_;
};

}  // namespace fathom::server
