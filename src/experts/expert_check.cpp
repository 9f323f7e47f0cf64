#include "experts/expert_check.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "base/error.h"
#include "checkpoint/fp8_check.h"

namespace fathom {
namespace {

// A whole number of elements of any dtype.
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

}  // namespace

void check_expert_values(const ExpertLayout& layout, ExpertId id, const std::byte* slot,
                         ThreadPool& pool) {
  struct Piece {
    ExpertLayout::Tensor tensor;
    uint64_t begin;
    std::span<const std::byte> bytes;
  };
  std::array<std::optional<ExpertLayout::Tensor>, ExpertLayout::kTensors> tensors;
  std::array<int64_t, ExpertLayout::kTensors + 1> first_piece{};
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i] = layout.tensor(id, i, false);
    const uint64_t bytes = tensors[i] ? tensors[i]->bytes : 0;
    first_piece[i + 1] =
        first_piece[i] + static_cast<int64_t>((bytes + kPieceBytes - 1) / kPieceBytes);
  }
  const auto piece_of = [&](int64_t index) {
    const auto next = std::upper_bound(first_piece.begin(), first_piece.end(), index);
    const auto i = static_cast<size_t>(next - first_piece.begin()) - 1;
    const ExpertLayout::Tensor& tensor = *tensors[i];
    const uint64_t begin = static_cast<uint64_t>(index - first_piece[i]) * kPieceBytes;
    return Piece{tensor,
                 begin,
                 {slot + tensor.slot_offset + begin, std::min(kPieceBytes, tensor.bytes - begin)}};
  };

  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> bad{kNone};  // the first piece with such a value
  pool.parallel_for(first_piece.back(), [&](int64_t index, int) {
    const Piece piece = piece_of(index);
    if (!find_not_finite(piece.tensor.dtype, piece.bytes)) return;
    int64_t before = bad.load();
    while (index < before && !bad.compare_exchange_weak(before, index)) {
    }
  });
  if (bad == kNone) return;

  const Piece piece = piece_of(bad);
  const ExpertLayout::Tensor& tensor = piece.tensor;
  const auto size = static_cast<uint64_t>(dtype_bytes(tensor.dtype));
  const uint64_t at = piece.begin + *find_not_finite(tensor.dtype, piece.bytes) * size;
  fail_input("{}: tensor {}: element {} (file offset {}) is {}",
             layout.paths()[static_cast<size_t>(tensor.file)],
             layout.tensor_at(id, tensor.file, tensor.offset), at / size, tensor.offset + at,
             tensor.dtype == Dtype::f8_e4m3 ? "the FP8 code for NaN" : "not a finite number");
}

}  // namespace fathom
