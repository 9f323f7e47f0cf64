// What the weights of a checkpoint take, by what they are for.
#pragma once

#include <array>
#include <cstdint>

#include "checkpoint/census.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_config.h"

namespace fathom {

// Bytes as stored, scales included, of the tensors that the model uses.
struct Footprint {
  std::array<uint64_t, kParts> main{};
  std::array<uint64_t, kParts> mtp{};  // the MTP layer's
  uint64_t of(Part part, bool with_mtp) const {
    const auto at = static_cast<size_t>(part);
    return main[at] + (with_mtp ? mtp[at] : 0);
  }
  uint64_t total(bool with_mtp) const;
};

// Tensors of layers that the config does not have, and those that no layer has, do not count.
Footprint footprint_of(const Checkpoint& checkpoint, const ModelConfig& config);

}  // namespace fathom
