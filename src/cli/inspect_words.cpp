// Numbers and lists as text and page show them alike.
#include <fmt/format.h>

#include <algorithm>

#include "base/join.h"
#include "checkpoint/deepseek_tensors.h"
#include "cli/inspect.h"

namespace fathom::cli {

std::string grouped(uint64_t number) {
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string counted(uint64_t number) {
  const auto value = static_cast<double>(number);
  if (number >= 1'000'000'000) return fmt::format("{:.2f} B", value / 1e9);
  if (number >= 1'000'000) return fmt::format("{:.2f} M", value / 1e6);
  if (number >= 10'000) return fmt::format("{:.1f} K", value / 1e3);
  return std::to_string(number);
}

std::string gib(uint64_t bytes) {
  return fmt::format("{:.3f}", static_cast<double>(bytes) / static_cast<double>(1u << 30));
}

std::string order_text(const ExpertOrder& order) {
  std::vector<std::string> weights;
  size_t followed = 0;
  for (const std::string& tensor : order.tensors) {
    if (!weights.empty() && tensor == weights.back() + std::string(names::kScaleSuffix)) {
      ++followed;
      continue;
    }
    weights.push_back(tensor);
  }
  if (followed == 0 || followed != weights.size()) return join(order.tensors, ", ");
  return join(weights, ", ") + "; each followed by its scales";
}

std::string shard_numbers(const LayerRow& row) {
  std::vector<int64_t> numbers;
  for (const auto& [shard, tensors] : row.shards) numbers.push_back(shard + 1);
  return ranges_text(numbers);
}

std::string shard_contents(const ShardRow& row) {
  std::vector<std::string> parts;
  for (const auto& [layer, tensors] : row.layers) {
    parts.push_back(fmt::format("{} ({})", layer, tensors));
  }
  std::string text = join(parts, " ");
  for (const std::string& name : row.globals) text += (text.empty() ? "" : " ") + name;
  return text;
}

std::string straddler_text(const Straddler& straddler) {
  std::string text = fmt::format("{}/{}:", straddler.layer, straddler.expert);
  for (const Straddler::Piece& piece : straddler.pieces) {
    if (&piece != &straddler.pieces.front()) text += " |";
    text += fmt::format(" {}", piece.shard + 1);
    // The last one would repeat what the others leave.
    if (&piece == &straddler.pieces.back()) break;
    text += " to " + piece.tensors.back();
  }
  return text;
}

}  // namespace fathom::cli
