#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/join.h"
#include "base/units.h"
#include "cli/inspect.h"

namespace fathom::cli {
namespace {

constexpr size_t kColumns = 100;

// At most `width` columns: what is too long loses its middle. Bytes are counted for columns, so a
// line is never longer than that.
std::string fitted(const std::string& text, size_t width) {
  if (text.size() <= width || width < 5) return text;
  size_t front = (width - 2) / 3;
  size_t back = text.size() - (width - 2 - front);
  // Not inside of a character.
  const auto inside = [&](size_t at) { return (text[at] & 0xc0) == 0x80; };
  while (front > 0 && inside(front)) --front;
  while (back < text.size() && inside(back)) ++back;
  return text.substr(0, front) + ".." + text.substr(back);
}

// Words in lines of the page's width, all lines `indent` columns in.
std::string wrapped(const std::string& text, size_t indent) {
  const std::string margin(indent, ' ');
  std::string lines;
  std::string line;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = fitted(text.substr(at, end - at), kColumns - indent);
    if (!line.empty() && indent + line.size() + 1 + word.size() > kColumns) {
      lines += margin + line + "\n";
      line.clear();
    }
    if (!word.empty()) line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  return line.empty() ? lines : lines + margin + line + "\n";
}

// Columns padded to their widest cell; numbers to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> titles, std::string aligned)
      : aligned_(std::move(aligned)) {
    rows_.push_back(std::move(titles));
  }
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  std::string text() const {
    std::vector<size_t> widths(aligned_.size(), 0);
    for (const auto& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    // The widest column gives way.
    size_t all = 2 * widths.size();
    for (const size_t width : widths) all += width;
    const auto widest = std::max_element(widths.begin(), widths.end());
    if (all > kColumns) *widest -= std::min(*widest - 10, all - kColumns);
    std::string text;
    for (const auto& row : rows_) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i) {
        const std::string cell = fitted(row[i], widths[i]);
        const std::string gap(widths[i] - std::min(widths[i], cell.size()), ' ');
        line += "  " + (aligned_[i] == 'r' ? gap + cell : cell + gap);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
    return text;
  }

 private:
  std::string aligned_;  // 'l' or 'r' for each column
  std::vector<std::vector<std::string>> rows_;
};

std::string percent(uint64_t part, uint64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.2f}%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string title(const std::string& text) { return "\n" + text + "\n"; }

std::string identity(const Inspection& inspection) {
  const ConfigFacts& config = inspection.config;
  const Accounting& accounting = inspection.accounting;
  const Sum main = accounting.total_without_mtp();
  const Sum mtp = accounting.of(Group::mtp_layers);
  const uint64_t payload = inspection.scan.payload_bytes();
  std::string text = inspection.name + "\n";
  const auto line = [&text](const std::string& name, const std::string& value) {
    std::string lines = wrapped(value, 16);
    if (lines.size() > 16) lines.replace(2, name.size(), name);
    text += lines;
  };
  line("folder", inspection.folder);
  line("architecture", config.architecture.empty() ? "not known: there is no config.json to say so"
                                                   : config.architecture);
  line("payload",
       fmt::format("{} bytes ({} GiB) in {} tensors, {} shard{}", grouped(payload), gib(payload),
                   grouped(inspection.scan.tensors.size()), inspection.scan.shards.size(),
                   inspection.scan.shards.size() == 1 ? "" : "s"));
  std::string parameters =
      fmt::format("{} ({})", counted(main.parameters), grouped(main.parameters));
  if (inspection.activated && *inspection.activated != main.parameters) {
    const uint64_t embedding = accounting.cell(Group::globals, Part::embedding).parameters;
    parameters += fmt::format(
        "; activated by a token {} ({}), {} without the embedding, of which a token reads one row",
        counted(*inspection.activated), grouped(*inspection.activated),
        counted(*inspection.activated - std::min(embedding, *inspection.activated)));
  }
  line("parameters", parameters);
  if (mtp.parameters > 0) line("MTP", counted(mtp.parameters) + " parameters more");
  const Sum all = accounting.total();
  if (all.scale_values > 0) {
    line("scales", fmt::format("{} in {} grids, not counted as parameters",
                               grouped(all.scale_values), grouped(all.scale_tensors)));
  }
  std::vector<std::string> mix;
  for (const DtypeRow& row : inspection.dtypes) {
    mix.push_back(fmt::format("{} {}", dtype_name(row.dtype), percent(row.bytes, payload)));
  }
  line("formats", join(mix, ", "));
  line("layers",
       fmt::format("{} dense, {} MoE, {} MTP", accounting.layer_count(Group::dense_layers),
                   accounting.layer_count(Group::moe_layers),
                   accounting.layer_count(Group::mtp_layers)));
  return text;
}

std::string problems(const Inspection& inspection) {
  if (inspection.problems.empty()) return "";
  std::string text = title(fmt::format("Wrong: {}", inspection.problems.size()));
  constexpr size_t kMost = 50;
  for (size_t i = 0; i < std::min(kMost, inspection.problems.size()); ++i) {
    text += wrapped("- " + inspection.problems[i], 2);
  }
  if (inspection.problems.size() > kMost) {
    text += fmt::format("  and {} more (--json has all)\n", inspection.problems.size() - kMost);
  }
  return text;
}

std::string traps(const Inspection& inspection) {
  std::string text = title("Traps in this checkpoint");
  if (inspection.traps.empty()) text += "  none found\n";
  for (const Trap& trap : inspection.traps) {
    text += wrapped((trap.harmful ? "! " : "- ") + trap.title, 2) + wrapped(trap.detail, 6);
  }
  return text;
}

std::string inventory(const Inspection& inspection) {
  const Inventory& inventory = inspection.inventory;
  Table table({"role", "files", "bytes", "which"}, "lrrl");
  for (size_t i = 0; i < static_cast<size_t>(FileRole::count); ++i) {
    const auto role = static_cast<FileRole>(i);
    const Inventory::Share share = inventory.of(role);
    if (share.files == 0) continue;
    std::string which;
    size_t links = 0;
    for (const InventoryFile& file : inventory.files) {
      if (file.role != role) continue;
      if (which.empty()) {
        which = file.path;
      } else if (!which.ends_with(", ...")) {
        which += ", ...";
      }
      links += file.link;
    }
    if (links > 0) which += fmt::format(" ({} links)", links);
    table.row(
        {std::string(role_name(role)), std::to_string(share.files), grouped(share.bytes), which});
  }
  table.row({"all", std::to_string(inventory.files.size()), grouped(inventory.bytes()),
             inventory.cut_short ? "and more files, which are not listed" : ""});
  return title("Files") + table.text();
}

void add_nodes(const ModuleNode& node, size_t depth, Table* table) {
  constexpr size_t kDeepest = 6;
  for (const ModuleNode& child : node.children) {
    std::string name = std::string(2 * depth, ' ') + child.name;
    if (!child.indices.empty()) name += " (" + child.indices + ")";
    table->row({name, grouped(child.tensors), gib(child.bytes)});
    if (depth < kDeepest && !child.children.empty()) {
      const bool leaves = std::all_of(child.children.begin(), child.children.end(),
                                      [](const ModuleNode& n) { return n.children.empty(); });
      if (!leaves) add_nodes(child, depth + 1, table);
    }
  }
}

std::string tree(const Inspection& inspection) {
  Table table({"module", "tensors", "GiB"}, "lrr");
  add_nodes(inspection.tree, 0, &table);
  return title("Modules") + table.text();
}

std::string census(const Inspection& inspection) {
  Table dtypes({"dtype", "tensors", "values", "bytes", "GiB"}, "lrrrr");
  for (const DtypeRow& row : inspection.dtypes) {
    dtypes.row({std::string(dtype_name(row.dtype)), grouped(row.tensors), grouped(row.values),
                grouped(row.bytes), gib(row.bytes)});
  }
  Table families({"family", "tensors", "dtype", "GiB", "shape"}, "lrlrl");
  for (const FamilyRow& row : inspection.families) {
    families.row({row.family, grouped(row.tensors), std::string(dtype_name(row.dtype)),
                  gib(row.bytes), shape_text(row.shape)});
  }
  return title("Tensors by dtype") + dtypes.text() + title("Tensors by family") + families.text();
}

std::string accounting(const Inspection& inspection) {
  const Accounting& accounting = inspection.accounting;
  Table table({"", "tensors", "parameters", "scales", "bytes", "GiB"}, "lrrrrr");
  const auto add = [&table](const std::string& name, const Sum& sum) {
    table.row({name, grouped(sum.tensors), grouped(sum.parameters), grouped(sum.scale_values),
               grouped(sum.bytes), gib(sum.bytes)});
  };
  for (size_t group = 0; group < kGroups; ++group) {
    const auto which = static_cast<Group>(group);
    const Sum sum = accounting.of(which);
    if (sum.tensors == 0) continue;
    const int64_t layers = accounting.layer_count(which);
    add(layers > 0 ? fmt::format("{} ({})", group_name(which), layers)
                   : std::string(group_name(which)),
        sum);
    for (size_t part = 0; part < kParts; ++part) {
      const Sum& cell = accounting.cell(which, static_cast<Part>(part));
      if (cell.tensors > 0) add("  " + std::string(part_name(static_cast<Part>(part))), cell);
    }
  }
  if (accounting.of(Group::mtp_layers).tensors > 0) {
    add("without MTP", accounting.total_without_mtp());
  }
  const Sum total = accounting.total();
  add("all", total);
  const uint64_t payload = inspection.scan.payload_bytes();
  std::string text = title("Where bytes and parameters go") + table.text();
  text += total.bytes == payload
              ? "  adds up to the payload to the byte\n"
              : fmt::format("  does not add up: the payload is {} bytes\n", grouped(payload));
  return text;
}

std::string experts(const Inspection& inspection) {
  const ExpertPlaces& places = inspection.experts;
  std::string text = title("Routed experts");
  if (places.experts == 0) return text + "  none stored one by one\n";
  text += wrapped(fmt::format("{} in layers {}; {} bytes each{}", grouped(places.experts),
                              ranges_text(places.layers), grouped(places.least_bytes),
                              places.least_bytes == places.most_bytes
                                  ? ""
                                  : fmt::format(" to {}", grouped(places.most_bytes))),
                  2);
  text += wrapped(fmt::format("{} lie in one piece, {} straddle shards, {} have other tensors in "
                              "between; in {} of {} layers they follow each other by number",
                              grouped(places.contiguous), places.straddlers.size(),
                              places.scattered, places.layers_in_order, places.layers.size()),
                  2);
  for (const ExpertOrder& order : places.orders) {
    text += wrapped(fmt::format("order of {}: {}", grouped(order.experts), order_text(order)), 2);
  }
  for (const std::string& line : places.irregular) text += wrapped(line, 2);
  if (places.straddlers.empty()) return text;
  text += title("Experts that straddle shards (layer/expert: shard, what is in it | next shard)");
  constexpr size_t kMost = 400;
  size_t shown = 0;
  std::string line;
  for (const Straddler& straddler : places.straddlers) {
    if (shown++ == kMost) break;
    const std::string cell = fitted(straddler_text(straddler), 46);
    if (line.empty()) {
      line = fmt::format("  {:<48}", cell);
      continue;
    }
    text += line + cell + "\n";
    line.clear();
  }
  if (!line.empty()) text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  if (places.straddlers.size() > kMost) {
    text += fmt::format("  and {} more (--json has all)\n", places.straddlers.size() - kMost);
  }
  return text;
}

std::string maps(const Inspection& inspection) {
  Table layers({"layer", "kind", "tensors", "bytes", "without routed", "shards (tensors)"},
               "rlrrrl");
  for (const LayerRow& row : inspection.accounting.layers) {
    std::vector<std::string> shards;
    for (const auto& [shard, tensors] : row.shards) {
      shards.push_back(fmt::format("{} ({})", shard + 1, tensors));
    }
    std::string kind(group_name(row.group));
    kind = kind.substr(0, kind.find(' '));
    layers.row({std::to_string(row.layer), kind, grouped(row.sum.tensors), grouped(row.sum.bytes),
                grouped(row.sum.bytes - row.routed_bytes), join(shards, " ")});
  }
  Table shards({"shard", "tensors", "bytes", "header", "holds"}, "rrrrl");
  for (size_t i = 0; i < inspection.scan.shards.size(); ++i) {
    const ScannedShard& shard = inspection.scan.shards[i];
    shards.row({std::to_string(i + 1), grouped(shard.tensors), grouped(shard.payload_bytes),
                grouped(shard.header_bytes),
                shard.readable ? shard_contents(inspection.accounting.shards[i])
                               : "not readable: " + shard.name});
  }
  std::string text;
  if (!inspection.accounting.layers.empty()) {
    text += title("Layers and their shards") + layers.text();
  }
  return text + title("Shards and their layers (tensors)") + shards.text();
}

std::string tokens(const Inspection& inspection) {
  std::string text = title("Special tokens");
  if (inspection.tokenizer.present) {
    text += wrapped(fmt::format("the tokenizer has {} ids; {} added tokens, {} of them special",
                                grouped(static_cast<uint64_t>(inspection.tokenizer.size)),
                                inspection.tokenizer.added, inspection.tokenizer.special),
                    2);
  } else {
    text += "  there is no tokenizer that can be read\n";
  }
  Table table({"role", "id", "text", "said by"}, "lrll");
  constexpr size_t kMost = 24;  // of the tokenizer's own; R1 has 800 that stand for nothing
  size_t own = 0;
  for (const SpecialToken& token : inspection.special_tokens) {
    const bool named = token.role != "special" && token.role != "added";
    if (!named && ++own > kMost) continue;
    table.row(
        {token.role, token.id ? std::to_string(*token.id) : "none", token.text, token.source});
  }
  if (!inspection.special_tokens.empty()) text += table.text();
  if (own > kMost) text += fmt::format("  and {} more (--json has all)\n", own - kMost);
  text += title("Context length");
  for (const ContextClaim& claim : inspection.contexts) {
    text += wrapped(fmt::format("{:>9} {} ({})", claim.tokens, claim.file, claim.field), 2);
  }
  if (inspection.contexts.empty()) text += "  no file says so\n";
  return text;
}

}  // namespace

std::string inspection_text(const Inspection& inspection) {
  return identity(inspection) + problems(inspection) + traps(inspection) + inventory(inspection) +
         accounting(inspection) + tree(inspection) + census(inspection) + experts(inspection) +
         maps(inspection) + tokens(inspection);
}

std::string layer_text(const Inspection& inspection, int64_t layer) {
  Table table({"tensor", "dtype", "shape", "bytes", "shard", "offset"}, "lllrrr");
  uint64_t bytes = 0;
  const std::vector<size_t> manifest = layer_manifest(inspection, layer);
  const size_t prefix = fmt::format("{}{}.", inspection.stack, layer).size();
  for (const size_t at : manifest) {
    const TensorInfo& tensor = inspection.scan.tensors[at];
    table.row({tensor.name.substr(prefix), std::string(dtype_name(tensor.dtype)),
               shape_text(tensor.shape), grouped(tensor.bytes), std::to_string(tensor.shard + 1),
               grouped(tensor.offset)});
    bytes += tensor.bytes;
  }
  return wrapped(fmt::format("{} layer {}: {} tensors, {} bytes ({} GiB)", inspection.name, layer,
                             grouped(manifest.size()), grouped(bytes), gib(bytes)),
                 0) +
         table.text();
}

}  // namespace fathom::cli
