// The inspection as one page. Everything that comes from files passes through escaped().
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/join.h"
#include "cli/inspect.h"
#include "text/utf8_stream.h"

namespace fathom::cli {
namespace {

constexpr double kWidth = 1100;
constexpr double kTreemapHeight = 560;

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : repair_utf8(text)) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        // Controls mean nothing to a page, and some are forbidden in one.
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') {
          safe += "\xef\xbf\xbd";
        } else {
          safe += c;
        }
    }
  }
  return safe;
}

// A cell: what is shown, and where it is a number, what is sorted by.
struct Cell {
  std::string text;
  std::string key;
};
Cell word(std::string_view text) { return {escaped(text), ""}; }
Cell number(uint64_t value) { return {grouped(value), std::to_string(value)}; }
Cell size_in_gib(uint64_t bytes) { return {gib(bytes), std::to_string(bytes)}; }

class HtmlTable {
 public:
  explicit HtmlTable(const std::vector<std::string>& titles) {
    html_ = "<table class=\"sortable\"><thead><tr>";
    for (const std::string& title : titles) {
      html_ += "<th><button>" + escaped(title) + "</button></th>";
    }
    html_ += "</tr></thead><tbody>\n";
  }
  void row(const std::vector<Cell>& cells) {
    html_ += "<tr>";
    for (const Cell& cell : cells) {
      html_ += cell.key.empty() ? "<td>" : "<td class=\"n\" data-v=\"" + cell.key + "\">";
      html_ += cell.text + "</td>";
    }
    html_ += "</tr>\n";
  }
  std::string html() const { return html_ + "</tbody></table>\n"; }

 private:
  std::string html_;
};

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

// Boxes with areas in proportion to `sizes` (largest first, none 0), each as square as a greedy
// choice makes it: rows along the shorter side take boxes for as long as the worst one gets better.
std::vector<Box> squarified(const std::vector<double>& sizes, Box space) {
  double left = 0;
  for (const double size : sizes) left += size;
  std::vector<Box> boxes;
  size_t first = 0;
  while (first < sizes.size()) {
    const double side = std::min(space.width, space.height);
    const double scale = space.width * space.height / left;  // of area for a unit of size
    const auto worst = [&](double sum, double least, double most) {
      const double depth = sum * scale / side;
      return std::max(depth * depth / (least * scale), most * scale / (depth * depth));
    };
    double sum = sizes[first];
    size_t end = first + 1;
    while (end < sizes.size() && worst(sum + sizes[end], sizes[end], sizes[first]) <=
                                     worst(sum, sizes[end - 1], sizes[first])) {
      sum += sizes[end++];
    }
    const double depth = side > 0 ? sum * scale / side : 0;
    const bool upright = space.width >= space.height;
    double at = 0;
    for (size_t i = first; i < end; ++i) {
      const double length = side * sizes[i] / sum;
      boxes.push_back(upright ? Box{space.x, space.y + at, depth, length}
                              : Box{space.x + at, space.y, length, depth});
      at += length;
    }
    if (upright) {
      space.x += depth;
      space.width = std::max(0.0, space.width - depth);
    } else {
      space.y += depth;
      space.height = std::max(0.0, space.height - depth);
    }
    left -= sum;
    first = end;
  }
  return boxes;
}

class Treemap {
 public:
  std::string svg(const ModuleNode& root) {
    svg_ = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Treemap\">\n", kWidth,
                       kTreemapHeight);
    add(root, "", {0, 0, kWidth, kTreemapHeight}, 0);
    return svg_ + "</svg>\n";
  }

 private:
  static constexpr int kDeepest = 8;
  static constexpr double kTitle = 14;  // room for a module's name

  void add(const ModuleNode& node, const std::string& path, Box box, int depth) {
    if (box.width < 2 || box.height < 2 || node.bytes == 0) return;
    if (depth > 0) draw(node, path, box, depth);
    // A module with one thing in it is drawn as that.
    const double title = depth > 0 && node.children.size() > 1 ? kTitle : 0;
    if (title > 0) {
      if (box.width < 40 || box.height < 40) return;
      box = {box.x + 2, box.y + title, box.width - 4, box.height - title - 2};
    }
    if (depth == kDeepest) return;
    std::vector<const ModuleNode*> children;
    std::vector<double> sizes;
    for (const ModuleNode& child : node.children) {
      if (child.bytes == 0) continue;
      children.push_back(&child);
      sizes.push_back(static_cast<double>(child.bytes));
    }
    const std::vector<Box> boxes = squarified(sizes, box);
    for (size_t i = 0; i < children.size(); ++i) {
      add(*children[i], path.empty() ? children[i]->name : path + "." + children[i]->name, boxes[i],
          depth + 1);
    }
  }

  void draw(const ModuleNode& node, const std::string& path, const Box& box, int depth) {
    const std::string indices = node.indices.empty() ? "" : " (" + node.indices + ")";
    svg_ += fmt::format(
        "<g><title>{}{}: {} tensors, {} bytes</title><rect x=\"{:.1f}\" y=\"{:.1f}\" "
        "width=\"{:.1f}\" height=\"{:.1f}\" fill=\"hsl({},45%,{}%)\"/>",
        escaped(path), escaped(indices), grouped(node.tensors), grouped(node.bytes), box.x, box.y,
        box.width, box.height, 205 + 23 * depth % 150, 88 - 5 * depth);
    // About 6 units for a letter.
    if (box.height >= kTitle && box.width > 6.0 * static_cast<double>(node.name.size()) + 6) {
      svg_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", box.x + 3, box.y + 11,
                          escaped(node.name));
    }
    svg_ += "</g>\n";
  }

  std::string svg_;
};

