// What decode and prefill graphs call their layers' tensors, and how they are bound.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "graph/tensor.h"

namespace fathom {

inline constexpr const char* kPastKeys = "past_k_";
inline constexpr const char* kPastValues = "past_v_";
inline constexpr const char* kNewKeys = "new_k_";
inline constexpr const char* kNewValues = "new_v_";

inline TensorView half_view(std::string_view name, std::vector<int64_t> shape, uint16_t* data) {
  return {name, ElementType::f16, std::move(shape), data};
}

}  // namespace fathom
