// What kinds of tensors a checkpoint holds, by their names alone; any architecture.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"

namespace fathom {

// What a tensor is for.
enum class Part : uint8_t {
  embedding,
  attention,
  norms,
  dense_mlp,
  router,
  shared_experts,
  routed_experts,
  mtp_projection,
  head,
  other,
  count
};
inline constexpr size_t kParts = static_cast<size_t>(Part::count);
std::string_view part_name(Part part);
// What a tensor is for whose name goes on with `rest` after its layer's number.
Part part_in_layer(std::string_view rest);

// A tensor's name taken apart.
struct NamePlace {
  int64_t layer = -1;   // in the decoder's stack; -1 outside of it
  int64_t expert = -1;  // N of "experts.N."; -1 elsewhere
  Part part = Part::other;
  bool scale = false;  // factors of a quantised weight, no parameters
  size_t rest = 0;     // where the name goes on after the layer's number, or the expert's
};

// Reads names of one checkpoint. Its decoder's stack is the numbered list with the most bytes
// ("model.layers." for most), so that a vision tower's layers are not taken for the decoder's.
class NameReader {
 public:
  explicit NameReader(const std::vector<TensorInfo>& tensors);
  NamePlace place(std::string_view name) const;
  const std::string& stack() const { return stack_; }  // "model.layers."; "" where there is none

 private:
  std::string stack_;
};

struct DtypeRow {
  Dtype dtype = Dtype::f32;
  size_t tensors = 0;
  uint64_t values = 0;
  uint64_t bytes = 0;
};
// Largest first.
std::vector<DtypeRow> census_by_dtype(const std::vector<TensorInfo>& tensors);

// Tensors whose names differ in layer and expert numbers only, of one dtype and shape.
struct FamilyRow {
  std::string family;  // "model.layers.*.mlp.experts.*.up_proj.weight"
  Dtype dtype = Dtype::f32;
  std::vector<int64_t> shape;
  size_t tensors = 0;
  uint64_t bytes = 0;
};
// Largest first.
std::vector<FamilyRow> census_by_family(const std::vector<TensorInfo>& tensors);

// Modules as their names nest, numbers collapsed.
struct ModuleNode {
  std::string name;         // one component: "mlp", "*"
  std::string indices;      // the numbers that "*" stands for: "0-60", "0-255"; "" elsewhere
  Part part = Part::other;  // of the largest tensors in it
  size_t tensors = 0;
  uint64_t bytes = 0;
  std::vector<ModuleNode> children;  // largest first; the leaves are tensors
};
ModuleNode module_tree(const std::vector<TensorInfo>& tensors);

// "0-2, 5, 7-9" of ascending numbers.
std::string ranges_text(const std::vector<int64_t>& ascending);

}  // namespace fathom
