#include "checkpoint/traps.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "base/join.h"
#include "base/json_sax.h"
#include "base/units.h"
#include "checkpoint/deepseek_tensors.h"
#include "checkpoint/inspection.h"
#include "checkpoint/problem_list.h"

namespace fathom {
namespace {

int64_t as_value(uint64_t number) { return static_cast<int64_t>(number); }

std::string_view plural(size_t count) { return count == 1 ? "" : "s"; }

// Why an index may say `claimed`: what exporters are known to have counted instead of the payload.
std::string cause_of(uint64_t claimed, const Inspection& inspection) {
  const Sum all = inspection.accounting.total();
  const uint64_t values = all.parameters + all.scale_values;
  const Sum main = inspection.accounting.total_without_mtp();
  struct Guess {
    uint64_t bytes;
    const char* cause;
  };
  const Guess guesses[] = {
      {0, "the exporter did not fill it in"},
      {2 * values,
       "2 bytes for each of all stored values, scales included: counted as if all were BF16, "
       "whatever their format"},
      {2 * all.parameters,
       "2 bytes for each parameter: the size before quantisation, as BF16, scales left out"},
      {4 * values, "4 bytes for each of all stored values, as if all were F32"},
      {4 * all.parameters, "4 bytes for each parameter: the size as F32"},
      {values, "the number of stored values, not of bytes"},
      {all.parameters, "the number of parameters, not of bytes"},
      {inspection.scan.file_bytes(), "the size of the files, headers included"},
      {all.bytes - all.scale_bytes, "the payload without scales"},
      {main.bytes, "the payload without the MTP layer"},
      {2 * main.parameters, "2 bytes for each parameter, the MTP layer left out"},
  };
  for (const Guess& guess : guesses) {
    if (guess.bytes == claimed) return guess.cause;
  }
  return "no known way of counting gives it; the index may belong to other files";
}

class Finder {
 public:
  explicit Finder(const Inspection& inspection)
      : inspection_(inspection), config_(inspection.config), names_(inspection.scan.tensors) {
    for (const TensorInfo& tensor : inspection.scan.tensors) by_name_.emplace(tensor.name, &tensor);
  }

  std::vector<Trap> run() {
    total_size();
    router_bias();
    padded_grids();
    missing_scales();
    vocabulary();
    head_place();
    mtp();
    contexts();
    leftovers();
    stray_files();
    alignment();
    return std::move(traps_);
  }

 private:
  Trap& add(const char* id, bool harmful, std::string title, std::string detail) {
    traps_.push_back({id, harmful, std::move(title), std::move(detail), {}});
    return traps_.back();
  }
  const TensorInfo* find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  const std::string& shard_name(int shard) const {
    return inspection_.scan.shards[static_cast<size_t>(shard)].name;
  }

  void total_size() {
    const auto& index = inspection_.scan.index;
    if (!index || !index->total_size) return;
    const uint64_t claimed = *index->total_size;
    const uint64_t payload = inspection_.scan.payload_bytes();
    if (claimed == payload) return;
    const bool partial = std::any_of(inspection_.scan.shards.begin(), inspection_.scan.shards.end(),
                                     [](const ScannedShard& shard) { return !shard.readable; });
    const std::string cause =
        partial ? "not all shards could be read" : cause_of(claimed, inspection_);
    const bool more = claimed > payload;
    const uint64_t difference = more ? claimed - payload : payload - claimed;
    Trap& trap =
        add("index-total-size", true, "the index's total_size is not the payload",
            fmt::format(
                "total_size says {}, the tensors take {}: {} bytes too {} "
                "({:.4f} of it). Likely cause: {}. Nothing may be sized by it.",
                claimed, payload, difference, more ? "many" : "few",
                payload == 0 ? 0.0 : static_cast<double>(claimed) / static_cast<double>(payload),
                cause));
    trap.values = {{"total_size", as_value(claimed)},
                   {"payload", as_value(payload)},
                   {"difference", more ? as_value(difference) : -as_value(difference)}};
  }

