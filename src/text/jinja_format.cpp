// Formatting by "%" and by braces.
#include <algorithm>
#include <cmath>

#include "text/jinja_builtins.h"

namespace fathom::jinja {
namespace {

constexpr int64_t kWidest = 10000;

// What both kinds of format can ask for.
struct Spec {
  std::string fill = " ";
  char align = 0;  // '<', '>', '^', '=' or 0 for the type's own
  char sign = '-';
  bool zero = false;
  bool alternate = false;
  bool thousands = false;
  int64_t width = 0;
  int64_t precision = -1;
  char type = 0;
};

int64_t read_number(std::string_view text, size_t& at) {
  int64_t value = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = std::min<int64_t>(value * 10 + (text[at] - '0'), kWidest + 1);
  }
  if (value > kWidest) fail_render("a format asks for more than {} characters", kWidest);
  return value;
}

void add_thousands(std::string& digits) {
  const size_t end = std::min(digits.find('.'), digits.size());
  for (size_t at = end; at > 3; at -= 3) digits.insert(at - 3, ",");
}

std::string format_digits(const Spec& spec, const Value& value) {
  const char type = spec.type;
  const auto precision = static_cast<int>(spec.precision < 0 ? 6 : spec.precision);
  if (std::string_view("fFeEgG%").find(type) != std::string_view::npos && type != 0) {
    double number = std::abs(*value.number());
    if (type == '%') return fmt::format("{:.{}f}%", number * 100, precision);
    if (type == 'f' || type == 'F') return fmt::format("{:.{}f}", number, precision);
    if (type == 'e') return fmt::format("{:.{}e}", number, precision);
    if (type == 'E') return fmt::format("{:.{}E}", number, precision);
    return type == 'g' ? fmt::format("{:.{}g}", number, precision)
                       : fmt::format("{:.{}G}", number, precision);
  }
  if (value.is_float() && type == 0) return format_float(std::abs(value.real()));
  const int64_t whole = value.integer() ? *value.integer() : static_cast<int64_t>(*value.number());
  const uint64_t magnitude =
      whole < 0 ? 0 - static_cast<uint64_t>(whole) : static_cast<uint64_t>(whole);
  switch (type) {
    case 'x':
      return (spec.alternate ? "0x" : "") + fmt::format("{:x}", magnitude);
    case 'X':
      return (spec.alternate ? "0X" : "") + fmt::format("{:X}", magnitude);
    case 'o':
      return (spec.alternate ? "0o" : "") + fmt::format("{:o}", magnitude);
    case 'b':
      return (spec.alternate ? "0b" : "") + fmt::format("{:b}", magnitude);
    default:
      return fmt::format("{}", magnitude);
  }
}

bool is_negative(const Value& value) {
  const double number = *value.number();
  return number < 0 || (value.is_float() && std::signbit(number));
}

Text padded(const Spec& spec, std::string_view sign, const Text& body, char standard_align) {
  const size_t size = sign.size() + count_characters(body.view());
  const auto width = static_cast<size_t>(spec.width);
  const size_t blanks = width > size ? width - size : 0;
  const char align = spec.align != 0 ? spec.align : spec.zero ? '=' : standard_align;
  const std::string& fill = spec.zero && spec.align == 0 ? std::string("0") : spec.fill;
  const size_t before = align == '>' || align == '=' ? blanks : align == '^' ? blanks / 2 : 0;
  Text result;
  if (align == '=') result.append(sign, true);
  for (size_t i = 0; i < before; ++i) result.append(fill, true);
  if (align != '=') result.append(sign, true);
  result.append(body);
  for (size_t i = before; i < blanks; ++i) result.append(fill, true);
  return result;
}

Text format_number(const Spec& spec, const Value& value) {
  const bool negative = is_negative(value);
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  if (!value.integer() && !std::isfinite(*value.number())) {
    Spec plain = spec;
    plain.zero = false;
    return padded(plain, sign, Text(std::isnan(*value.number()) ? "nan" : "inf", false), '>');
  }
  std::string digits = format_digits(spec, value);
  if (spec.thousands) add_thousands(digits);
  return padded(spec, sign, Text(digits, false), '>');
}

Text format_string(const Spec& spec, const Text& text) {
  if (spec.precision < 0) return padded(spec, "", text, '<');
  const std::vector<size_t> offsets = character_offsets(text.view());
  const size_t kept = std::min(static_cast<size_t>(spec.precision), offsets.size() - 1);
  return padded(spec, "", text.part(0, offsets[kept]), '<');
}

}  // namespace

