// The inspection as one page. Everything that comes from files passes through escaped_html().
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/join.h"
#include "cli/html.h"
#include "cli/inspect.h"
#include "cli/inspect_pictures.h"

namespace fathom::cli {
namespace {

// A cell: what is shown, and where it is a number, what is sorted by.
struct Cell {
  std::string text;
  std::string key;
};
Cell word(std::string_view text) { return {escaped_html(text), ""}; }
Cell number(uint64_t value) { return {grouped(value), std::to_string(value)}; }
Cell size_in_gib(uint64_t bytes) { return {gib(bytes), std::to_string(bytes)}; }

class HtmlTable {
 public:
  explicit HtmlTable(std::vector<std::string> titles) : titles_(std::move(titles)) {}

  void row(const std::vector<Cell>& cells) {
    rows_ += "<tr>";
    numeric_.assign(cells.size(), false);
    for (size_t i = 0; i < cells.size(); ++i) {
      numeric_[i] = !cells[i].key.empty();
      rows_ += numeric_[i] ? "<td class=\"n\" data-v=\"" + cells[i].key + "\">" : "<td>";
      rows_ += cells[i].text + "</td>";
    }
    rows_ += "</tr>\n";
  }

  std::string html() const {
    if (rows_.empty()) return "<p>None.</p>\n";
    std::string head;
    for (size_t i = 0; i < titles_.size(); ++i) {
      head += fmt::format("<th scope=\"col\"{}><button>{}</button></th>",
                          numeric_[i] ? " class=\"n\"" : "", escaped_html(titles_[i]));
    }
    return "<div class=\"wide\"><table class=\"sortable\"><thead><tr>" + head +
           "</tr></thead><tbody>\n" + rows_ + "</tbody></table></div>\n";
  }

