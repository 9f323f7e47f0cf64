#include "checkpoint/synth_layout.h"

#include <fmt/core.h>

#include <cassert>
#include <utility>

#include "base/join.h"
#include "checkpoint/model_tensors.h"

namespace fathom {
namespace {

TensorInfo sized(std::string name, Dtype dtype, std::vector<int64_t> shape) {
  TensorInfo tensor;
  tensor.name = std::move(name);
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.bytes = static_cast<uint64_t>(dtype_bytes(dtype));
  for (const int64_t size : tensor.shape) tensor.bytes *= static_cast<uint64_t>(size);
  return tensor;
}

}  // namespace

std::vector<TensorInfo> released_layout(const ModelConfig& config) {
  std::vector<TensorInfo> tensors;
  const auto [block_rows, block_cols] = weight_blocks_of(config);
  const bool quantise = block_rows > 0;
  for (ExpectedTensor& expected : expected_tensors(config, has_mtp_layer(config))) {
    if (expected.may_be_absent && expected.name == names::kHead) continue;  // tied
    if (!quantise || !expected.quantised) {
      const bool bias = expected.name.ends_with(".e_score_correction_bias");
      tensors.push_back(sized(std::move(expected.name), bias ? Dtype::f32 : Dtype::bf16,
                              std::move(expected.shape)));
      continue;
    }
    const std::vector<int64_t> grid = {(expected.shape[0] + block_rows - 1) / block_rows,
                                       (expected.shape[1] + block_cols - 1) / block_cols};
    std::string scale = expected.name + std::string(names::kScaleSuffix);
    tensors.push_back(sized(std::move(expected.name), Dtype::f8_e4m3, std::move(expected.shape)));
    tensors.push_back(sized(std::move(scale), Dtype::f32, grid));
  }
  return tensors;
}

std::vector<std::string> place_in_shards(const std::vector<size_t>& counts,
                                         std::vector<TensorInfo>* tensors) {
  std::vector<std::string> headers;
  size_t next = 0;
  for (size_t shard = 0; shard < counts.size(); ++shard) {
    std::string header = R"({"__metadata__":{"format":"pt"})";
    const size_t first = next;
    uint64_t offset = 0;
    for (; next < first + counts[shard]; ++next) {
      TensorInfo& tensor = (*tensors)[next];
      header += fmt::format(R"(,"{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})",
                            tensor.name, dtype_name(tensor.dtype), shape_text(tensor.shape), offset,
                            offset + tensor.bytes);
      tensor.shard = static_cast<int>(shard);
      tensor.offset = offset;
      offset += tensor.bytes;
    }
    header += "}";
    for (size_t i = first; i < next; ++i) (*tensors)[i].offset += 8 + header.size();
    headers.push_back(std::move(header));
  }
  assert(next == tensors->size());
  return headers;
}

std::string beginning_of_file(const std::string& header) {
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  return length + header;
}

std::string index_text(const std::vector<TensorInfo>& tensors, size_t shards) {
  uint64_t total = 0;
  for (const TensorInfo& tensor : tensors) total += tensor.bytes;
  std::string text = fmt::format(
      "{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{", total);
  for (const TensorInfo& tensor : tensors) {
    text += fmt::format("{}\n    \"{}\": \"{}\"", &tensor == &tensors.front() ? "" : ",",
                        tensor.name, shard_name(static_cast<size_t>(tensor.shard), shards));
  }
  return text + "\n  }\n}\n";
}

std::vector<size_t> even_shards(const std::vector<TensorInfo>& tensors, size_t shards) {
  assert(shards >= 1 && shards <= tensors.size());
  double total = 0;
  for (const TensorInfo& tensor : tensors) total += static_cast<double>(tensor.bytes);
  std::vector<size_t> counts;
  size_t first = 0;
  double done = 0;
  for (size_t shard = 0; shard < shards; ++shard) {
    const size_t last = tensors.size() - (shards - 1 - shard);  // one for each that follows
    const double goal = total * static_cast<double>(shard + 1) / static_cast<double>(shards);
    size_t next = first;
    do {
      done += static_cast<double>(tensors[next++].bytes);
    } while (next < last && (shard + 1 == shards || done < goal));
    counts.push_back(next - first);
    first = next;
  }
  return counts;
}

std::string shard_name(size_t shard, size_t shards) {
  return fmt::format("model-{:05}-of-{:06}.safetensors", shard + 1, shards);
}

}  // namespace fathom
