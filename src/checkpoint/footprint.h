// What the weights of a DeepseekV3 checkpoint take, by what they are for.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "checkpoint/hf_config.h"

namespace fathom {

enum class WeightFamily : uint8_t {
  embedding,
  attention,
  norms,
  dense_mlp,
  router,
  shared_experts,
  routed_experts,
  head,
  eh_proj,  // the MTP layer's own projection
  count
};
std::string_view family_name(WeightFamily family);

// Bytes as stored, scales included, of the tensors that the model uses.
struct Footprint {
  std::array<uint64_t, static_cast<size_t>(WeightFamily::count)> main{};
  std::array<uint64_t, static_cast<size_t>(WeightFamily::count)> mtp{};  // the MTP layer's
  uint64_t of(WeightFamily family, bool with_mtp) const {
    const auto at = static_cast<size_t>(family);
    return main[at] + (with_mtp ? mtp[at] : 0);
  }
  uint64_t total(bool with_mtp) const;
};

// Tensors of layers that the config does not have, and those that no layer has, do not count.
Footprint footprint_of(const Checkpoint& checkpoint, const DeepseekConfig& config);

}  // namespace fathom
