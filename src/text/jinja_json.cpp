#include <algorithm>
#include <cmath>
#include <numeric>

#include "text/jinja_value.h"

namespace fathom::jinja {
namespace {

constexpr int kDepth = 200;

void append_unit(std::string& out, uint32_t unit) { out += fmt::format("\\u{:04x}", unit); }

void append_json_string(Text& out, const Text& text, bool ascii) {
  out.append("\"", true);
  size_t size = 0;
  for (size_t at = 0; at < text.size(); at += size) {
    const auto code = static_cast<uint32_t>(character_of(text.view(), at, size));
    std::string escaped;
    switch (code) {
      case '"':
        escaped = "\\\"";
        break;
      case '\\':
        escaped = "\\\\";
        break;
      case '\n':
        escaped = "\\n";
        break;
      case '\r':
        escaped = "\\r";
        break;
      case '\t':
        escaped = "\\t";
        break;
      case '\b':
        escaped = "\\b";
        break;
      case '\f':
        escaped = "\\f";
        break;
      default:
        if (code < 0x20 || (ascii && code >= 0x7F && code < 0x10000)) {
          append_unit(escaped, code);
        } else if (ascii && code >= 0x10000) {
          append_unit(escaped, 0xD800 + ((code - 0x10000) >> 10));
          append_unit(escaped, 0xDC00 + ((code - 0x10000) & 0x3FF));
        } else {
          escaped = text.view().substr(at, size);
        }
    }
    out.append(escaped, text.trusted_at(at));
  }
  out.append("\"", true);
}

void append_key(Heap& heap, Text& out, const Value& key, bool ascii) {
  if (key.is_string()) return append_json_string(out, key.text(), ascii);
  std::string name;
  if (key.is_bool()) {
    name = key.boolean() ? "true" : "false";
  } else if (key.is_none()) {
    name = "null";
  } else {
    name = to_text(heap, key).bytes();
  }
  out.append('"' + name + '"', true);
}

class JsonWriter {
 public:
  JsonWriter(Heap& heap, Text& out, const JsonStyle& style)
      : heap_(heap), out_(out), style_(style) {}

  void write(const Value& value, int depth) {
    if (depth > kDepth) fail_render("tojson: a value is nested deeper than {} levels", kDepth);
    heap_.spend(1);
    heap_.need(out_.size());
    if (value.is_string()) {
      heap_.spend(value.text().size() / 16);
      return append_json_string(out_, value.text(), style_.ascii);
    }
    if (const List* list = value.list(); list != nullptr && list->kind != List::Kind::generator) {
      return write_items('[', ']', list->items.size(), depth,
                         [&](size_t i) { write(list->items[i], depth + 1); });
    }
    if (const Dict* dict = value.dict(); dict != nullptr && !dict->is_namespace) {
      std::vector<size_t> order(dict->entries.size());
      std::iota(order.begin(), order.end(), size_t{0});
      if (style_.sort_keys) {
        std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
          return compare(heap_, dict->entries[a].first, dict->entries[b].first) < 0;
        });
      }
      return write_items('{', '}', order.size(), depth, [&](size_t i) {
        const auto& [key, item] = dict->entries[order[i]];
        append_key(heap_, out_, key, style_.ascii);
        out_.append(style_.key_separator, true);
        write(item, depth + 1);
      });
    }
    write_scalar(value);
  }

 private:
  template <typename Item>
  void write_items(char open, char close, size_t count, int depth, const Item& item) {
    out_.append(std::string(1, open), true);
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) out_.append(style_.item_separator, true);
      new_line(depth + 1);
      item(i);
    }
    if (count > 0) new_line(depth);
    out_.append(std::string(1, close), true);
  }

  void new_line(int depth) {
    if (style_.indent < 0) return;
    const size_t blanks = static_cast<size_t>(depth) * static_cast<size_t>(style_.indent);
    heap_.need(out_.size() + blanks);
    heap_.spend(blanks / 64);
    out_.append("\n" + std::string(blanks, ' '), true);
  }

  void write_scalar(const Value& value) {
    if (value.is_none()) return out_.append("null", false);
    if (value.is_bool()) return out_.append(value.boolean() ? "true" : "false", false);
    if (value.is_int()) return out_.append(std::to_string(*value.integer()), false);
    if (value.is_float()) {
      const double number = value.real();
      return out_.append(std::isnan(number)   ? "NaN"
                         : std::isinf(number) ? (number < 0 ? "-Infinity" : "Infinity")
                                              : format_float(number),
                         false);
    }
    require_defined(value);
    fail_render("tojson: {} has no form in JSON", type_name(value));
  }

  Heap& heap_;
  Text& out_;
  const JsonStyle& style_;
};

}  // namespace

void append_json(Heap& heap, Text& out, const Value& value, const JsonStyle& style) {
  JsonWriter(heap, out, style).write(value, 0);
}

}  // namespace fathom::jinja
