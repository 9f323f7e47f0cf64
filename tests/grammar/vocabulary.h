// A vocabulary small enough to look at every token, with what vocabularies have of JSON.
#pragma once

#include <string>
#include <vector>

namespace fathom::grammar {

// All bytes, then tokens of several; the last one has no bytes, as a control token.
inline std::vector<std::string> test_vocabulary() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* token : {"\",",
                            "\":",
                            "\"}",
                            "\"}}",
                            "\"]",
                            "\"],",
                            "{\"",
                            "[{\"",
                            "{}",
                            "[]",
                            "[[",
                            "]]",
                            "]}}",
                            "}]",
                            "\": \"",
                            "\",\"",
                            "name",
                            "a",
                            "ab",
                            " the",
                            "e\"",
                            "12",
                            "00",
                            "1,",
                            "3}",
                            "true",
                            "alse",
                            "null",
                            "null}",
                            "\n  ",
                            "\n    \"",
                            ", ",
                            ": ",
                            " {",
                            "é",
                            "ér",
                            "日本",
                            "\xe6\x97",
                            "\xa5x",
                            "\\n",
                            "\\\"",
                            "\\u00",
                            "\\ud8",
                            "-1",
                            ".5",
                            "e+",
                            "\"a\":1",
                            "x\"},{\"",
                            "😀",
                            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                            "aaaaaaaaaaaaaaaaa"}) {
    tokens.emplace_back(token);
  }
  tokens.emplace_back("");
  return tokens;
}

}  // namespace fathom::grammar
