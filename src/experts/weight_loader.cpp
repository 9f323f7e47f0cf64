#include "experts/weight_loader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/extent_reader.h"
#include "base/join.h"
#include "base/progress.h"
#include "base/units.h"
#include "checkpoint/deepseek_tensors.h"
#include "checkpoint/fp8_check.h"
#include "checkpoint/packed_tensor.h"

namespace fathom {
namespace {

// One read: large tensors are cut, small neighbours come together.
constexpr uint64_t kReadBytes = uint64_t{4} << 20;
constexpr int kReadsInFlight = 4;
static_assert(kReadBytes * kReadsInFlight == WeightLoader::kLandingBytes);
// Bytes that nobody wants are read along where what follows them is this near.
constexpr uint64_t kMostGap = uint64_t{64} << 10;
// A multiple of every element's size.
constexpr uint64_t kCut = 16;
// What one thread checks and copies at a time.
constexpr uint64_t kTakeBytes = uint64_t{256} << 10;

}  // namespace

WeightFormat weight_format_of(const TensorInfo& tensor) {
  switch (tensor.dtype) {
    case Dtype::f8_e4m3:
      return WeightFormat::fp8_block;
    case Dtype::bf16:
      return WeightFormat::bf16;
    case Dtype::f16:
      return WeightFormat::f16;
    case Dtype::f32:
      return WeightFormat::f32;
    default:
      fail_input("{}: dtype {} is no weight format", tensor.name, dtype_name(tensor.dtype));
  }
}

WeightFormat weight_format_of(const TensorInfo& tensor, int64_t rows, int64_t cols) {
  if (tensor.dtype != Dtype::i8 && tensor.dtype != Dtype::u8) return weight_format_of(tensor);
  switch (packed_bits(tensor, rows, cols)) {
    case 8:
      return WeightFormat::int8_row;
    case 4:
      return WeightFormat::int4;
    case 3:
      return WeightFormat::int3;
    case 2:
      return WeightFormat::int2;
    default:
      fail_input("{}: {} {} is no packed form of a {}x{} matrix", tensor.name,
                 dtype_name(tensor.dtype), shape_text(tensor.shape), rows, cols);
  }
}

uint64_t matrix_bytes(WeightFormat format, int64_t rows, int64_t cols) {
  WeightView view;
  view.format = format;
  view.cols = cols;
  return static_cast<uint64_t>(rows * (view.row_bytes() + view.row_scale_bytes()));
}

const TensorInfo& WeightLoader::tensor(const std::string& name) const {
  const TensorInfo* found = checkpoint_->find(name);
  if (found == nullptr) fail_input("{}: no tensor {}", checkpoint_->folder(), name);
  return *found;
}

std::byte* WeightLoader::add(const TensorInfo& tensor) {
  std::byte* to = memory_.emplace_back(tensor.bytes).data();
  items_.push_back({&tensor, to});
  bytes_ += tensor.bytes;
  return to;
}

WeightView WeightLoader::matrix(const std::string& name, int64_t cols) {
  const TensorInfo& weight = tensor(name);
  WeightView view;
  view.rows = weight.shape.at(0);
  view.cols = cols > 0 ? cols : weight.shape.at(1);
  view.format = weight_format_of(weight, view.rows, view.cols);
  view.data = add(weight);
  if (view.format == WeightFormat::fp8_block) {
    const TensorInfo& scale = tensor(name + std::string(names::kScaleSuffix));
    view.scale = add(scale);
    view.scale_cols = scale.shape.at(1);
    view.block_rows = block_rows_;
    view.block_cols = block_cols_;
  } else if (view.has_scales()) {
    const std::byte* scales = add(tensor(name + std::string(kPackedScaleSuffix)));
    view = view.format == WeightFormat::int8_row
               ? WeightView::int8_rows(view.rows, view.cols, view.data, scales)
               : WeightView::levels(view.format, view.rows, view.cols, view.data, scales);
  }
  return view;
}

uint64_t WeightLoader::Item::row_bytes() const {
  return tensor->bytes / static_cast<uint64_t>(tensor->shape.at(0));
}

WeightView WeightLoader::quantised_matrix(const std::string& name, WeightFormat to, int64_t cols) {
  const TensorInfo& stored = tensor(name);
  const int64_t rows = stored.shape.at(0);
  if (cols == 0) cols = stored.shape.at(1);
  const WeightFormat format = weight_format_of(stored, rows, cols);
  if (format == to) return matrix(name, cols);
  if (format == WeightFormat::fp8_block || level_bits(format) > 0 ||
      format == WeightFormat::int8_row) {
    fail_input("{}: tensor {}: {} has {} bits already", checkpoint_->folder(), name,
               dtype_name(stored.dtype), level_bits(format) > 0 ? level_bits(format) : 8);
  }
  WeightView view = WeightView::levels(to, rows, cols, nullptr, nullptr);
  if (to == WeightFormat::int8_row) view = WeightView::int8_rows(rows, cols, nullptr, nullptr);
  std::byte* data = memory_.emplace_back(static_cast<size_t>(rows * view.row_bytes())).data();
  std::byte* scales =
      memory_.emplace_back(static_cast<size_t>(rows * view.row_scale_bytes())).data();
  items_.push_back({&stored, data, scales, to});
  bytes_ += stored.bytes;
  if (rows > 0 && items_.back().row_bytes() > kReadBytes) {
    fail_input("{}: tensor {}: rows of {} are too wide to be quantised", checkpoint_->folder(),
               name, format_size(items_.back().row_bytes()));
  }
  view.data = data;
  view.scale = scales;
  return view;
}

const float* WeightLoader::vector(const std::string& name) {
  const TensorInfo& stored = tensor(name);
  const std::byte* from = add(stored);
  const int64_t count = static_cast<int64_t>(stored.bytes) / dtype_bytes(stored.dtype);
  auto* to = reinterpret_cast<float*>(
      memory_.emplace_back(static_cast<size_t>(count) * sizeof(float)).data());
  widenings_.push_back({&stored, from, to});
  return to;
}

// In the order of the files: neighbours on the disk are read one after the other.
std::vector<WeightLoader::Read> WeightLoader::plan_reads() {
  std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
    if (a.tensor->shard != b.tensor->shard) return a.tensor->shard < b.tensor->shard;
    return a.tensor->offset < b.tensor->offset;
  });
  std::vector<Read> reads;
  for (const Item& item : items_) {
    const TensorInfo& tensor = *item.tensor;
    for (uint64_t begin = 0; begin < tensor.bytes;) {
      const uint64_t offset = tensor.offset + begin;
      // Cut between elements, or between rows.
      const uint64_t cut = item.scales != nullptr ? item.row_bytes() : kCut;
      const auto fits = [&](uint64_t room) {
        return tensor.bytes - begin <= room ? tensor.bytes - begin : room / cut * cut;
      };
      const bool joins = !reads.empty() && reads.back().shard == tensor.shard &&
                         offset >= reads.back().offset &&  // not where a tensor is taken twice
                         offset <= reads.back().offset + reads.back().bytes + kMostGap &&
                         offset < reads.back().offset + kReadBytes &&
                         fits(kReadBytes - (offset - reads.back().offset)) > 0;
      if (!joins) reads.push_back({tensor.shard, offset, 0, {}});
      Read& read = reads.back();
      const uint64_t at = offset - read.offset;
      const uint64_t bytes = fits(kReadBytes - at);
      read.parts.push_back({&item, begin, bytes, at});
      read.bytes = std::max(read.bytes, at + bytes);
      begin += bytes;
    }
  }
  return reads;
}