  void router_bias() {
    std::map<Dtype, size_t> found;
    std::set<std::string_view> routers;  // dtypes of the weights
    std::string_view first;
    for (const TensorInfo& tensor : inspection_.scan.tensors) {
      const NamePlace place = names_.place(tensor.name);
      if (place.part != Part::router) continue;
      if (!tensor.name.ends_with("bias")) {
        routers.insert(dtype_name(tensor.dtype));
        continue;
      }
      ++found[tensor.dtype];
      if (tensor.dtype != Dtype::f32 && first.empty()) first = tensor.name;
    }
    if (found.empty()) return;
    std::vector<std::string> kinds;
    size_t rounded = 0;
    size_t all = 0;
    for (const auto& [dtype, count] : found) {
      kinds.push_back(fmt::format("{} {}", count, dtype_name(dtype)));
      all += count;
      if (dtype != Dtype::f32) rounded += count;
    }
    std::string weights;
    for (const std::string_view dtype : routers) {
      weights += (weights.empty() ? "" : ", ") + std::string(dtype);
    }
    Trap& trap =
        rounded > 0
            ? add("router-bias", true, "the routers' biases are rounded",
                  fmt::format("{} (the first: {}); released files keep them in F32. Close choices "
                              "of experts may differ.",
                              join(kinds, ", "), first))
            : add("router-bias", false, "the routers' biases are F32",
                  fmt::format("{} of them, while the routers' weights are {}: whoever converts all "
                              "to one format changes choices of experts.",
                              all, weights.empty() ? "absent" : weights));
    trap.values = {{"biases", as_value(all)}, {"not_f32", as_value(rounded)}};
  }

  // Grids whose last blocks reach beyond the matrix.
  void padded_grids() {
    if (config_.block_rows == 0) return;
    struct Found {
      const TensorInfo* weight = nullptr;
      std::vector<int64_t> grid;
      size_t tensors = 0;
    };
    std::map<std::string, Found> families;
    size_t padded = 0;
    for (const TensorInfo& scale : inspection_.scan.tensors) {
      if (!scale.name.ends_with(names::kScaleSuffix)) continue;
      const std::string_view name =
          std::string_view(scale.name).substr(0, scale.name.size() - names::kScaleSuffix.size());
      const TensorInfo* weight = find(name);
      if (weight == nullptr || weight->shape.size() != 2) continue;
      if (weight->shape[0] % config_.block_rows == 0 &&
          weight->shape[1] % config_.block_cols == 0) {
        continue;
      }
      ++padded;
      Found& found = families[tensor_family(name)];
      if (found.tensors++ == 0) {
        found.weight = weight;
        found.grid = scale.shape;
      }
    }
    if (padded == 0) return;
    std::vector<std::string> lines;
    for (const auto& [family, found] : families) {
      const int64_t rows = found.weight->shape[0] % config_.block_rows;
      const int64_t cols = found.weight->shape[1] % config_.block_cols;
      std::string last;
      if (rows != 0) last = fmt::format("its last block row covers {} rows", rows);
      if (cols != 0) {
        last +=
            fmt::format("{}its last block column covers {} columns", rows != 0 ? ", " : "", cols);
      }
      lines.push_back(fmt::format("{} ({} of them), {} with a grid of {}: {}", family,
                                  found.tensors, shape_text(found.weight->shape),
                                  shape_text(found.grid), last));
    }
    Trap& trap =
        add("padded-scales", false,
            fmt::format("{} scale grid{} with blocks that are not full", padded, plural(padded)),
            fmt::format("Blocks are {} x {}. {}.", config_.block_rows, config_.block_cols,
                        join(lines, "; ")));
    trap.values = {{"tensors", as_value(padded)}, {"families", as_value(families.size())}};
  }

  void missing_scales() {
    size_t missing = 0;
    std::string_view first;
    size_t lonely = 0;
    for (const TensorInfo& tensor : inspection_.scan.tensors) {
      if (tensor.name.ends_with(names::kScaleSuffix)) {
        const std::string_view name = tensor.name;
        lonely += find(name.substr(0, name.size() - names::kScaleSuffix.size())) == nullptr;
        continue;
      }
      if (tensor.dtype != Dtype::f8_e4m3) continue;
      if (find(tensor.name + std::string(names::kScaleSuffix)) != nullptr) continue;
      // Other exporters spell it otherwise.
      if (find(tensor.name + "_scale") != nullptr) continue;
      if (missing++ == 0) first = tensor.name;
    }
    if (missing == 0 && lonely == 0) return;
    Trap& trap = add("missing-scales", true, "F8 weights and their scales do not match up",
                     fmt::format("{} F8_E4M3 weight{} without scales{}{}, {} scale grid{} without "
                                 "a weight.",
                                 missing, plural(missing), missing > 0 ? ", the first " : "", first,
                                 lonely, plural(lonely)));
    trap.values = {{"weights", as_value(missing)}, {"scales", as_value(lonely)}};
  }

