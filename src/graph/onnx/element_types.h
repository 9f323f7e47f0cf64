// Types of elements by their numbers in onnx.proto (TensorProto.DataType).
#pragma once

#include <cstdint>

#include "graph/tensor.h"

namespace fathom::onnx {

inline int64_t onnx_type(ElementType type) {
  switch (type) {
    case ElementType::f32:
      return 1;
    case ElementType::u8:
      return 2;
    case ElementType::i32:
      return 6;
    case ElementType::i64:
      return 7;
    case ElementType::f16:
      return 10;
    case ElementType::other:
      break;
  }
  return 0;
}

}  // namespace fathom::onnx
