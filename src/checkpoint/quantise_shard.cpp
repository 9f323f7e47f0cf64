#include "checkpoint/quantise_shard.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/fp8_check.h"
#include "checkpoint/packed_tensor.h"
#include "checkpoint/synth_layout.h"
#include "checkpoint/widen.h"
#include "numerics/fp8_e4m3.h"

namespace fathom {
namespace {

constexpr int64_t kRowsOfTask = 8;

}  // namespace

uint64_t QuantisedShardWriter::row_bytes(const QuantisedTensor& tensor) {
  return tensor.from->bytes / static_cast<uint64_t>(tensor.from->shape.at(0));
}

uint64_t QuantisedShardWriter::memory_bytes(std::span<const QuantisedTensor> tensors) {
  uint64_t widest = kPiece;
  uint64_t scales = 0;
  for (const QuantisedTensor& tensor : tensors) {
    if (tensor.bits > 0) widest = std::max(widest, row_bytes(tensor));
    if (tensor.from == nullptr) scales = std::max(scales, tensor.info.bytes);
    if (tensor.grid != nullptr) scales = std::max(scales, tensor.grid->bytes);
  }
  return kBuffers * (2 * widest + 2 * scales);
}

std::vector<QuantisedShardWriter::Piece> QuantisedShardWriter::cut(
    std::span<const QuantisedTensor> tensors) {
  std::vector<Piece> pieces;
  size_t matrices = 0;
  for (const QuantisedTensor& tensor : tensors) {
    if (tensor.from == nullptr) {  // scales, right behind their matrix
      pieces.push_back({&tensor, 0, 0, matrices});
      continue;
    }
    if (tensor.bits > 0) ++matrices;
    const uint64_t unit = tensor.bits > 0 ? row_bytes(tensor) : 1;
    const uint64_t step = std::max<uint64_t>(kPiece / unit, 1) * unit;
    for (uint64_t at = 0; at < tensor.from->bytes; at += step) {
      pieces.push_back({&tensor, at, std::min(step, tensor.from->bytes - at), matrices});
    }
  }
  return pieces;
}

void QuantisedShardWriter::read(const Piece& piece, size_t turn) {
  Buffer& into = in_[turn % kBuffers];
  if (into.size() < piece.bytes) into = Buffer(piece.bytes);
  if (piece.bytes == 0) return;
  const TensorInfo& from = *piece.tensor->from;
  checkpoint_.read(from, piece.begin, into.bytes().first(piece.bytes));
  checkpoint_.shards()[static_cast<size_t>(from.shard)].file.drop_cached(from.offset + piece.begin,
                                                                         piece.bytes);
}

// What the threads need before they work on a piece.
void QuantisedShardWriter::begin(const Piece& piece) {
  if (piece.tensor->bits == 0 || piece.begin > 0) return;
  Matrix& of = matrix(piece);
  const auto rows = static_cast<uint64_t>(piece.tensor->from->shape[0]);
  const auto cols = piece.tensor->from->shape[1];
  const PackedShape packed = packed_shape(piece.tensor->bits, static_cast<int64_t>(rows), cols);
  uint64_t scales = static_cast<uint64_t>(dtype_bytes(packed.scale_dtype));
  for (const int64_t size : packed.scale_shape) scales *= static_cast<uint64_t>(size);
  of.scales.resize(scales);
  of.grid.clear();
  if (piece.tensor->grid != nullptr) {
    of.grid.resize(piece.tensor->grid->bytes);
    checkpoint_.read(*piece.tensor->grid, of.grid);
    if (find_not_finite(piece.tensor->grid->dtype, of.grid)) {
      fail_input("{}: tensor {}: a scale is not a finite number", checkpoint_.folder(),
                 piece.tensor->grid->name);
    }
  }
}

void QuantisedShardWriter::widen_row(const Piece& piece, const std::byte* from, int64_t row,
                                     std::span<float> values) const {
  const TensorInfo& tensor = *piece.tensor->from;
  const auto cols = static_cast<int64_t>(values.size());
  if (tensor.dtype != Dtype::f8_e4m3) return widen(tensor.dtype, from, cols, values.data());
  const int64_t grid_cols = piece.tensor->grid->shape[1];
  const std::byte* scales = matrix(piece).grid.data() + row / block_.rows * grid_cols * 4;
  for (int64_t first = 0; first < cols; first += block_.cols) {
    float scale;
    std::memcpy(&scale, scales + first / block_.cols * 4, sizeof scale);
    const int64_t last = std::min(first + block_.cols, cols);
    for (int64_t i = first; i < last; ++i) {
      values[static_cast<size_t>(i)] = fp8_e4m3_to_float(static_cast<uint8_t>(from[i])) * scale;
    }
  }
}

// Rows [first, last) of the piece.
void QuantisedShardWriter::quantise(const Piece& piece, size_t turn, int64_t first, int64_t last) {
  const QuantisedTensor& tensor = *piece.tensor;
  const uint64_t from_row = row_bytes(tensor);
  const int64_t rows = tensor.from->shape[0];
  const auto to_row = tensor.info.bytes / static_cast<uint64_t>(rows);
  Matrix& of = matrix(piece);
  const uint64_t scale_row = of.scales.size() / static_cast<uint64_t>(rows);
  std::vector<float> values(static_cast<size_t>(tensor.from->shape[1]));
  const auto row0 = static_cast<int64_t>(piece.begin / from_row);
  for (int64_t i = first; i < last; ++i) {
    const auto at = static_cast<uint64_t>(i);
    const std::byte* from = in_[turn % kBuffers].data() + at * from_row;
    if (const auto bad = find_not_finite(tensor.from->dtype, {from, from_row})) {
      fail_input("{}: tensor {}: element {} is not a finite number", checkpoint_.folder(),
                 tensor.from->name, static_cast<uint64_t>(row0 + i) * values.size() + *bad);
    }
    widen_row(piece, from, row0 + i, values);
    quantise_row(tensor.bits, values, out_[turn % kBuffers].data() + at * to_row,
                 of.scales.data() + static_cast<uint64_t>(row0 + i) * scale_row);
  }
}

std::span<const std::byte> QuantisedShardWriter::result(const Piece& piece, size_t turn) const {
  if (piece.tensor->from == nullptr) return matrix(piece).scales;
  if (piece.tensor->bits == 0) return in_[turn % kBuffers].bytes().first(piece.bytes);
  return out_[turn % kBuffers].bytes().first(packed_bytes(piece));
}

uint64_t QuantisedShardWriter::packed_bytes(const Piece& piece) {
  const uint64_t rows = piece.bytes / row_bytes(*piece.tensor);
  return rows * (piece.tensor->info.bytes / static_cast<uint64_t>(piece.tensor->from->shape[0]));
}

void QuantisedShardWriter::write(const std::string& path, const std::string& header,
                                 std::span<const QuantisedTensor> tensors) {
  const std::vector<Piece> pieces = cut(tensors);
  OutputFile file(path);
  file.write(beginning_of_file(header));
  if (!pieces.empty()) read(pieces[0], 0);
  for (size_t i = 0; i <= pieces.size(); ++i) {
    if (cancel_ != nullptr) cancel_->throw_if_cancelled();
    int64_t rows = 0;
    if (i < pieces.size()) {
      const Piece& piece = pieces[i];
      begin(piece);
      if (piece.tensor->bits > 0 && piece.bytes > 0) {
        rows = static_cast<int64_t>(piece.bytes / row_bytes(*piece.tensor));
        Buffer& out = out_[i % kBuffers];
        const uint64_t needed = packed_bytes(piece);
        if (out.size() < needed) out = Buffer(needed);
      }
    }
    const int64_t tasks = (rows + kRowsOfTask - 1) / kRowsOfTask;
    pool_.parallel_for(tasks + 1, [&](int64_t index, int) {
      if (index > 0) {
        const int64_t first = (index - 1) * kRowsOfTask;
        quantise(pieces[i], i, first, std::min(first + kRowsOfTask, rows));
        return;
      }
      if (i > 0) file.write(result(pieces[i - 1], i - 1));
      if (i + 1 < pieces.size()) read(pieces[i + 1], i + 1);
    });
    if (i < pieces.size()) progress_.add(pieces[i].bytes);
  }
  file.commit();
}

}  // namespace fathom