// Checks what has landed and copies it to where it belongs.
void WeightLoader::take(const Read& read, const std::byte* landed, ThreadPool& pool) const {
  for (const Part& part : read.parts) {
    if (part.item->scales != nullptr) {
      take_quantised(part, landed + part.at, pool);
    } else {
      take_stored(part, landed + part.at, pool);
    }
  }
}

void WeightLoader::take_stored(const Part& part, const std::byte* landed, ThreadPool& pool) const {
  const auto pieces = static_cast<int64_t>((part.bytes + kTakeBytes - 1) / kTakeBytes);
  pool.parallel_for(pieces, [&](int64_t piece, int) {
    const uint64_t first = static_cast<uint64_t>(piece) * kTakeBytes;
    const uint64_t count = std::min(kTakeBytes, part.bytes - first);
    std::byte* to = part.item->to + part.begin + first;
    std::memcpy(to, landed + first, count);
    check_finite(*part.item->tensor, part.begin + first, {to, count});
  });
}

void WeightLoader::take_quantised(const Part& part, const std::byte* landed,
                                  ThreadPool& pool) const {
  const Item& item = *part.item;
  const uint64_t row_bytes = item.row_bytes();
  const uint64_t rows = part.bytes / row_bytes;
  const uint64_t first_row = part.begin / row_bytes;
  const uint64_t step = std::max<uint64_t>(kTakeBytes / row_bytes, 1);
  const int64_t cols = item.tensor->shape.at(1);
  WeightView made;
  made.format = item.made;
  made.cols = cols;
  const int bits = item.made == WeightFormat::int8_row ? 8 : level_bits(item.made);
  const auto row_to = static_cast<uint64_t>(made.row_bytes());
  const auto row_scales = static_cast<uint64_t>(made.row_scale_bytes());
  pool.parallel_for(static_cast<int64_t>((rows + step - 1) / step), [&](int64_t piece, int) {
    std::vector<float> values(static_cast<size_t>(cols));
    const uint64_t first = static_cast<uint64_t>(piece) * step;
    for (uint64_t i = first; i < std::min(first + step, rows); ++i) {
      const std::byte* from = landed + i * row_bytes;
      check_finite(*item.tensor, part.begin + i * row_bytes, {from, row_bytes});
      widen(item.tensor->dtype, from, cols, values.data());
      const uint64_t row = first_row + i;
      quantise_row(bits, values, item.to + row * row_to, item.scales + row * row_scales);
    }
  });
}

