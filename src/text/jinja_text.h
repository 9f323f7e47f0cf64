// The strings of a template: bytes, and for each stretch of them who wrote it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fathom::jinja {

// UTF-8 text in runs. A run is trusted where the template wrote it and untrusted where a message or
// a variable did; whatever a template does to a string, each character keeps its mark.
class Text {
 public:
  struct Run {
    size_t end;  // byte offset; the run begins where the one before ends
    bool trusted;
  };

  Text() = default;
  Text(std::string_view bytes, bool trusted) { append(bytes, trusted); }

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  const std::vector<Run>& runs() const { return runs_; }
  bool trusted_at(size_t at) const;

  void append(std::string_view bytes, bool trusted);
  void append(const Text& text) { append(text, 0, text.size()); }
  void append(const Text& text, size_t begin, size_t end);  // bytes [begin, end) of it
  Text part(size_t begin, size_t end) const;

 private:
  std::string bytes_;
  std::vector<Run> runs_;
};

// Offsets of the characters of `text`, and its size at the end. Ill-formed bytes count one each.
std::vector<size_t> character_offsets(std::string_view text);
size_t count_characters(std::string_view text);
char32_t character_of(std::string_view text, size_t at, size_t& size);

bool is_space(char32_t code);  // as str.isspace() has it
// Bytes of white space at the beginning and at the end.
size_t leading_space(std::string_view text);
size_t trailing_space(std::string_view text);
std::string_view trim_end(std::string_view text);

enum class Casing { upper, lower, title, capitalize };
Text change_case(const Text& text, Casing casing);
enum class CharacterClass { alpha, digit, alnum, space, upper, lower };
// As str.isalpha() and its kin: all characters are of the class, and there is one.
bool all_of_class(std::string_view text, CharacterClass wanted);

// Removes characters of `set` (white space where it is nullptr) at one or both ends.
Text strip(const Text& text, const std::string_view* set, bool left, bool right);
// str.split and str.rsplit; without a separator at runs of white space. `most` < 0: no limit.
std::vector<Text> split(const Text& text, const std::string_view* separator, int64_t most,
                        bool from_right);
std::vector<Text> split_lines(const Text& text, bool keep_ends);

}  // namespace fathom::jinja