 private:
  std::vector<std::string> titles_;
  std::string rows_;
  std::vector<bool> numeric_;  // columns of the last row
};

std::string facts(const Inspection& inspection) {
  const Accounting& accounting = inspection.accounting;
  std::string html = "<dl>";
  const auto fact = [&html](std::string_view name, const std::string& value) {
    html += fmt::format("<dt>{}</dt><dd>{}</dd>", name, escaped_html(value));
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
                        escaped_html(trap.title), escaped_html(trap.detail));
  }
  html += "</ul>\n";
  if (inspection.problems.empty()) return html;
  html += "<h2>Wrong</h2>\n<ul>\n";
  for (const std::string& problem : inspection.problems) {
    html += "<li class=\"bad\">" + escaped_html(problem) + "</li>\n";
  }
  return html + "</ul>\n";
}

std::string legend_entry(const std::string& colour, std::string_view name) {
  return fmt::format(
      "<li><svg viewBox=\"0 0 1 1\" aria-hidden=\"true\"><rect width=\"1\" height=\"1\" "
      "class=\"{}\"/></svg>{}</li>",
      colour, name);
}

// What is in the checkpoint, in the pictures' colours.
std::string part_legend(const Accounting& accounting) {
  std::string html = "<ul class=\"legend\">";
  for (size_t part = 0; part < kParts; ++part) {
    const auto which = static_cast<Part>(part);
    if (accounting.of(which).bytes == 0) continue;
    html += legend_entry(fmt::format("part-{}", part), part_name(which));
  }
  return html + "</ul>\n";
}

std::string group_legend(const Accounting& accounting) {
  std::string html = "<ul class=\"legend\">";
  for (const Group group : {Group::dense_layers, Group::moe_layers, Group::mtp_layers}) {
    if (accounting.of(group).bytes == 0) continue;
    html += legend_entry(fmt::format("group-{}", static_cast<int>(group)), group_name(group));
  }
  return html + "<li>fainter: a smaller share of the layer's tensors</li></ul>\n";
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
:root{color-scheme:light dark;--paper:#fbfbf9;--ink:#1b2326;--soft:#5a666a;--line:#dde1dd;--sunk:#f2f3f0;--accent:#0e6674;--bad:#a3322a;--parted:.5;
--p0:#e9c46a;--p1:#8fb8de;--p2:#c9cfd1;--p3:#a8d5a2;--p4:#f2a79b;--p5:#c7b1e0;--p6:#8ccfc9;--p7:#e6b3cf;--p8:#dcd07a;--p9:#d5d9d3;--mark:#11181a}
@media (prefers-color-scheme:dark){:root{--paper:#12181b;--ink:#dfe6e8;--soft:#95a4a9;--line:#2b363b;--sunk:#0d1214;--accent:#6cc3cf;--bad:#f0938a;--parted:.75}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;max-width:1140px;margin:0 auto;padding:2em 1em 4em;color:var(--ink);background:var(--paper)}
h1{font-size:1.7em;margin:0 0 .6em;overflow-wrap:anywhere}h2{font-size:1.15em;margin:2.2em 0 .7em}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2em 1.5em;margin:0}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
ul{padding-left:1.2em}li{margin-bottom:.5em;overflow-wrap:anywhere}.bad{color:var(--bad)}
svg{display:block;width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:var(--mark);pointer-events:none}
.treemap rect{stroke:var(--paper);stroke-width:1}.treemap .parted{fill-opacity:var(--parted)}
.treemap g:hover>rect{stroke:var(--mark);stroke-width:1.5}
.shards{background:var(--sunk)}.shards text{fill:var(--soft);font-size:10px}.shards .layer{text-anchor:end}
.legend{display:flex;flex-wrap:wrap;gap:.2em 1.4em;margin:.6em 0 0;padding:0;list-style:none;color:var(--soft);font-size:.9em}
.legend svg{display:inline-block;width:.8em;height:.8em;margin-right:.45em}
.part-0{fill:var(--p0)}.part-1{fill:var(--p1)}.part-2{fill:var(--p2)}.part-3,.group-1{fill:var(--p3)}.part-4{fill:var(--p4)}
.part-5{fill:var(--p5)}.part-6,.group-2{fill:var(--p6)}.part-7,.group-3{fill:var(--p7)}.part-8{fill:var(--p8)}.part-9{fill:var(--p9)}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.92em}
td,th{padding:.25em 1.4em .25em 0;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
.n{text-align:right;font-variant-numeric:tabular-nums}tbody tr:hover{background:var(--sunk)}
th button{font:inherit;font-weight:600;color:inherit;background:none;border:0;padding:0;cursor:pointer;white-space:nowrap}
th button:hover{color:var(--accent)}
th[aria-sort=ascending] button::after{content:" \2191"}th[aria-sort=descending] button::after{content:" \2193"}
)";

// Sorts a table by the column whose title is pressed; again: the other way round.
constexpr const char* kScript = R"(
document.querySelectorAll('table.sortable').forEach(function (table) {
  var body = table.tBodies[0], sorted = null;
  table.querySelectorAll('th').forEach(function (title, i) {
    title.firstChild.addEventListener('click', function () {
      var up = title.getAttribute('aria-sort') !== 'ascending';
      if (sorted) sorted.removeAttribute('aria-sort');
      sorted = title;
      title.setAttribute('aria-sort', up ? 'ascending' : 'descending');
      var key = function (row) {
        var cell = row.cells[i];
        return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
      };
      Array.from(body.rows).sort(function (a, b) {
        var x = key(a), y = key(b), way = up ? 1 : -1;
        if (typeof x === 'number' && typeof y === 'number') return way * (x - y);
        return way * String(x).localeCompare(String(y), 'en', {numeric: true});
      }).forEach(function (row) { body.appendChild(row); });
    });
  });
});
)";

// Whoever opens the page asks nobody for anything.
constexpr const char* kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

}  // namespace

std::string inspection_html(const Inspection& inspection) {
  const std::string name = escaped_html(inspection.name);
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"" +
         std::string(kPolicy) +
         "\"><meta name=\"viewport\" content=\"width=device-width\"><title>" + name +
         "</title><style>" + kStyle + "</style></head>\n<body>\n<h1>" + name + "</h1>\n" +
         facts(inspection) + warnings(inspection) + "<h2>Tensors by module</h2>\n" +
         treemap_svg(inspection.tree) + part_legend(inspection.accounting) +
         "<h2>Layers (down) in shards (across)</h2>\n" + shard_map_svg(inspection) +
         group_legend(inspection.accounting) + tables(inspection) + "<script>" + kScript +
         "</script>\n</body></html>\n";
}

}  // namespace fathom::cli
