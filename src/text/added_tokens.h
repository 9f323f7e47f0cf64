// Added tokens: cut out of a text before anything else looks at it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace fathom {

// Finds a set of added tokens in a text: leftmost first, the longest of those that begin there.
class AddedTokenFinder {
 public:
  struct Pattern {
    std::string content;
    const AddedToken* token;
  };
  // The tokens must outlive the finder.
  void build(std::vector<Pattern> patterns);
  bool empty() const { return patterns_.empty(); }

  // Calls text(piece) and token(added) in the text's order. lstrip and rstrip take the white space
  // beside a token with it, single_word tokens inside words are left alone.
  template <typename OnText, typename OnToken>
  void split(std::string_view text, OnText&& on_text, OnToken&& on_token) const {
    size_t done = 0;
    size_t search = 0;
    Found found;
    while (find(text, search, found)) {
      search = found.end;
      if (!stands_alone(text, found)) continue;
      const auto [begin, end] = with_white_space(text, found, done);
      if (begin > done) on_text(text.substr(done, begin - done));
      on_token(*found.token);
      done = end;
      search = end;
    }
    if (done < text.size()) on_text(text.substr(done));
  }

 private:
  struct Found {
    size_t begin;
    size_t end;
    const AddedToken* token;
  };
  bool find(std::string_view text, size_t from, Found& found) const;
  static bool stands_alone(std::string_view text, const Found& found);
  static std::pair<size_t, size_t> with_white_space(std::string_view text, const Found& found,
                                                    size_t done);

  std::vector<Pattern> patterns_;  // sorted by content
  // Per first byte: the patterns that begin with it.
  std::array<std::pair<uint32_t, uint32_t>, 256> ranges_{};
  int only_first_ = -1;  // where all begin with one byte
};

}  // namespace fathom
