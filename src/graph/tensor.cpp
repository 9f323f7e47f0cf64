#include "graph/tensor.h"

#include <algorithm>

namespace fathom {
namespace {

int64_t product(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;
  return count;
}

}  // namespace

std::string_view element_name(ElementType type) {
  switch (type) {
    case ElementType::f32:
      return "float32";
    case ElementType::f16:
      return "float16";
    case ElementType::i32:
      return "int32";
    case ElementType::i64:
      return "int64";
    case ElementType::u8:
      return "uint8";
    case ElementType::other:
      break;
  }
  return "another type";
}

int64_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::f32:
    case ElementType::i32:
      return 4;
    case ElementType::f16:
      return 2;
    case ElementType::i64:
      return 8;
    case ElementType::u8:
      return 1;
    case ElementType::other:
      break;
  }
  return 0;
}

bool TensorSpec::is_static() const {
  return std::all_of(shape.begin(), shape.end(), [](int64_t dim) { return dim >= 0; });
}

int64_t TensorSpec::elements() const { return product(shape); }
int64_t TensorView::elements() const { return product(shape); }

std::string dims_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ",";
    text += shape[i] < 0 ? "?" : std::to_string(shape[i]);
  }
  return text + "]";
}

std::string describe(const TensorSpec& spec) {
  return spec.name + " " + std::string(element_name(spec.type)) + " " + dims_text(spec.shape);
}

}  // namespace fathom
