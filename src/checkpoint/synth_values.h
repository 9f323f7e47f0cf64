// Random values of tensors, each a function of seed, tensor name and place alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "checkpoint/safetensors.h"

namespace fathom {

class TensorValues {
 public:
  // `fan_in` is the number of columns of the matrix that a tensor of weights or scales belongs to.
  TensorValues(const TensorInfo& tensor, int64_t fan_in, uint64_t seed);

  // The tensor's bytes from `begin` on.
  void fill(uint64_t begin, std::span<std::byte> into) const;

 private:
  // Values are made in whole units, which every part of a tensor begins at the same places.
  static constexpr uint64_t kUnit = 4096;
  void fill_unit(uint64_t unit, uint8_t* into) const;

  uint64_t key_;
  Dtype dtype_;
  float middle_ = 0;
  float spread_ = 0;  // values lie in [middle - spread, middle + spread)
};

}  // namespace fathom
