// OutputFormat in force: which tokens an answer may go on with.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fathom/model.h"
#include "grammar/token_masks.h"
#include "text/reasoning.h"
#include "text/tokenizer.h"

namespace fathom {

// A format as a grammar over a vocabulary, with the masks that were needed so far.
struct CompiledFormat {
  std::shared_ptr<const grammar::TokenTrie> trie;
  grammar::Grammar grammar;
  std::unique_ptr<grammar::TokenMasks> masks;
  std::vector<TokenId> tokens;  // ids of the grammar's control tokens
};

// Compiles formats for one model, and keeps the last ones. Used by one thread.
class FormatCompiler {
 public:
  explicit FormatCompiler(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Where the prompt leaves the output decides how the answer begins. Error(usage) for what cannot
  // be enforced; nullptr for Kind::text.
  std::shared_ptr<CompiledFormat> compile(const OutputFormat& format,
                                          ReasoningSplitter::Start start);

 private:
  std::shared_ptr<CompiledFormat> make(const OutputFormat& format, bool spelled_thought);

  const Tokenizer& tokenizer_;
  std::shared_ptr<const grammar::TokenTrie> trie_;  // made on first use
  struct Kept {
    std::string key;
    std::shared_ptr<CompiledFormat> format;
  };
  std::list<Kept> kept_;  // the last used one first
};

// One answer on its way through a format.
class FormatFollower {
 public:
  // `ends`: the ids that end the answer.
  FormatFollower(std::shared_ptr<CompiledFormat> format, const Tokenizer& tokenizer,
                 ReasoningSplitter::Start start, std::vector<TokenId> ends);

  // Makes the logits of what may not come next -infinity; false where nothing may.
  bool restrict(std::span<float> logits);
  // Error(usage) for an id that does not fit (GenerateRequest::resume of another request).
  void take(TokenId id);

 private:
  enum class Stage { thought, fresh, answer };
  bool is_end(TokenId id) const;

  std::shared_ptr<CompiledFormat> format_;
  const Tokenizer& tokenizer_;
  ReasoningSplitter::Tags tags_;
  std::vector<TokenId> ends_;
  Stage stage_;
  grammar::Stacks stacks_;
  grammar::Places places_;
};

}  // namespace fathom
