// Template source to tokens, white-space control included.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fathom::jinja {

enum class TokenKind {
  data,  // text between tags
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  integer,
  floating,
  string,
  op,
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;  // data and strings: the characters meant; else as written
  int line = 1;
};

// What is wrong in a template's source, and where.
struct SourceError {
  int line;
  std::string message;
};

// With trim_blocks and lstrip_blocks, as chat templates are written for: the line break after a
// block tag or comment goes, so do blanks before one that begins its line. Throws SourceError.
std::vector<Token> tokenise(std::string_view source);

}  // namespace fathom::jinja
