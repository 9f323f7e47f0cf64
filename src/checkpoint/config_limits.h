// Bounds of the numbers in config files.
#pragma once

#include <cstdint>

namespace fathom {

// Far above any real model, and low enough that no product of two sizes leaves 64 bits and no list
// of expected tensors fills the memory.
inline constexpr int64_t kMostWidth = int64_t{1} << 20;
inline constexpr int64_t kMostVocabulary = int64_t{1} << 24;
inline constexpr int64_t kMostLayers = 4096;
inline constexpr int64_t kMostExperts = 16384;
inline constexpr int64_t kMostExpertsInAll = int64_t{1} << 20;
// Rows of one matrix: heads times their size.
inline constexpr int64_t kMostProduct = int64_t{1} << 28;
inline constexpr int64_t kMostPositions = int64_t{1} << 30;
inline constexpr int64_t kMostTokenId = kMostVocabulary - 1;

}  // namespace fathom