// Shards from left to right, layers from top to bottom; darker where a shard holds more of a layer.
std::string shard_map(const Inspection& inspection) {
  const auto& layers = inspection.accounting.layers;
  const auto shards = static_cast<double>(inspection.scan.shards.size());
  if (layers.empty()) return "<p>No layers.</p>\n";
  constexpr double kRow = 8;
  const double column = kWidth / shards;
  std::string svg =
      fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Shard map\">\n", kWidth,
                  kRow * static_cast<double>(layers.size()));
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerRow& row = layers[i];
    for (const auto& [shard, tensors] : row.shards) {
      const double share = static_cast<double>(tensors) / static_cast<double>(row.sum.tensors);
      svg += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"hsl({},60%,"
          "{:.0f}%)\"><title>layer {}, shard {}: {} tensors</title></rect>\n",
          column * shard, kRow * static_cast<double>(i), column, kRow,
          205 + 40 * static_cast<int>(row.group), 80 - 45 * share, row.layer, shard + 1,
          grouped(tensors));
    }
  }
  return svg + "</svg>\n";
}

std::string facts(const Inspection& inspection) {
  const Accounting& accounting = inspection.accounting;
  std::string html = "<dl>";
  const auto fact = [&html](std::string_view name, const std::string& value) {
    html += fmt::format("<dt>{}</dt><dd>{}</dd>", name, escaped(value));
  };
  const uint64_t payload = inspection.scan.payload_bytes();
  fact("Architecture", inspection.config.architecture);
  fact("Payload",
       fmt::format("{} bytes ({} GiB) in {} tensors and {} shards", grouped(payload), gib(payload),
                   grouped(inspection.scan.tensors.size()), inspection.scan.shards.size()));
  fact("Parameters", counted(accounting.total_without_mtp().parameters));
  if (inspection.activated) fact("Activated by a token", counted(*inspection.activated));
  fact("MTP", counted(accounting.of(Group::mtp_layers).parameters) + " parameters more");
  fact("Scales", grouped(accounting.total().scale_values));
  for (const ContextClaim& claim : inspection.contexts) {
    fact("Context", fmt::format("{} by {}", claim.tokens, claim.file));
  }
  return html + "</dl>\n";
}

std::string warnings(const Inspection& inspection) {
  std::string html = "<h2>Traps in this checkpoint</h2>\n<ul>\n";
  for (const Trap& trap : inspection.traps) {
    html += fmt::format("<li{}><b>{}</b><br>{}</li>\n", trap.harmful ? " class=\"bad\"" : "",
                        escaped(trap.title), escaped(trap.detail));
  }
  html += "</ul>\n";
  if (inspection.problems.empty()) return html;
  html += "<h2>Wrong</h2>\n<ul>\n";
  for (const std::string& problem : inspection.problems) {
    html += "<li class=\"bad\">" + escaped(problem) + "</li>\n";
  }
  return html + "</ul>\n";
}

std::string accounting_table(const Accounting& accounting) {
  HtmlTable table({"Group", "Part", "Tensors", "Parameters", "Scales", "Bytes", "GiB"});
  const auto add = [&table](std::string_view group, std::string_view part, const Sum& sum) {
    table.row({word(group), word(part), number(sum.tensors), number(sum.parameters),
               number(sum.scale_values), number(sum.bytes), size_in_gib(sum.bytes)});
  };
  for (size_t group = 0; group < kGroups; ++group) {
    for (size_t part = 0; part < kParts; ++part) {
      const Sum& cell = accounting.cells[group][part];
      if (cell.tensors == 0) continue;
      add(group_name(static_cast<Group>(group)), part_name(static_cast<Part>(part)), cell);
    }
  }
  add("all", "without MTP", accounting.total_without_mtp());
  add("all", "all", accounting.total());
  return table.html();
}