Text format_percent(Interpreter& in, const Text& format, const std::vector<Value>& values,
                    const Value* mapping) {
  const std::string_view text = format.view();
  Text out;
  size_t used = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t percent = std::min(text.find('%', at), text.size());
    out.append(format, at, percent);
    if (percent == text.size()) break;
    at = percent + 1;
    in.heap().spend(1);
    in.heap().need(out.size());
    if (at < text.size() && text[at] == '%') {
      out.append(format, at, at + 1);
      ++at;
      continue;
    }
    const Value* value = nullptr;
    if (at < text.size() && text[at] == '(') {
      const size_t close = text.find(')', at);
      if (close == text.npos || mapping == nullptr) fail_render("'%': a named value needs a dict");
      value = mapping->dict()->find(text.substr(at + 1, close - at - 1));
      if (value == nullptr) {
        fail_render("'%': there is no '{}'", text.substr(at + 1, close - at - 1));
      }
      at = close + 1;
    }
    Spec spec;
    spec.align = '>';
    for (; at < text.size() && std::string_view("-+ 0#").find(text[at]) != text.npos; ++at) {
      if (text[at] == '-') spec.align = '<';
      if (text[at] == '+') spec.sign = '+';
      if (text[at] == ' ' && spec.sign != '+') spec.sign = ' ';
      if (text[at] == '0') spec.zero = true;
      if (text[at] == '#') spec.alternate = true;
    }
    if (spec.zero && spec.align == '>') spec.align = 0;
    spec.width = read_number(text, at);
    if (at < text.size() && text[at] == '.') spec.precision = read_number(text, ++at);
    if (at >= text.size()) fail_render("'%': the format ends within a code");
    spec.type = text[at++];
    if (value == nullptr) {
      if (used >= values.size()) fail_render("'%': not enough values for the format");
      value = &values[used++];
    }
    if (spec.type == 's' || spec.type == 'r') {
      spec.zero = false;
      if (spec.align == 0) spec.align = '>';
      Text shown;
      if (spec.type == 's') {
        shown = to_text(in.heap(), *value);
      } else {
        append_repr(in.heap(), shown, *value);
      }
      out.append(format_string(spec, shown));
    } else if (std::string_view("diufFeEgGxXo").find(spec.type) != std::string_view::npos) {
      require_defined(*value);
      if (!value->is_number())
        fail_render("'%{}' needs a number, not {}", spec.type, type_name(*value));
      const bool whole = std::string_view("diuxXo").find(spec.type) != std::string_view::npos;
      if (whole && !value->integer() && !(std::abs(*value->number()) < 0x1p63)) {
        fail_render("'%{}': {} is no whole number", spec.type, format_float(*value->number()));
      }
      out.append(format_number(spec, *value));
    } else {
      fail_render("'%{}' is not a format", spec.type);
    }
  }
  if (mapping == nullptr && used < values.size()) {
    fail_render("'%': not all values were used by the format");
  }
  return out;
}

namespace {

Spec parse_spec(std::string_view text) {
  Spec spec;
  size_t at = 0;
  size_t size = 0;
  if (!text.empty()) {
    character_of(text, 0, size);
    const auto is_align = [&](size_t i) {
      return i < text.size() && std::string_view("<>=^").find(text[i]) != std::string_view::npos;
    };
    if (is_align(size)) {
      spec.fill = text.substr(0, size);
      spec.align = text[size];
      at = size + 1;
    } else if (is_align(0)) {
      spec.align = text[0];
      at = 1;
    }
  }
  const auto next = [&](std::string_view any) {
    return at < text.size() && any.find(text[at]) != any.npos;
  };
  if (next("+- ")) spec.sign = text[at++];
  if (next("#")) spec.alternate = ++at > 0;
  if (next("0")) spec.zero = ++at > 0;
  spec.width = read_number(text, at);
  if (next(",")) spec.thousands = ++at > 0;
  if (next(".")) spec.precision = read_number(text, ++at);
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) fail_render("format: '{}' is not a format", text);
  return spec;
}

