// Tensors as graphs take and give them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fathom {

enum class ElementType { f32, f16, i32, i64, u8, other };

std::string_view element_name(ElementType type);  // "float32", "float16", ...
int64_t element_bytes(ElementType type);          // 0 for other

// A graph's input or output as the graph declares it.
struct TensorSpec {
  std::string name;
  ElementType type = ElementType::other;
  std::vector<int64_t> shape;  // -1: any

  bool is_static() const;
  int64_t elements() const;  // of a static shape
};

// "past_keys_0 float32 [1,2,256,16]", a dimension that may be anything as '?'.
std::string describe(const TensorSpec& spec);
std::string dims_text(const std::vector<int64_t>& shape);

// Memory that is bound to one input or output for one run.
struct TensorView {
  std::string_view name;
  ElementType type = ElementType::f32;
  std::vector<int64_t> shape;
  void* data = nullptr;

  int64_t elements() const;
};

}  // namespace fathom
