#include "graph/export/weight_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/buffer.h"
#include "base/error.h"
#include "base/join.h"
#include "numerics/half.h"

namespace fathom {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr int64_t kStripValues = int64_t{1} << 20;

template <typename T>
T load_at(std::span<const std::byte> bytes, int64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

std::function<float(int64_t)> stored_values(const TensorInfo& tensor,
                                            std::span<const std::byte> bytes) {
  switch (tensor.dtype) {
    case Dtype::bf16:
      return [bytes](int64_t i) { return bf16_to_float(load_at<uint16_t>(bytes, i)); };
    case Dtype::f16:
      return [bytes](int64_t i) { return fp16_to_float(load_at<uint16_t>(bytes, i)); };
    case Dtype::f32:
      return [bytes](int64_t i) { return load_at<float>(bytes, i); };
    default:
      fail_input("tensor {}: {} is none of BF16, F16, F32, which can be exported", tensor.name,
                 dtype_name(tensor.dtype));
  }
}

WeightFile::WeightFile(const std::string& folder, const std::string& name, ElementType type)
    : name_(name), type_(type), file_(folder + "/" + name) {}

onnx::ExternalTensor WeightFile::begin(const std::string& name, const std::vector<int64_t>& shape) {
  const uint64_t padding = (kAlignment - offset_ % kAlignment) % kAlignment;
  const std::array<std::byte, kAlignment> zeros{};
  file_.write(std::span(zeros).first(padding));
  offset_ += padding;
  onnx::ExternalTensor tensor{name, type_, shape, name_, offset_, 0};
  tensor.bytes = static_cast<uint64_t>(element_bytes(type_));
  for (const int64_t dim : shape) tensor.bytes *= static_cast<uint64_t>(dim);
  return tensor;
}

void WeightFile::put(std::span<const float> values, const std::string& what) {
  if (type_ == ElementType::f32) {
    file_.write(std::as_bytes(values));
    offset_ += values.size_bytes();
    return;
  }
  halves_.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    halves_[i] = float_to_fp16(values[i]);
    if ((halves_[i] & 0x7c00u) == 0x7c00u) {
      fail_input("tensor {}: the value {} does not fit into float16", what, values[i]);
    }
  }
  file_.write(std::as_bytes(std::span(halves_)));
  offset_ += halves_.size() * sizeof(uint16_t);
}

onnx::ExternalTensor WeightFile::add(const std::string& name, const std::vector<int64_t>& shape,
                                     const std::vector<float>& values) {
  const onnx::ExternalTensor tensor = begin(name, shape);
  put(values, name);
  return tensor;
}

onnx::ExternalTensor WeightFile::add(const Checkpoint& checkpoint, const Source& source,
                                     const CancelToken* cancel) {
  const TensorInfo* info = checkpoint.find(source.tensor);
  if (info == nullptr) {
    fail_input("{}: there is no tensor {}", checkpoint.folder(), source.tensor);
  }
  if (info->shape != source.shape) {
    fail_input("{}: tensor {}: its shape is {} and not {} as config.json says", checkpoint.folder(),
               source.tensor, shape_text(info->shape), shape_text(source.shape));
  }
  Buffer stored(info->bytes);
  checkpoint.read(*info, stored.bytes());
  const auto value = stored_values(*info, stored.bytes());
  const auto scale = static_cast<float>(source.scale);

  const int64_t rows = source.shape.size() == 2 ? source.shape[0] : 1;
  const int64_t cols = source.shape.back();
  const int64_t lines = source.transposed ? cols : rows;  // of what is written
  const int64_t width = source.transposed ? rows : cols;
  const std::vector<int64_t> shape =
      source.transposed ? std::vector<int64_t>{cols, rows} : source.shape;
  const onnx::ExternalTensor tensor = begin(source.as.empty() ? source.tensor : source.as, shape);
  const int64_t strip = std::max<int64_t>(1, kStripValues / width);
  std::vector<float> out;
  for (int64_t first = 0; first < lines; first += strip) {
    if (cancel != nullptr) cancel->throw_if_cancelled();
    const int64_t count = std::min(strip, lines - first);
    out.resize(static_cast<size_t>(count * width));
    if (source.transposed) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < count; ++i) {
          out[static_cast<size_t>(i * width + r)] = value(r * cols + first + i) * scale;
        }
      }
    } else {
      for (int64_t i = 0; i < count * width; ++i) {
        out[static_cast<size_t>(i)] = value(first * width + i) * scale;
      }
    }
    put(out, source.tensor);
  }
  return tensor;
}

}  // namespace fathom
