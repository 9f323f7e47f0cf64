#include "cli/inspect_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/html.h"
#include "cli/inspect.h"

namespace fathom::cli {
namespace {

constexpr double kWidth = 1100;
constexpr double kTreemapHeight = 560;
constexpr double kLetter = 6.8;  // most width of one in the pictures' size of text, on average

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

// A module on its way to being drawn; modules with one thing in them are drawn as that.
struct Drawn {
  const ModuleNode* node = nullptr;
  std::string path;   // "model.layers.*.mlp"
  std::string label;  // "layers 0-60": what tells it from those beside it
};

Drawn inside(const Drawn& parent, const ModuleNode& child) {
  const std::string dot = parent.path.empty() ? "" : ".";
  Drawn drawn = {&child, parent.path + dot + child.name, child.name};
  if (!child.indices.empty()) drawn.label = parent.node->name + " " + child.indices;
  while (drawn.node->children.size() == 1) {
    const ModuleNode& only = drawn.node->children.front();
    drawn.label =
        only.indices.empty() ? drawn.label + "." + only.name : drawn.label + " " + only.indices;
    drawn.path += "." + only.name;
    drawn.node = &only;
  }
  return drawn;
}

class Treemap {
 public:
  std::string svg(const ModuleNode& root) {
    svg_ = fmt::format(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Treemap\" class=\"treemap\">\n",
        kWidth, kTreemapHeight);
    add_children({&root, "", ""}, {0, 0, kWidth, kTreemapHeight}, 0);
    return svg_ + "</svg>\n";
  }

 private:
  static constexpr int kDeepest = 8;
  static constexpr double kTitle = 15;  // room for a module's name
  static constexpr double kEdge = 2;
  static constexpr double kLeastSide = 2;     // of a box that is drawn
  static constexpr double kLeastInside = 36;  // of a box whose children are drawn

  void add(const Drawn& drawn, Box box, int depth) {
    if (box.width < kLeastSide || box.height < kLeastSide) return;
    const bool parted = !drawn.node->children.empty() && depth < kDeepest &&
                        box.width >= kLeastInside && box.height >= kLeastInside;
    draw(drawn, box, parted);
    if (!parted) return;
    box = {box.x + kEdge, box.y + kTitle, box.width - 2 * kEdge, box.height - kTitle - kEdge};
    add_children(drawn, box, depth);
  }

  void add_children(const Drawn& parent, const Box& space, int depth) {
    std::vector<const ModuleNode*> children;
    std::vector<double> sizes;
    for (const ModuleNode& child : parent.node->children) {
      if (child.bytes == 0) continue;
      children.push_back(&child);
      sizes.push_back(static_cast<double>(child.bytes));
    }
    const std::vector<Box> boxes = squarified(sizes, space);
    for (size_t i = 0; i < children.size(); ++i) {
      add(inside(parent, *children[i]), boxes[i], depth + 1);
    }
  }

  void draw(const Drawn& drawn, const Box& box, bool parted) {
    const ModuleNode& node = *drawn.node;
    svg_ += fmt::format(
        "<g><title>{}: {} tensors, {} bytes</title><rect x=\"{:.1f}\" y=\"{:.1f}\" "
        "width=\"{:.1f}\" height=\"{:.1f}\" class=\"{}part-{}\"/>",
        escaped_html(drawn.path), grouped(node.tensors), grouped(node.bytes), box.x, box.y,
        box.width, box.height, parted ? "parted " : "", static_cast<int>(node.part));
    const auto letters = static_cast<double>(drawn.label.size());
    if (box.height >= kTitle && box.width > kLetter * letters + 6) {
      svg_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", box.x + 4, box.y + 11,
                          escaped_html(drawn.label));
    }
    svg_ += "</g>\n";
  }

  std::string svg_;
};

// A round distance between marks, so that there are about ten.
size_t mark_step(size_t count) {
  size_t step = 1;
  for (const size_t factor : {2, 5, 10, 20, 50, 100, 200, 500}) {
    if (count > 10 * step) step = factor;
  }
  return step;
}

}  // namespace

std::string treemap_svg(const ModuleNode& root) { return Treemap().svg(root); }

std::string shard_map_svg(const Inspection& inspection) {
  const auto& layers = inspection.accounting.layers;
  const size_t shards = inspection.scan.shards.size();
  if (layers.empty()) return "<p>No layers.</p>\n";
  constexpr double kRow = 8;
  constexpr double kLeft = 30;  // room for the layers' numbers
  constexpr double kTop = 16;   // and the shards'
  const double column = (kWidth - kLeft) / static_cast<double>(shards);
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Shard map\" class=\"shards\">\n",
      kWidth, kTop + kRow * static_cast<double>(layers.size()));
  for (size_t shard = 0; shard < shards; shard += mark_step(shards)) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"11\">{}</text>\n",
                       kLeft + column * static_cast<double>(shard), shard + 1);
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerRow& row = layers[i];
    const double y = kTop + kRow * static_cast<double>(i);
    if (i % mark_step(layers.size()) == 0) {
      svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\" class=\"layer\">{}</text>\n", kLeft - 5,
                         y + kRow, row.layer);
    }
    for (const auto& [shard, tensors] : row.shards) {
      const double share = static_cast<double>(tensors) / static_cast<double>(row.sum.tensors);
      svg += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" class=\"group-{}\" "
          "fill-opacity=\"{:.2f}\"><title>layer {}, shard {}: {} tensors</title></rect>\n",
          kLeft + column * shard, y, column, kRow, static_cast<int>(row.group), 0.35 + 0.65 * share,
          row.layer, shard + 1, grouped(tensors));
    }
  }
  return svg + "</svg>\n";
}

}  // namespace fathom::cli
