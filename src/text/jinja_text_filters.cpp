// Filters over strings and numbers.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "text/jinja_builtins.h"

namespace fathom::jinja {

void spend_on(Interpreter& in, const Text& text) { in.heap().spend(1 + text.size() / 16); }

Text replace_text(Interpreter& in, const Text& text, const Text& from, const Text& to,
                  int64_t most) {
  spend_on(in, text);
  Text result;
  const auto grow = [&] {
    in.heap().spend(1 + to.size() / 64);
    in.heap().need(result.size() + result.runs().size() * sizeof(Text::Run));
  };
  size_t at = 0;
  if (from.empty()) {  // before each character and at the end
    const std::vector<size_t> offsets = character_offsets(text.view());
    for (size_t i = 0; i < offsets.size() && most != 0; ++i, --most) {
      grow();
      result.append(to);
      at = i + 1 < offsets.size() ? offsets[i + 1] : text.size();
      result.append(text, offsets[i], at);
    }
  }
  while (!from.empty() && most != 0) {
    const size_t found = text.bytes().find(from.bytes(), at);
    if (found == std::string::npos) break;
    grow();
    result.append(text, at, found);
    result.append(to);
    at = found + from.size();
    --most;
  }
  result.append(text, at, text.size());
  return result;
}

Text join_texts(Interpreter& in, const std::vector<Value>& items, const Text& between) {
  Text result;
  for (size_t i = 0; i < items.size(); ++i) {
    const Text item = to_text(in.heap(), items[i]);
    in.heap().spend(1 + (item.size() + between.size()) / 64);
    in.heap().need(result.size() + result.runs().size() * sizeof(Text::Run));
    if (i > 0) result.append(between);
    result.append(item);
  }
  return result;
}

Value texts_to_list(Interpreter& in, std::vector<Text> texts) {
  std::vector<Value> items;
  items.reserve(texts.size());
  for (Text& text : texts) items.push_back(in.heap().text(std::move(text)));
  return in.heap().list(std::move(items));
}

namespace {

using In = Interpreter&;
using V = const Value&;
using A = const Arguments&;

constexpr int64_t kWidest = 10000;

Value cased(In in, V value, Casing casing) {
  Text text = to_text(in.heap(), value);
  in.heap().spend(1 + text.size() / 4);
  return in.heap().text(change_case(text, casing));
}

// As Jinja does it, unlike str.title(): a word begins after white space, brackets or a hyphen.
Value title(In in, V value, A) {
  const Text text = to_text(in.heap(), value);
  in.heap().spend(1 + text.size() / 4);
  Text result;
  size_t begin = 0;
  const auto add_word = [&](size_t end) {
    if (end > begin) result.append(change_case(text.part(begin, end), Casing::capitalize));
    begin = end;
  };
  size_t size = 0;
  for (size_t at = 0; at < text.size(); at += size) {
    const char32_t code = character_of(text.view(), at, size);
    const bool parts =
        is_space(code) || (code < 0x80 && std::string_view("-({[<").find(static_cast<char>(code)) !=
                                              std::string_view::npos);
    if (!parts) continue;
    add_word(at);
    result.append(text, at, at + size);
    begin = at + size;
  }
  add_word(text.size());
  return in.heap().text(std::move(result));
}

Value trim(In in, V value, A arguments) {
  const Bound bound("trim", arguments, {"chars"});
  const Text text = to_text(in.heap(), value);
  spend_on(in, text);
  const Text* set = bound.text(0);
  const std::string_view view = set == nullptr ? std::string_view() : set->view();
  return in.heap().text(strip(text, set == nullptr ? nullptr : &view, true, true));
}

Value replace(In in, V value, A arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"});
  return in.heap().text(replace_text(in, to_text(in.heap(), value),
                                     to_text(in.heap(), bound.required(0)),
                                     to_text(in.heap(), bound.required(1)), bound.integer(2, -1)));
}

Value join(In in, V value, A arguments) {
  const Bound bound("join", arguments, {"d", "attribute"});
  std::vector<Value> items = in.items_of(value);
  if (bound.get(1) != nullptr && !bound.get(1)->is_none()) {
    for (Value& item : items) item = in.item(item, *bound.get(1));
  }
  const Text between = bound.get(0) == nullptr ? Text() : to_text(in.heap(), *bound.get(0));
  return in.heap().text(join_texts(in, items, between));
}

Value escape(In in, V value, A) {
  const Text text = to_text(in.heap(), value);
  spend_on(in, text);
  Text result;
  size_t begin = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text.bytes()[at];
    const char* entity = c == '&'    ? "&amp;"
                         : c == '<'  ? "&lt;"
                         : c == '>'  ? "&gt;"
                         : c == '"'  ? "&#34;"
                         : c == '\'' ? "&#39;"
                                     : nullptr;
    if (entity == nullptr) continue;
    result.append(text, begin, at);
    result.append(entity, text.trusted_at(at));
    begin = at + 1;
  }
  result.append(text, begin, text.size());
  return in.heap().text(std::move(result));
}

Value indent(In in, V value, A arguments) {
  const Bound bound("indent", arguments, {"width", "first", "blank"});
  Text prefix;
  if (bound.get(0) != nullptr && bound.get(0)->is_string()) {
    prefix = bound.get(0)->text();
  } else {
    const int64_t width = std::clamp<int64_t>(bound.integer(0, 4), 0, kWidest);
    prefix.append(std::string(static_cast<size_t>(width), ' '), true);
  }
  const Text text = to_text(in.heap(), value);
  spend_on(in, text);
  Text whole = text;
  whole.append("\n", true);  // so that a line break at the end counts as a last, empty line
  Text result;
  bool is_first = true;
  for (const Text& line : split_lines(whole, false)) {
    if (!is_first) result.append("\n", true);
    const bool wanted = is_first ? bound.flag(1, false) : !line.empty() || bound.flag(2, false);
    in.heap().spend(1 + prefix.size() / 64);
    in.heap().need(result.size() + prefix.size());
    if (wanted) result.append(prefix);
    result.append(line);
    is_first = false;
  }
  return in.heap().text(std::move(result));
}

Value tojson(In in, V value, A arguments) {
  const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = bound.flag(0, false);
  const int64_t width = bound.integer(1, -1);
  if (width > kWidest) fail_render("tojson: an indent of {} is too wide", width);
  style.indent = static_cast<int>(std::max<int64_t>(width, -1));
  if (style.indent >= 0) style.item_separator = ",";
  if (bound.get(2) != nullptr && !bound.get(2)->is_none()) {
    const std::vector<Value> separators = in.items_of(*bound.get(2));
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string()) {
      fail_render("tojson: 'separators' must be two strings");
    }
    style.item_separator = separators[0].text().bytes();
    style.key_separator = separators[1].text().bytes();
  }
  style.sort_keys = bound.flag(3, false);
  Text out;
  append_json(in.heap(), out, value, style);
  return in.heap().text(std::move(out));
}

