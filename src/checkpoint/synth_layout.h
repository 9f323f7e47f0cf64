// Where the tensors of a released checkpoint lie, without their values.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"

namespace fathom {

// Every tensor with its dtype, shape and bytes in the order of the released files, each F8_E4M3
// weight followed by its scales. Offsets and shards are not set.
std::vector<TensorInfo> released_layout(const ModelConfig& config);

// Sets shard and offset of each tensor so that shard s holds counts[s] tensors, and returns each
// shard's header: compact JSON, __metadata__ first, then the tensors as they lie in the file.
std::vector<std::string> place_in_shards(const std::vector<size_t>& counts,
                                         std::vector<TensorInfo>* tensors);

// What a shard begins with: the header behind its length.
std::string beginning_of_file(const std::string& header);

// model.safetensors.index.json of tensors that have their shards.
std::string index_text(const std::vector<TensorInfo>& tensors, size_t shards);

// Tensors per shard, cut where the bytes are about even; every shard gets one at least, so there
// must not be more shards than tensors.
std::vector<size_t> even_shards(const std::vector<TensorInfo>& tensors, size_t shards);

// "model-00002-of-000163.safetensors"; `shard` counts from 0.
std::string shard_name(size_t shard, size_t shards);

}  // namespace fathom