Text format_field(Interpreter& in, const Value& value, std::string_view spec_text) {
  if (spec_text.empty()) return to_text(in.heap(), value);
  const Spec spec = parse_spec(spec_text);
  const bool numeric = std::string_view("bdoxXeEfFgG%").find(spec.type) != std::string_view::npos;
  if (value.is_number() && (!value.is_bool() || numeric) && spec.type != 's') {
    const bool whole = std::string_view("bdoxX").find(spec.type) != std::string_view::npos;
    if (spec.type != 0 && (!numeric || (whole && value.is_float()))) {
      fail_render("format: '{}' does not fit {}", spec_text, type_name(value));
    }
    return format_number(spec, value);
  }
  if (spec.type != 0 && spec.type != 's') {
    fail_render("format: '{}' does not fit {}", spec_text, type_name(value));
  }
  return format_string(spec, to_text(in.heap(), value));
}

// The value that "0", "name", "0.attribute" or "name[key]" names.
Value find_field(Interpreter& in, std::string_view field, const Arguments& arguments,
                 size_t& automatic) {
  const size_t end = std::min(field.find_first_of(".["), field.size());
  const std::string_view first = field.substr(0, end);
  Value value;
  if (first.empty() || first.find_first_not_of("0123456789") == first.npos) {
    size_t at = 0;
    const size_t place = first.empty() ? automatic++ : static_cast<size_t>(read_number(first, at));
    if (place >= arguments.positional.size()) fail_render("format: there is no value {}", place);
    value = arguments.positional[place];
  } else {
    const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& named) { return named.first == first; });
    if (found == arguments.named.end()) fail_render("format: there is no value '{}'", first);
    value = found->second;
  }
  std::string_view rest = field.substr(end);
  while (!rest.empty()) {
    const bool bracket = rest[0] == '[';
    const size_t stop =
        bracket ? rest.find(']') : std::min(rest.find_first_of(".[", 1), rest.size());
    if (stop == rest.npos) fail_render("format: '{}' is not a field", field);
    const std::string_view name = rest.substr(1, stop - 1);
    const bool number =
        bracket && !name.empty() && name.find_first_not_of("0123456789") == name.npos;
    size_t at = 0;
    value = number ? in.item(value, Value(read_number(name, at)))
                   : in.item(value, in.heap().text(name, true));
    rest.remove_prefix(bracket ? stop + 1 : stop);
  }
  return value;
}

}  // namespace

Text format_braces(Interpreter& in, const Text& format, const Arguments& arguments) {
  const std::string_view text = format.view();
  Text out;
  size_t automatic = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t brace = std::min(text.find_first_of("{}", at), text.size());
    out.append(format, at, brace);
    if (brace == text.size()) break;
    in.heap().spend(1);
    in.heap().need(out.size());
    if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
      out.append(format, brace, brace + 1);
      at = brace + 2;
      continue;
    }
    const size_t close = text.find('}', brace);
    if (text[brace] == '}' || close == text.npos) fail_render("format: a single '{}'", text[brace]);
    std::string_view field = text.substr(brace + 1, close - brace - 1);
    std::string_view spec;
    if (const size_t colon = field.find(':'); colon != field.npos) {
      spec = field.substr(colon + 1);
      field = field.substr(0, colon);
    }
    bool repr = false;
    if (const size_t mark = field.find('!'); mark != field.npos) {
      repr = field.substr(mark + 1) == "r";
      field = field.substr(0, mark);
    }
    Value value = find_field(in, field, arguments, automatic);
    if (repr) {
      Text shown;
      append_repr(in.heap(), shown, value);
      value = in.heap().text(std::move(shown));
    }
    out.append(format_field(in, value, spec));
    at = close + 1;
  }
  return out;
}

}  // namespace fathom::jinja