std::optional<double> parse_double(std::string_view text) {
  text.remove_prefix(leading_space(text));
  text = trim_end(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

Value to_int(In, V value, A arguments) {
  const Bound bound("int", arguments, {"default", "base"});
  const Value standard = bound.get(0) != nullptr ? *bound.get(0) : Value(int64_t{0});
  require_defined(value);
  if (const auto whole = value.integer()) return Value(*whole);
  std::optional<double> number = value.number();
  if (value.is_string()) {
    std::string_view digits = value.text().view();
    digits.remove_prefix(leading_space(digits));
    digits = trim_end(digits);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    const int64_t base = bound.integer(1, 10);
    if (base < 2 || base > 36) fail_render("int: {} is not a base", base);
    int64_t whole = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), whole,
                                        static_cast<int>(base));
    if (result.ec == std::errc() && result.ptr == digits.data() + digits.size()) {
      return Value(whole);
    }
    number = parse_double(digits);
  }
  if (!number || !(std::abs(*number) < 0x1p63)) return standard;
  return Value(static_cast<int64_t>(*number));
}

Value to_float(In, V value, A arguments) {
  const Bound bound("float", arguments, {"default"});
  require_defined(value);
  if (const auto number = value.number()) return Value(*number);
  if (value.is_string()) {
    if (const auto number = parse_double(value.text().view())) return Value(*number);
  }
  return bound.get(0) != nullptr ? *bound.get(0) : Value(0.0);
}

