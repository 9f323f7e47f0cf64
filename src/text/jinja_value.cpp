#include "text/jinja_value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "text/unicode.h"

namespace fathom::jinja {
namespace {

// Deeper values can only be circles, or a template that means harm.
constexpr int kDepth = 200;

void check_depth(int depth) {
  if (depth > kDepth) fail_render("a value is nested deeper than {} levels", kDepth);
}

}  // namespace

bool is_true(const Value& value) {
  if (value.is_bool()) return value.boolean();
  if (value.is_int()) return *value.integer() != 0;
  if (value.is_float()) return value.real() != 0;
  if (value.is_string()) return !value.text().empty();
  if (const List* list = value.list()) {
    return list->kind == List::Kind::generator || !list->items.empty();
  }
  if (const Dict* dict = value.dict()) return dict->is_namespace || !dict->entries.empty();
  return value.object() != nullptr || value.callable() != nullptr;
}

bool equal(Heap& heap, const Value& a, const Value& b, int depth) {
  check_depth(depth);
  heap.spend(1);
  if (a.is_number() && b.is_number()) {
    const auto whole_a = a.integer();
    const auto whole_b = b.integer();
    return whole_a && whole_b ? *whole_a == *whole_b : *a.number() == *b.number();
  }
  if (a.is_string() && b.is_string()) {
    heap.spend(std::min(a.text().size(), b.text().size()) / 64);
    return a.text().bytes() == b.text().bytes();
  }
  if (const List* x = a.list(), *y = b.list(); x != nullptr && y != nullptr) {
    if (x == y) return true;
    if (x->kind != y->kind || x->items.size() != y->items.size()) return false;
    for (size_t i = 0; i < x->items.size(); ++i) {
      if (!equal(heap, x->items[i], y->items[i], depth + 1)) return false;
    }
    return true;
  }
  if (const Dict* x = a.dict(), *y = b.dict(); x != nullptr && y != nullptr) {
    if (x == y) return true;
    if (x->is_namespace || y->is_namespace || x->entries.size() != y->entries.size()) return false;
    for (const auto& [key, value] : x->entries) {
      const Value* other = y->find(key);
      if (other == nullptr || !equal(heap, value, *other, depth + 1)) return false;
    }
    return true;
  }
  if (a.object() != nullptr && b.object() != nullptr) return a.object() == b.object();
  if (a.callable() != nullptr && b.callable() != nullptr) return a.callable() == b.callable();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

int compare(Heap& heap, const Value& a, const Value& b, int depth) {
  check_depth(depth);
  heap.spend(1);
  if (a.is_number() && b.is_number()) {
    const auto whole_a = a.integer();
    const auto whole_b = b.integer();
    if (whole_a && whole_b) return *whole_a < *whole_b ? -1 : *whole_a > *whole_b;
    return *a.number() < *b.number() ? -1 : *a.number() > *b.number();
  }
  // The order of UTF-8 bytes is that of code points.
  if (a.is_string() && b.is_string()) return a.text().bytes().compare(b.text().bytes());
  const List* x = a.list();
  const List* y = b.list();
  if (x != nullptr && y != nullptr && x->kind == y->kind) {
    for (size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i) {
      if (!equal(heap, x->items[i], y->items[i], depth + 1)) {
        return compare(heap, x->items[i], y->items[i], depth + 1);
      }
    }
    return x->items.size() < y->items.size() ? -1 : x->items.size() > y->items.size();
  }
  require_defined(a);
  require_defined(b);
  fail_render("{} and a {} have no order between them", type_name(a), type_name(b));
}

std::string type_name(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "None";
  if (value.is_bool()) return "bool";
  if (value.is_int()) return "int";
  if (value.is_float()) return "float";
  if (value.is_string()) return "str";
  if (const List* list = value.list()) {
    return list->kind == List::Kind::list    ? "list"
           : list->kind == List::Kind::tuple ? "tuple"
                                             : "generator";
  }
  if (const Dict* dict = value.dict()) return dict->is_namespace ? "namespace" : "dict";
  if (value.object() != nullptr) return std::string(value.object()->type_name());
  return "function";
}

void require_defined(const Value& value) {
  if (value.is_undefined()) throw Failure(value.text().bytes());
}

std::string format_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (value == 0) return std::signbit(value) ? "-0.0" : "0.0";
  // The shortest digits that give the value back; Python writes them plainly from 1e-4 to 1e16.
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific)
                       .ptr;
  const std::string scientific(buffer.data(), end);
  const size_t e = scientific.find('e');
  const int exponent = std::stoi(scientific.substr(e + 1));
  const std::string sign = value < 0 ? "-" : "";
  std::string digits;
  for (char c : scientific.substr(0, e)) {
    if (c != '.' && c != '-') digits += c;
  }
  if (exponent < -4 || exponent >= 16) {
    std::string result = sign + digits.substr(0, 1);
    if (digits.size() > 1) result += "." + digits.substr(1);
    return result + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

namespace {

void append_string_repr(Text& out, const Text& text) {
  const bool has_single = text.bytes().find('\'') != std::string::npos;
  const bool has_double = text.bytes().find('"') != std::string::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out.append(std::string(1, quote), true);
  size_t size = 0;
  for (size_t at = 0; at < text.size(); at += size) {
    const char32_t code = character_of(text.view(), at, size);
    const bool trusted = text.trusted_at(at);
    if (code == static_cast<char32_t>(quote) || code == '\\') {
      out.append(std::string{'\\', static_cast<char>(code)}, trusted);
    } else if (code == '\n' || code == '\r' || code == '\t') {
      out.append(code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t", trusted);
    } else if (code < 0x20 || code == 0x7F) {
      out.append(fmt::format("\\x{:02x}", static_cast<uint32_t>(code)), trusted);
    } else {
      out.append(text.view().substr(at, size), trusted);
    }
  }
  out.append(std::string(1, quote), true);
}

std::string scalar_text(const Value& value) {
  if (value.is_bool()) return value.boolean() ? "True" : "False";
  if (value.is_int()) return std::to_string(*value.integer());
  if (value.is_float()) return format_float(value.real());
  if (value.is_none()) return "None";
  if (value.is_undefined()) return "";
  return "<" + type_name(value) + ">";
}

}  // namespace

void append_repr(Heap& heap, Text& out, const Value& value, int depth) {
  check_depth(depth);
  heap.spend(1);
  heap.need(out.size());
  if (value.is_string()) {
    heap.spend(value.text().size() / 16);
    return append_string_repr(out, value.text());
  }
  if (value.is_undefined()) return out.append("Undefined", true);
  if (const List* list = value.list()) {
    const bool tuple = list->kind == List::Kind::tuple;
    out.append(tuple ? "(" : "[", true);
    for (size_t i = 0; i < list->items.size(); ++i) {
      if (i > 0) out.append(", ", true);
      append_repr(heap, out, list->items[i], depth + 1);
    }
    out.append(!tuple ? "]" : list->items.size() == 1 ? ",)" : ")", true);
    return;
  }
  if (const Dict* dict = value.dict()) {
    out.append(dict->is_namespace ? "<Namespace {" : "{", true);
    for (size_t i = 0; i < dict->entries.size(); ++i) {
      if (i > 0) out.append(", ", true);
      append_repr(heap, out, dict->entries[i].first, depth + 1);
      out.append(": ", true);
      append_repr(heap, out, dict->entries[i].second, depth + 1);
    }
    out.append(dict->is_namespace ? "}>" : "}", true);
    return;
  }
  out.append(scalar_text(value), false);
}

Text to_text(Heap& heap, const Value& value) {
  if (value.is_string()) return value.text();
  Text out;
  if (value.list() != nullptr || value.dict() != nullptr) {
    append_repr(heap, out, value);
  } else {
    out.append(scalar_text(value), false);
  }
  return out;
}

}  // namespace fathom::jinja