  void vocabulary() {
    if (!inspection_.tokenizer.present) return;
    const TensorInfo* embedding = nullptr;
    uint64_t row_bytes = 0;
    for (const TensorInfo& tensor : inspection_.scan.tensors) {
      const NamePlace place = names_.place(tensor.name);
      const bool rows = place.part == Part::embedding || place.part == Part::head;
      if (!rows || place.scale || tensor.shape.size() != 2) continue;
      if (place.part == Part::embedding && place.layer < 0) {
        if (embedding == nullptr) embedding = &tensor;
      }
      if (embedding != nullptr && tensor.shape[0] == embedding->shape[0] && tensor.shape[0] > 0) {
        row_bytes += tensor.bytes / static_cast<uint64_t>(tensor.shape[0]);
      }
    }
    if (embedding == nullptr) return;
    const int64_t rows = embedding->shape[0];
    const int64_t tokens = inspection_.tokenizer.size;
    if (rows == tokens) return;
    const int64_t unused = rows - tokens;
    Trap& trap =
        unused > 0
            ? add("unused-vocabulary", false,
                  fmt::format("{} rows of the vocabulary belong to no token", unused),
                  fmt::format("The embedding has {} rows, the tokenizer's ids end at {}. Sampling "
                              "could choose ids without a text. In embeddings and heads these rows "
                              "take {}.",
                              rows, tokens - 1,
                              format_size(static_cast<uint64_t>(unused) * row_bytes)))
            : add("unused-vocabulary", true,
                  fmt::format("{} of the tokenizer's ids have no row in the embedding", -unused),
                  fmt::format("The embedding has {} rows, the tokenizer's ids end at {}.", rows,
                              tokens - 1));
    trap.values = {{"rows", rows}, {"tokenizer", tokens}, {"unused", unused}};
  }

  void head_place() {
    if (inspection_.scan.shards.size() < 2) return;
    const TensorInfo* head = find(names::kHead);
    const int last = static_cast<int>(inspection_.scan.shards.size()) - 1;
    if (head == nullptr || head->shard == last) return;
    Trap& trap = add("head-place", false, "the head is not in the last shard",
                     fmt::format("{} is in {}, the last shard is {}: whoever takes the last file "
                                 "for the head's reads another layer.",
                                 names::kHead, shard_name(head->shard), shard_name(last)));
    trap.values = {{"shard", head->shard + 1}, {"shards", last + 1}};
  }

  void mtp() {
    const Accounting& accounting = inspection_.accounting;
    const Sum sum = accounting.of(Group::mtp_layers);
    const int64_t promised = config_.mtp_layers.value_or(0);
    if (sum.tensors == 0) {
      if (promised == 0) return;
      add("mtp", false, "config.json speaks of an MTP layer, the files have none",
          fmt::format("num_nextn_predict_layers is {}; without its tensors there is no drafting.",
                      promised))
          .values = {{"tensors", 0}};
      return;
    }
    std::vector<int64_t> layers;
    for (const LayerRow& row : accounting.layers) {
      if (row.group == Group::mtp_layers) layers.push_back(row.layer);
    }
    std::vector<std::string> copies;
    uint64_t copied = 0;
    for (const TensorInfo& tensor : inspection_.scan.tensors) {
      const NamePlace place = names_.place(tensor.name);
      if (place.layer < 0 || place.layer < layers.front()) continue;
      const bool embedding = place.part == Part::embedding;
      if (!embedding && place.part != Part::head) continue;
      const TensorInfo* original = find(embedding ? names::kEmbedding : names::kHead);
      if (original == nullptr || original->shape != tensor.shape ||
          original->dtype != tensor.dtype) {
        continue;
      }
      copies.push_back(fmt::format("{} of {}", tensor.name.substr(place.rest), original->name));
      copied += tensor.bytes;
    }
    const bool listed = promised > 0;
    std::string detail = fmt::format(
        "Layer {} ({} tensors, {}) is for drafting tokens (multi-token prediction), {}. Without "
        "it the payload is {} bytes.",
        ranges_text(layers), sum.tensors, format_size(sum.bytes),
        listed ? "as num_nextn_predict_layers says" : "though config.json has no such layer",
        accounting.total_without_mtp().bytes);
    if (!copies.empty()) {
      detail += fmt::format(
          " In name, shape and dtype it has copies: {}; {} that need not be kept twice where the "
          "contents are the same.",
          join(copies, ", "), format_size(copied));
    }
    Trap& trap = add("mtp", false, "MTP tensors are not a layer of the decoder", detail);
    trap.values = {{"tensors", as_value(sum.tensors)},
                   {"bytes", as_value(sum.bytes)},
                   {"bytes_without", as_value(accounting.total_without_mtp().bytes)},
                   {"copies", as_value(copies.size())},
                   {"copied_bytes", as_value(copied)}};
  }