std::string tables(const Inspection& inspection) {
  HtmlTable families({"Family", "Tensors", "Dtype", "Shape", "Bytes", "GiB"});
  for (const FamilyRow& row : inspection.families) {
    families.row({word(row.family), number(row.tensors), word(dtype_name(row.dtype)),
                  word(shape_text(row.shape)), number(row.bytes), size_in_gib(row.bytes)});
  }
  HtmlTable layers({"Layer", "Kind", "Tensors", "Bytes", "Without routed experts", "Shards"});
  for (const LayerRow& row : inspection.accounting.layers) {
    layers.row({number(static_cast<uint64_t>(row.layer)), word(group_name(row.group)),
                number(row.sum.tensors), number(row.sum.bytes),
                number(row.sum.bytes - row.routed_bytes), word(shard_numbers(row))});
  }
  HtmlTable shards({"Shard", "File", "Tensors", "Payload", "Header", "Layers (tensors)"});
  for (size_t i = 0; i < inspection.scan.shards.size(); ++i) {
    const ScannedShard& shard = inspection.scan.shards[i];
    shards.row({number(i + 1), word(shard.name), number(shard.tensors), number(shard.payload_bytes),
                number(shard.header_bytes), word(shard_contents(inspection.accounting.shards[i]))});
  }
  HtmlTable straddlers({"Layer", "Expert", "Where it is cut (shard, last tensor in it)"});
  for (const Straddler& straddler : inspection.experts.straddlers) {
    straddlers.row({number(static_cast<uint64_t>(straddler.layer)),
                    number(static_cast<uint64_t>(straddler.expert)),
                    word(straddler_text(straddler))});
  }
  HtmlTable files({"File", "Role", "Bytes"});
  for (const InventoryFile& file : inspection.inventory.files) {
    files.row({word(file.path), word(role_name(file.role)), number(file.bytes)});
  }
  HtmlTable tokens({"Role", "Id", "Text", "Said by"});
  for (const SpecialToken& token : inspection.special_tokens) {
    tokens.row({word(token.role),
                token.id ? number(static_cast<uint64_t>(*token.id)) : word("none"),
                word(token.text), word(token.source)});
  }
  return "<h2>Where bytes and parameters go</h2>\n" + accounting_table(inspection.accounting) +
         "<h2>Tensors by family</h2>\n" + families.html() + "<h2>Layers</h2>\n" + layers.html() +
         "<h2>Shards</h2>\n" + shards.html() + "<h2>Experts that straddle shards</h2>\n" +
         straddlers.html() + "<h2>Files</h2>\n" + files.html() + "<h2>Special tokens</h2>\n" +
         tokens.html();
}

constexpr const char* kStyle = R"(
body{font:14px/1.45 system-ui,sans-serif;max-width:1140px;margin:2em auto;padding:0 1em;color:#222}
svg{width:100%;height:auto;background:#f4f4f4}svg text{font:10px sans-serif;fill:#111}
rect{stroke:#fff;stroke-width:.5}table{border-collapse:collapse;margin:.5em 0 1.5em}
td,th{padding:.15em .6em;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}
td.n{text-align:right;font-variant-numeric:tabular-nums}
th button{font:inherit;font-weight:bold;background:none;border:0;padding:0;cursor:pointer}
dt{float:left;clear:left;width:12em;font-weight:bold}.bad{color:#a00}li{margin-bottom:.4em}
)";

// Sorts a table by the column whose title is pressed; again: the other way round.
constexpr const char* kScript = R"(
document.querySelectorAll('table.sortable').forEach(function (table) {
  var body = table.tBodies[0], column = -1, way = 1;
  table.querySelectorAll('th button').forEach(function (button, i) {
    button.addEventListener('click', function () {
      way = column === i ? -way : 1;
      column = i;
      var key = function (row) {
        var cell = row.cells[i];
        return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
      };
      Array.from(body.rows).sort(function (a, b) {
        var x = key(a), y = key(b);
        if (typeof x === 'number' && typeof y === 'number') return way * (x - y);
        return way * String(x).localeCompare(String(y));
      }).forEach(function (row) { body.appendChild(row); });
    });
  });
});
)";

}  // namespace

std::string inspection_html(const Inspection& inspection) {
  const std::string name = escaped(inspection.name);
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + name +
         "</title><style>" + kStyle + "</style></head>\n<body>\n<h1>" + name + "</h1>\n" +
         facts(inspection) + warnings(inspection) + "<h2>Tensors by module</h2>\n" +
         Treemap().svg(inspection.tree) + "<h2>Layers (down) in shards (across)</h2>\n" +
         shard_map(inspection) + tables(inspection) + "<script>" + kScript +
         "</script>\n</body></html>\n";
}

}  // namespace fathom::cli
