// Stop strings across token boundaries.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fathom {

// Passes text on unless a stop string has begun in it: what might still become one is held back, so
// that no part of a stop string is ever shown. The earliest match in the text wins; among matches
// that begin at the same place, the one that completes first.
class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops);  // empty strings are an Error(usage)

  struct Result {
    std::string text;      // may be shown
    bool stopped = false;  // a stop string was found; nothing follows
  };
  Result push(std::string_view text);
  std::string finish();  // what was held back and not matched
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace fathom
