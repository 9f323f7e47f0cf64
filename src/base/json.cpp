#include "base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json_sax.h"

namespace fathom {
namespace {

// The length of the well-formed UTF-8 sequence that `text` begins with; 0 where it is not one.
// Surrogates and overlong forms need no care here: the result only decides how a message is shown.
size_t utf8_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (length == 0 || lead > 0xf4 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  }
  return length;
}

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= limit) return out + "...";
    const size_t length = utf8_length(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    if (length == 0 || byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
      text.remove_prefix(1);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return out;
}

// Builds a document from events. Json is nlohmann::json or nlohmann::ordered_json.
template <typename Json>
class Builder {
 public:
  using number_integer_t = typename Json::number_integer_t;
  using number_unsigned_t = typename Json::number_unsigned_t;
  using number_float_t = typename Json::number_float_t;
  using string_t = typename Json::string_t;
  using binary_t = typename Json::binary_t;

  Builder(std::string_view text, std::string_view what, int depth)
      : text_(text), what_(what), depth_(static_cast<size_t>(std::max(depth, 0))) {}

  Json take() {
    sax_parse_json<Json>(text_, what_, &reached_, this);
    return std::move(root_);
  }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(number_integer_t value) { return add(value); }
  bool number_unsigned(number_unsigned_t value) { return add(value); }
  bool number_float(number_float_t value, const string_t&) { return add(value); }
  bool string(string_t& value) { return add(std::move(value)); }
  bool binary(binary_t&) { return false; }  // JSON text has none
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(string_t& name) {
    Level& level = open_.back();
    bool is_new = false;
    if constexpr (kOrdered) {
      // The ordered object finds keys by walking them all; a set keeps large objects linear.
      is_new = level.keys.insert(name).second;
      if (is_new) {
        using Members = std::vector<typename Json::object_t::value_type>;
        Members& members = level.value->template get_ref<typename Json::object_t&>();
        level.member = &members.emplace_back(name, nullptr).second;
      }
    } else {
      const auto [place, inserted] =
          level.value->template get_ref<typename Json::object_t&>().try_emplace(name, nullptr);
      is_new = inserted;
      level.member = &place->second;
    }
    if (!is_new) refuse(fmt::format("the key {} is given twice", quoted_for_message(name)));
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) {
    fail_json(text_, position, what_, json_syntax_problem(error.what()));
  }

 private:
  static constexpr bool kOrdered = std::is_same_v<Json, nlohmann::ordered_json>;
  struct Level {
    Json* value;             // an object or array that is not closed yet
    Json* member = nullptr;  // in an object: where the value of the last key goes
    std::unordered_set<std::string> keys;
  };

  [[noreturn]] void refuse(std::string_view problem) {
    fail_json(text_, static_cast<size_t>(reached_ - text_.data()), what_, problem);
  }

  template <typename Value>
  Json* place(Value&& value) {
    if (open_.empty()) {
      root_ = Json(std::forward<Value>(value));
      return &root_;
    }
    Level& level = open_.back();
    if (level.value->is_array()) {
      auto& elements = level.value->template get_ref<typename Json::array_t&>();
      return &elements.emplace_back(std::forward<Value>(value));
    }
    *level.member = Json(std::forward<Value>(value));
    return level.member;
  }
  template <typename Value>
  bool add(Value&& value) {
    place(std::forward<Value>(value));
    return true;
  }
  bool open(Json&& value) {
    if (open_.size() >= depth_) refuse(fmt::format("more than {} nested levels", depth_));
    open_.push_back({place(std::move(value)), nullptr, {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  std::string_view what_;
  size_t depth_;
  const char* reached_ = nullptr;
  Json root_;
  std::vector<Level> open_;  // pointers stay valid: only the innermost value ever grows
};

}  // namespace

void fail_json(std::string_view text, size_t offset, std::string_view what,
               std::string_view problem) {
  offset = std::clamp<size_t>(offset, 1, text.size() + 1) - 1;
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0, the first line
  fail_input("{}:{}:{}: {}", what, line, offset - line_begin + 1, problem);
}

std::string json_syntax_problem(std::string_view message) {
  // "[json.exception...] parse error at line L, column C: syntax error while ..."
  if (const size_t column = message.find(", column "); column != std::string_view::npos) {
    const size_t colon = message.find(": ", column);
    if (colon != std::string_view::npos) message.remove_prefix(colon + 2);
  } else if (const size_t bracket = message.find("] "); bracket != std::string_view::npos) {
    message.remove_prefix(bracket + 2);  // "[json.exception...] number overflow ..."
  }
  return printable(message, 300);
}

std::string quoted_for_message(std::string_view name, size_t limit) {
  return "'" + printable(name, limit) + "'";
}

nlohmann::json parse_json(std::string_view text, std::string_view what, int depth) {
  return Builder<nlohmann::json>(text, what, depth).take();
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, std::string_view what, int depth) {
  return Builder<nlohmann::ordered_json>(text, what, depth).take();
}

}  // namespace fathom
