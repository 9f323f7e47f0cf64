#include "checkpoint/synth_shard_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "base/error.h"
#include "base/json_sax.h"
#include "checkpoint/deepseek_tensors.h"

namespace fathom {
namespace {

enum Column { kShard, kFirstLayer, kLastLayer, kTensors, kColumns };
constexpr std::array<std::string_view, kColumns> kColumnNames = {"shard", "first_layer",
                                                                 "last_layer", "tensors"};

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const size_t comma = line.find(',');
    std::string_view field = line.substr(0, comma);
    while (field.starts_with(' ')) field.remove_prefix(1);
    while (field.ends_with(' ')) field.remove_suffix(1);
    fields.push_back(field);
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

class TableReader {
 public:
  TableReader(std::string_view text, const std::string& path) : rest_(text), path_(path) {
    if (!next_line()) fail_input("{}: the table is empty", path_);
    columns_ = fields_.size();
    for (size_t column = 0; column < kColumns; ++column) {
      const auto found = std::find(fields_.begin(), fields_.end(), kColumnNames[column]);
      if (found == fields_.end()) {
        fail_input("{}: line {}: there is no column {}", path_, line_, kColumnNames[column]);
      }
      place_[column] = static_cast<size_t>(found - fields_.begin());
    }
  }

  bool next_row() {
    if (!next_line()) return false;
    if (fields_.size() != columns_) {
      fail_input("{}: line {}: {} fields, but {} columns", path_, line_, fields_.size(), columns_);
    }
    return true;
  }

  int64_t value(Column column) const {
    const std::string_view text = fields_[place_[column]];
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0) {
      wrong(column,
            fmt::format("{} is not a number that is possible here", quoted_for_message(text)));
    }
    return value;
  }
  [[noreturn]] void wrong(Column column, const std::string& why) const {
    fail_input("{}: line {}: {}: {}", path_, line_, kColumnNames[column], why);
  }

 private:
  // Into fields_; lines of nothing are passed over.
  bool next_line() {
    while (!rest_.empty()) {
      std::string_view line = rest_.substr(0, rest_.find('\n'));
      rest_.remove_prefix(std::min(rest_.size(), line.size() + 1));
      ++line_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.empty()) continue;
      fields_ = fields_of(line);
      return true;
    }
    return false;
  }

  std::string_view rest_;
  const std::string& path_;
  size_t line_ = 0;
  std::vector<std::string_view> fields_;  // of the line read last
  size_t columns_ = 0;
  std::array<size_t, kColumns> place_{};
};

// The layer that a tensor counts with.
int64_t layer_beside(const TensorInfo& tensor, int64_t layers) {
  if (const std::optional<int64_t> layer = names::layer_of(tensor.name)) return *layer;
  return tensor.name == names::kEmbedding ? 0 : layers - 1;
}

}  // namespace

std::vector<size_t> shard_table_counts(std::string_view text, const std::string& path,
                                       int64_t layers, const std::vector<TensorInfo>& tensors) {
  TableReader table(text, path);
  std::vector<size_t> counts;
  std::span<const TensorInfo> rest(tensors);
  while (table.next_row()) {
    const int64_t shard = table.value(kShard);
    if (shard != static_cast<int64_t>(counts.size()) + 1) {
      table.wrong(kShard, fmt::format("{}, but {} comes next", shard, counts.size() + 1));
    }
    const int64_t count = table.value(kTensors);
    if (count == 0) table.wrong(kTensors, "0, but every shard holds one at least");
    if (count > static_cast<int64_t>(rest.size())) {
      table.wrong(kTensors, fmt::format("{}, but of the {} that config.json calls for only {} are "
                                        "left",
                                        count, tensors.size(), rest.size()));
    }
    const std::span<const TensorInfo> held = rest.first(static_cast<size_t>(count));
    // The layout goes from layer to layer.
    for (const auto& [column, tensor] :
         {std::pair(kFirstLayer, &held.front()), std::pair(kLastLayer, &held.back())}) {
      const int64_t layer = layer_beside(*tensor, layers);
      if (table.value(column) != layer) {
        table.wrong(column, fmt::format("{}, but by config.json and the counts it is {} ({})",
                                        table.value(column), layer, tensor->name));
      }
    }
    counts.push_back(static_cast<size_t>(count));
    rest = rest.subspan(held.size());
  }
  if (!rest.empty()) {
    fail_input("{}: tensors: {} in all, but config.json calls for {}", path,
               tensors.size() - rest.size(), tensors.size());
  }
  return counts;
}

}  // namespace fathom
