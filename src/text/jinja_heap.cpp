#include <cmath>
#include <nlohmann/json.hpp>

#include "text/jinja_value.h"

namespace fathom::jinja {
namespace {

// A template that does its work stays far below: a conversation of a megabyte takes some 100,000
// steps. A step is an expression or 64 bytes of a string looked at.
constexpr size_t kSteps = 20'000'000;
constexpr size_t kBytes = size_t{128} << 20;
constexpr size_t kBytesPerInputByte = 64;
constexpr int kInputDepth = 100;

std::string key_of(const Value& key) {
  if (key.is_string()) return "s" + key.text().bytes();
  if (const auto integer = key.integer()) return "n" + std::to_string(*integer);
  if (key.is_float()) {
    const double value = key.real();
    const bool whole = std::abs(value) < 0x1p62 && value == std::trunc(value);
    return whole ? "n" + std::to_string(static_cast<int64_t>(value)) : "f" + format_float(value);
  }
  if (key.is_none()) return "N";
  require_defined(key);
  fail_render("{} cannot be the key of a dict", type_name(key));
}

}  // namespace

const Value* Dict::find(const Value& key) const {
  const auto place = places.find(key_of(key));
  return place == places.end() ? nullptr : &entries[place->second].second;
}

const Value* Dict::find(std::string_view key) const {
  const auto place = places.find("s" + std::string(key));
  return place == places.end() ? nullptr : &entries[place->second].second;
}

void Dict::set(const Value& key, Value value) {
  const auto [place, added] = places.try_emplace(key_of(key), entries.size());
  if (added) {
    entries.emplace_back(key, std::move(value));
  } else {
    entries[place->second].second = std::move(value);
  }
}

std::optional<Value> Dict::remove(const Value& key) {
  const auto place = places.find(key_of(key));
  if (place == places.end()) return std::nullopt;
  const size_t at = place->second;
  Value value = std::move(entries[at].second);
  entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(at));
  places.erase(place);
  for (auto& [name, index] : places) index -= index > at ? 1 : 0;
  return value;
}

Value* Scope::find(std::string_view name) {
  for (auto& [variable, value] : variables) {
    if (variable == name) return &value;
  }
  return nullptr;
}

void Scope::set(const std::string& name, Value value) {
  if (Value* known = find(name)) {
    *known = std::move(value);
  } else {
    variables.emplace_back(name, std::move(value));
  }
}

Heap::Heap(size_t input_bytes)
    : steps_left_(kSteps + input_bytes), limit_(kBytes + kBytesPerInputByte * input_bytes) {}

void Heap::spend(size_t steps) {
  if (steps > steps_left_) fail_render("the template takes too many steps");
  steps_left_ -= steps;
}

void Heap::need(size_t bytes) const {
  if (bytes > limit_ - held_) fail_render("the template needs more than {} bytes", limit_);
}

void Heap::grow(size_t bytes) {
  need(bytes);
  held_ += bytes;
}

Value Heap::text(Text text) {
  const size_t bytes = text.size() + text.runs().size() * sizeof(Text::Run) + sizeof(Text) + 32;
  spend(1 + bytes / 64);
  grow(bytes);
  return Value(TextPtr(new Text(std::move(text)), [this, bytes](const Text* dying) {
    held_ -= bytes;
    delete dying;
  }));
}

Value Heap::list(std::vector<Value> items, List::Kind kind) {
  spend(1 + items.size());
  grow(sizeof(List) + items.size() * sizeof(Value));
  lists_.push_back({kind, std::move(items)});
  return Value(&lists_.back());
}

Value Heap::dict() {
  grow(sizeof(Dict));
  return Value(&dicts_.emplace_back());
}

Value Heap::callable(std::string name, std::function<Value(Interpreter&, Arguments&)> call) {
  grow(sizeof(Callable) + 64);
  callables_.push_back({std::move(name), std::move(call)});
  return Value(&callables_.back());
}

Value Heap::object(std::unique_ptr<Object> object) {
  grow(128);
  return Value(objects_.emplace_back(std::move(object)).get());
}

Value Heap::undefined(std::string what) {
  return Value(Undefined{std::make_shared<const Text>(what, true)});
}

Scope* Heap::open_scope(Scope* parent) {
  Scope* scope = nullptr;
  if (free_scopes_.empty()) {
    grow(sizeof(Scope) + 256);
    scope = &scopes_.emplace_back();
  } else {
    scope = free_scopes_.back();
    free_scopes_.pop_back();
  }
  scope->parent = parent;
  return scope;
}

void Heap::close_scope(Scope* scope) {
  if (scope->captured) return;
  scope->variables.clear();
  free_scopes_.push_back(scope);
}

Value Heap::from_json(const nlohmann::ordered_json& json, int depth) {
  if (depth > kInputDepth) fail_render("a variable is nested deeper than {} levels", kInputDepth);
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::boolean:
      return Value(json.get<bool>());
    case nlohmann::ordered_json::value_t::number_integer:
      return Value(json.get<int64_t>());
    case nlohmann::ordered_json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return Value(json.get<double>());
      return Value(json.get<int64_t>());
    case nlohmann::ordered_json::value_t::number_float:
      return Value(json.get<double>());
    case nlohmann::ordered_json::value_t::string:
      return text(json.get_ref<const std::string&>(), false);
    case nlohmann::ordered_json::value_t::array: {
      std::vector<Value> items;
      for (const auto& item : json) items.push_back(from_json(item, depth + 1));
      return list(std::move(items));
    }
    case nlohmann::ordered_json::value_t::object: {
      Value result = dict();
      for (const auto& [key, item] : json.items()) {
        grow(key.size() + sizeof(Value) * 2 + 96);
        result.dict()->set(text(key, false), from_json(item, depth + 1));
      }
      return result;
    }
    default:
      return Value(None{});
  }
}

}  // namespace fathom::jinja