// `bytes` begin at byte `begin` of the tensor.
void WeightLoader::check_finite(const TensorInfo& tensor, uint64_t begin,
                                std::span<const std::byte> bytes) const {
  const std::optional<uint64_t> at = find_not_finite(tensor.dtype, bytes);
  if (!at) return;
  const auto size = static_cast<uint64_t>(dtype_bytes(tensor.dtype));
  const uint64_t element = begin / size + *at;
  fail_input("{}: tensor {}: element {} (file offset {}) is {}",
             checkpoint_->shards()[static_cast<size_t>(tensor.shard)].file.path(), tensor.name,
             element, tensor.offset + element * size,
             tensor.dtype == Dtype::f8_e4m3 ? "the FP8 code for NaN" : "not a finite number");
}

void WeightLoader::load(ThreadPool& pool, const std::string& label, const CancelToken* cancel) {
  const std::vector<Read> reads = plan_reads();
  if (!reads.empty()) {
    ExtentReaderOptions options;
    for (const Shard& shard : checkpoint_->shards()) options.paths.push_back({shard.file.path()});
    options.depth = kReadsInFlight;
    options.piece_bytes = kReadBytes;
    // Landing places go after the reader, which may still be writing to them when an error ends
    // this.
    std::vector<Buffer> landings;
    const std::unique_ptr<ExtentReader> reader = open_extent_reader(options);
    const auto extent = [&reads](size_t i) {
      return Extent{reads[i].shard, reads[i].offset, reads[i].bytes};
    };
    const auto landing = [&landings](size_t i) { return landings[i % kReadsInFlight].data(); };
    for (int i = 0; i < kReadsInFlight; ++i) {
      landings.emplace_back(kReadBytes + 2 * ExtentReader::kBlock);
    }
    Progress progress(label, bytes_, ProgressUnit::bytes);
    size_t started = 0;
    std::array<bool, kReadsInFlight> landed{};
    for (size_t i = 0; i < reads.size(); ++i) {
      while (started < reads.size() && started < i + kReadsInFlight) {
        reader->start(started, extent(started), landing(started), ReadPriority::demand);
        ++started;
      }
      while (!landed[i % kReadsInFlight]) {
        if (cancel != nullptr) cancel->throw_if_cancelled();
        const std::optional<ExtentReader::Finished> finished = reader->next(true);
        if (finished->failure) {
          fail(ErrorKind::io, "{}: cannot be read at offset {}: {}", finished->failure->path,
               finished->failure->offset, finished->failure->problem);
        }
        landed[finished->ticket % kReadsInFlight] = true;
      }
      take(reads[i], landing(i) + ExtentReader::landing_offset(extent(i)), pool);
      landed[i % kReadsInFlight] = false;
      progress.add(std::accumulate(reads[i].parts.begin(), reads[i].parts.end(), uint64_t{0},
                                   [](uint64_t sum, const Part& p) { return sum + p.bytes; }));
    }
  }
  for (const Widening& w : widenings_) {
    const int64_t count = static_cast<int64_t>(w.tensor->bytes) / dtype_bytes(w.tensor->dtype);
    widen(w.tensor->dtype, w.from, count, w.to);
  }
  items_.clear();
  widenings_.clear();
}

void widen(WeightFormat format, const std::byte* from, int64_t count, float* to) {
  widen(format == WeightFormat::f32    ? Dtype::f32
        : format == WeightFormat::bf16 ? Dtype::bf16
                                       : Dtype::f16,
        from, count, to);
}

}  // namespace fathom
