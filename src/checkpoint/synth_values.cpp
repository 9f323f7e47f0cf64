#include "checkpoint/synth_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "checkpoint/deepseek_tensors.h"
#include "numerics/fp8_e4m3.h"
#include "numerics/half.h"

namespace fathom {
namespace {

// Bijective mixing of 64 bits: every input bit changes every output bit half of the time.
constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t key_of(std::string_view name, uint64_t seed) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char letter : name) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  }
  return mix(mix(hash) + seed);
}

// Any byte is a good code but for the two that are no number.
constexpr uint8_t fp8_code(uint8_t random) {
  return static_cast<uint8_t>(random ^ ((random & 0x7f) == 0x7f ? 0x40 : 0));
}

// Root mean square of the codes that fp8_code() makes of random bytes.
double fp8_rms() {
  double sum = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const double value = fp8_e4m3_to_float(fp8_code(static_cast<uint8_t>(byte)));
    sum += value * value;
  }
  return std::sqrt(sum / 256);
}

// Half the width of an even distribution with root mean square 1.
constexpr double kEvenSpread = 1.7320508075688772;

// The MTP layer's embedding and head are copies of the main ones.
std::string_view source_of(std::string_view name) {
  const bool in_layer = name.starts_with("model.layers.");
  if (in_layer && name.ends_with(".embed_tokens.weight")) return names::kEmbedding;
  if (in_layer && name.ends_with(".shared_head.head.weight")) return names::kHead;
  return name;
}

}  // namespace

TensorValues::TensorValues(const TensorInfo& tensor, int64_t fan_in, uint64_t seed)
    : key_(key_of(source_of(tensor.name), seed)), dtype_(tensor.dtype) {
  const std::string_view name = source_of(tensor.name);
  // Rows of root mean square 1 / sqrt(fan_in) keep the size of what they are multiplied with.
  const double row = 1 / std::sqrt(static_cast<double>(fan_in));
  double middle = 0;
  double spread = kEvenSpread * row;
  if (name.ends_with(names::kScaleSuffix)) {
    middle = row / fp8_rms();
    spread = middle / 4;
  } else if (name == names::kEmbedding) {
    spread = kEvenSpread;
  } else if (name == names::kHead) {
    spread = 3 * kEvenSpread * row;  // so that some tokens stand out
  } else if (name.ends_with(".e_score_correction_bias")) {
    spread = 0.02;
  } else if (name.ends_with(".bias")) {
    spread = 0.05;
  } else if (name.ends_with(".mlp.gate.weight")) {
    spread = 1.5 * kEvenSpread * row;  // so that scores lie apart
  } else if (tensor.shape.size() == 1) {
    middle = 1;  // a norm
    spread = 0.1;
  }
  middle_ = static_cast<float>(middle);
  spread_ = static_cast<float>(spread);
}

void TensorValues::fill_unit(uint64_t unit, uint8_t* into) const {
  constexpr size_t kWords = kUnit / 8;
  uint64_t words[kWords];
  for (size_t i = 0; i < kWords; ++i) {
    words[i] = mix(key_ + (unit * kWords + i + 1) * 0x9e3779b97f4a7c15u);
  }
  if (dtype_ == Dtype::f8_e4m3) {
    std::memcpy(into, words, kUnit);
    for (size_t i = 0; i < kUnit; ++i) into[i] = fp8_code(into[i]);
  } else if (dtype_ == Dtype::bf16) {
    int16_t random[kUnit / 2];
    std::memcpy(random, words, kUnit);
    uint16_t values[kUnit / 2];
    for (size_t i = 0; i < kUnit / 2; ++i) {
      values[i] = float_to_bf16(middle_ + spread_ * (static_cast<float>(random[i]) / 32768.0f));
    }
    std::memcpy(into, values, kUnit);
  } else {
    int32_t random[kUnit / 4];
    std::memcpy(random, words, kUnit);
    float values[kUnit / 4];
    for (size_t i = 0; i < kUnit / 4; ++i) {
      values[i] = middle_ + spread_ * (static_cast<float>(random[i]) / 2147483648.0f);
    }
    std::memcpy(into, values, kUnit);
  }
}

void TensorValues::fill(uint64_t begin, std::span<std::byte> into) const {
  uint8_t unit[kUnit];
  while (!into.empty()) {
    const uint64_t within = begin % kUnit;
    const size_t count = static_cast<size_t>(std::min<uint64_t>(kUnit - within, into.size()));
    fill_unit(begin / kUnit, unit);
    std::memcpy(into.data(), unit + within, count);
    into = into.subspan(count);
    begin += count;
  }
}

}  // namespace fathom