Value absolute(In, V value, A) {
  require_defined(value);
  if (value.is_float()) return Value(std::abs(value.real()));
  const auto whole = value.integer();
  if (!whole || *whole == INT64_MIN) fail_render("abs needs a number, not {}", type_name(value));
  return Value(std::abs(*whole));
}

Value round(In, V value, A arguments) {
  const Bound bound("round", arguments, {"precision", "method"});
  require_defined(value);
  if (!value.is_number()) fail_render("round needs a number, not {}", type_name(value));
  const std::string method = bound.text(1) == nullptr ? "common" : bound.text(1)->bytes();
  const int64_t precision = std::clamp<int64_t>(bound.integer(0, 0), -300, 300);
  const double number = *value.number();
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return Value(std::ceil(number * scale) / scale);
  if (method == "floor") return Value(std::floor(number * scale) / scale);
  if (method != "common") fail_render("round: the method must be common, ceil or floor");
  const bool whole = !value.is_float();  // stays a whole number
  if (whole && precision >= 0) return Value(*value.integer());
  if (precision >= 0 && precision <= 20 && std::isfinite(number)) {
    // Decimal rounding of the exact value, ties to even.
    return Value(*parse_double(fmt::format("{:.{}f}", number, precision)));
  }
  const double rounded = std::nearbyint(number * scale) / scale;
  if (whole && std::abs(rounded) < 0x1p63) return Value(static_cast<int64_t>(rounded));
  return Value(rounded);
}

Value word_count(In in, V value, A) {
  const Text text = to_text(in.heap(), value);
  spend_on(in, text);
  int64_t count = 0;
  bool in_word = false;
  size_t size = 0;
  for (size_t at = 0; at < text.size(); at += size) {
    const char32_t code = character_of(text.view(), at, size);
    const bool word =
        code == '_' || all_of_class(text.view().substr(at, size), CharacterClass::alnum);
    count += word && !in_word ? 1 : 0;
    in_word = word;
  }
  return Value(count);
}

Value center(In in, V value, A arguments) {
  const Bound bound("center", arguments, {"width"});
  const Text text = to_text(in.heap(), value);
  const int64_t width = std::clamp<int64_t>(bound.integer(0, 80), 0, kWidest);
  const auto blanks = width - static_cast<int64_t>(count_characters(text.view()));
  if (blanks <= 0) return in.heap().text(text);
  const auto left = static_cast<size_t>(blanks / 2 + (blanks & width & 1));
  Text result(std::string(left, ' '), true);
  result.append(text);
  result.append(std::string(static_cast<size_t>(blanks) - left, ' '), true);
  return in.heap().text(std::move(result));
}

Value format(In in, V value, A arguments) {
  const Text pattern = to_text(in.heap(), value);
  if (arguments.named.empty()) {
    return in.heap().text(format_percent(in, pattern, arguments.positional, nullptr));
  }
  const Value mapping = in.heap().dict();
  for (const auto& [name, item] : arguments.named) {
    mapping.dict()->set(in.heap().text(name, true), item);
  }
  return in.heap().text(format_percent(in, pattern, {}, &mapping));
}

}  // namespace

Filter find_text_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, Filter> table{
      {"upper", [](In in, V v, A) { return cased(in, v, Casing::upper); }},
      {"lower", [](In in, V v, A) { return cased(in, v, Casing::lower); }},
      {"capitalize", [](In in, V v, A) { return cased(in, v, Casing::capitalize); }},
      {"title", title},
      {"trim", trim},
      {"replace", replace},
      {"join", join},
      {"string", [](In in, V v, A) { return in.heap().text(to_text(in.heap(), v)); }},
      // Nothing is escaped by itself, so nothing has to be marked as safe.
      {"safe", [](In in, V v, A) { return in.heap().text(to_text(in.heap(), v)); }},
      {"escape", escape},
      {"e", escape},
      {"forceescape", escape},
      {"indent", indent},
      {"tojson", tojson},
      {"int", to_int},
      {"float", to_float},
      {"abs", absolute},
      {"round", round},
      {"wordcount", word_count},
      {"center", center},
      {"format", format},
  };
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace fathom::jinja
