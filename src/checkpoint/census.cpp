#include "checkpoint/census.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>
#include <tuple>
#include <unordered_map>

#include "checkpoint/inspection_scan.h"
#include "checkpoint/problem_list.h"

namespace fathom {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_number(std::string_view part) {
  return !part.empty() && part.size() <= 9 &&
         part.find_first_not_of("0123456789") == std::string_view::npos;
}

int64_t number_of(std::string_view digits) {
  int64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

// Components of a name, one after the other.
class Components {
 public:
  explicit Components(std::string_view name, size_t at = 0) : name_(name), next_(at) {}
  bool step() {
    if (next_ > name_.size()) return false;
    begin_ = next_;
    const size_t dot = name_.find('.', begin_);
    const size_t end = dot == std::string_view::npos ? name_.size() : dot;
    part_ = name_.substr(begin_, end - begin_);
    next_ = end + 1;
    return true;
  }
  std::string_view part() const { return part_; }
  size_t begin() const { return begin_; }
  size_t next() const { return std::min(next_, name_.size()); }

 private:
  std::string_view name_;
  std::string_view part_;
  size_t begin_ = 0;
  size_t next_;
};

// "model.layers." of "model.layers.3.rest"; empty where no component is a number.
std::string_view stack_of(std::string_view name) {
  Components components(name);
  while (components.step()) {
    if (is_number(components.part())) return name.substr(0, components.begin());
  }
  return {};
}

bool is_scale(std::string_view name) {
  return name.ends_with("_scale_inv") || name.ends_with("_scale") || name.ends_with("_scales") ||
         name.ends_with(".scales");
}

Part part_outside(std::string_view name) {
  if (contains(name, "norm") || contains(name, "ln_f")) return Part::norms;
  if (contains(name, "embed") || contains(name, "wte")) return Part::embedding;
  if (contains(name, "head") || name.starts_with("output.")) return Part::head;
  return Part::other;
}

template <typename Rows>
void largest_first(Rows* rows) {
  std::stable_sort(rows->begin(), rows->end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
}

// The tree while it grows: children by name.
struct Growing {
  size_t tensors = 0;
  uint64_t bytes = 0;
  Part part = Part::other;  // of leaves
  std::set<int64_t> numbers;
  std::map<std::string, Growing, std::less<>> children;
};

ModuleNode settled(const std::string& name, const Growing& growing) {
  ModuleNode node;
  node.name = name;
  node.tensors = growing.tensors;
  node.bytes = growing.bytes;
  node.indices = ranges_text({growing.numbers.begin(), growing.numbers.end()});
  for (const auto& [child, grown] : growing.children) {
    node.children.push_back(settled(child, grown));
  }
  largest_first(&node.children);
  node.part = node.children.empty() ? growing.part : node.children.front().part;
  return node;
}

}  // namespace

std::string_view part_name(Part part) {
  static constexpr std::array<std::string_view, kParts> kNames = {
      "embedding",      "attention",      "norms",          "dense MLP", "routers",
      "shared experts", "routed experts", "MTP projection", "head",      "other"};
  return kNames[static_cast<size_t>(part)];
}

Part part_in_layer(std::string_view rest) {
  const std::string_view first = rest.substr(0, rest.find('.'));
  if (contains(rest, "shared_head.head.")) return Part::head;
  if (contains(rest, "embed_tokens.")) return Part::embedding;
  if (first == "eh_proj") return Part::mtp_projection;
  if (contains(rest, "shared_expert")) return Part::shared_experts;
  if (contains(rest, "experts.")) return Part::routed_experts;
  if (contains(first, "norm") || first.starts_with("ln_")) return Part::norms;
  if (contains(first, "attn") || contains(first, "attention")) return Part::attention;
  if (contains(rest, ".gate.") || contains(rest, "router")) return Part::router;
  if (contains(first, "mlp") || contains(first, "feed_forward") || contains(first, "ffn")) {
    return Part::dense_mlp;
  }
  return contains(rest, "norm") ? Part::norms : Part::other;
}

NameReader::NameReader(const std::vector<TensorInfo>& tensors) {
  std::map<std::string_view, uint64_t> stacks;
  for (const TensorInfo& tensor : tensors) {
    const std::string_view stack = stack_of(tensor.name);
    if (!stack.empty()) stacks[stack] += tensor.bytes;
  }
  uint64_t most = 0;
  for (const auto& [stack, bytes] : stacks) {
    if (!stack_.empty() && bytes <= most) continue;
    stack_ = stack;
    most = bytes;
  }
}

NamePlace NameReader::place(std::string_view name) const {
  NamePlace place;
  place.scale = is_scale(name);
  if (stack_.empty() || !name.starts_with(stack_)) {
    place.part = part_outside(name);
    return place;
  }
  Components components(name, stack_.size());
  if (!components.step() || !is_number(components.part())) {
    place.part = part_outside(name);
    return place;
  }
  place.layer = number_of(components.part());
  place.rest = components.next();
  place.part = part_in_layer(name.substr(place.rest));
  if (place.part != Part::routed_experts) return place;
  std::string_view before;
  while (components.step()) {
    if (before == "experts" && is_number(components.part())) {
      place.expert = number_of(components.part());
      place.rest = components.next();
      break;
    }
    before = components.part();
  }
  return place;
}

std::vector<DtypeRow> census_by_dtype(const std::vector<TensorInfo>& tensors) {
  std::map<Dtype, DtypeRow> found;
  for (const TensorInfo& tensor : tensors) {
    DtypeRow& row = found[tensor.dtype];
    row.dtype = tensor.dtype;
    ++row.tensors;
    row.values += value_count(tensor);
    row.bytes += tensor.bytes;
  }
  std::vector<DtypeRow> rows;
  for (const auto& [dtype, row] : found) rows.push_back(row);
  largest_first(&rows);
  return rows;
}

std::vector<FamilyRow> census_by_family(const std::vector<TensorInfo>& tensors) {
  std::map<std::tuple<std::string, Dtype, std::vector<int64_t>>, FamilyRow> found;
  for (const TensorInfo& tensor : tensors) {
    const std::string family = tensor_family(tensor.name);
    FamilyRow& row = found[{family, tensor.dtype, tensor.shape}];
    if (row.tensors++ == 0) {
      row.family = family;
      row.dtype = tensor.dtype;
      row.shape = tensor.shape;
    }
    row.bytes += tensor.bytes;
  }
  std::vector<FamilyRow> rows;
  for (auto& [key, row] : found) rows.push_back(std::move(row));
  largest_first(&rows);
  return rows;
}

ModuleNode module_tree(const std::vector<TensorInfo>& tensors) {
  constexpr int kDeepest = 32;  // a name may have any number of dots
  const NameReader reader(tensors);
  Growing root;
  for (const TensorInfo& tensor : tensors) {
    Growing* node = &root;
    node->tensors += 1;
    node->bytes += tensor.bytes;
    Components components(tensor.name);
    for (int depth = 0; depth < kDeepest && components.step(); ++depth) {
      const bool number = is_number(components.part());
      const std::string_view name = number ? std::string_view("*") : components.part();
      auto child = node->children.find(name);
      if (child == node->children.end()) {
        child = node->children.emplace(std::string(name), Growing()).first;
      }
      node = &child->second;
      node->tensors += 1;
      node->bytes += tensor.bytes;
      if (number) node->numbers.insert(number_of(components.part()));
    }
    node->part = reader.place(tensor.name).part;
  }
  return settled("", root);
}

std::string ranges_text(const std::vector<int64_t>& ascending) {
  std::string text;
  for (size_t i = 0; i < ascending.size();) {
    size_t last = i;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(ascending[i]);
    if (last > i) text += "-" + std::to_string(ascending[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace fathom