  void contexts() {
    std::set<int64_t> lengths;
    std::vector<std::string> claims;
    for (const ContextClaim& claim : inspection_.contexts) {
      lengths.insert(claim.tokens);
      claims.push_back(fmt::format("{} ({}) says {}", claim.file, claim.field, claim.tokens));
    }
    if (lengths.size() < 2) return;
    Trap& trap = add("context-length", true, "the files disagree on the context's length",
                     join(claims, ", ") + "; choose with --ctx.");
    trap.values = {{"least", *lengths.begin()}, {"most", *lengths.rbegin()}};
  }

  void leftovers() {
    const Inventory::Share share = inspection_.inventory.of(FileRole::download_leftover);
    if (share.files == 0) return;
    size_t absent = 0;
    for (const ScannedShard& shard : inspection_.scan.shards) absent += shard.file_bytes == 0;
    std::string first;
    for (const InventoryFile& file : inspection_.inventory.files) {
      if (file.role == FileRole::download_leftover && first.empty()) first = file.path;
    }
    Trap& trap = add(
        "leftovers", true,
        fmt::format("{} file{} of aborted downloads", share.files, plural(share.files)),
        fmt::format("{} and others like it (*.incomplete): deleting them frees {} ({} bytes). {}",
                    quoted_for_message(first), format_size(share.bytes), share.bytes,
                    absent == 0 ? "All shards are there, so none of them is needed."
                                : fmt::format("{} shard{} missing: going on with the download may "
                                              "still use them.",
                                              absent, absent == 1 ? " is" : "s are")));
    trap.values = {{"files", as_value(share.files)}, {"bytes", as_value(share.bytes)}};
  }

  void stray_files() {
    const std::vector<std::string>& stray = inspection_.scan.not_listed;
    if (stray.empty()) return;
    uint64_t bytes = 0;
    for (const InventoryFile& file : inspection_.inventory.files) {
      if (std::find(stray.begin(), stray.end(), file.path) != stray.end()) bytes += file.bytes;
    }
    Trap& trap = add("stray-files", true,
                     fmt::format("{} safetensors file{} that the index does not name", stray.size(),
                                 plural(stray.size())),
                     fmt::format("{}{} ({}): not opened. Whoever loads every *.safetensors file "
                                 "loads them too.",
                                 quoted_for_message(stray.front()), stray.size() > 1 ? ", ..." : "",
                                 format_size(bytes)));
    trap.values = {{"files", as_value(stray.size())}, {"bytes", as_value(bytes)}};
  }

  // Data begin behind a header of any length.
  void alignment() {
    size_t read = 0;
    size_t aligned = 0;
    for (const ScannedShard& shard : inspection_.scan.shards) {
      read += shard.readable;
      aligned += shard.readable && (shard.header_bytes + 8) % 8 == 0;
    }
    if (aligned == read) return;
    Trap& trap =
        add("alignment", false, "data do not begin at multiples of 8",
            fmt::format("In {} of {} shards they do. Mapped values cannot be used in place "
                        "on every machine, and direct reads need room on both sides.",
                        aligned, read));
    trap.values = {{"aligned", as_value(aligned)}, {"shards", as_value(read)}};
  }

  const Inspection& inspection_;
  const ConfigFacts& config_;
  NameReader names_;
  std::unordered_map<std::string_view, const TensorInfo*> by_name_;
  std::vector<Trap> traps_;
};

}  // namespace

std::vector<Trap> find_traps(const Inspection& inspection) { return Finder(inspection).run(); }

}  // namespace fathom
