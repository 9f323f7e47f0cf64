// A table that says how many tensors each shard holds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/hf_config.h"
#include "checkpoint/safetensors.h"

namespace fathom {

// Tensors per shard by `text`, comma-separated values whose first line names the columns shard,
// first_layer, last_layer and tensors, in any order and possibly among others. `tensors` are those
// of released_layout(config); the table must give each of them a shard and know the layers of every
// shard, the embedding counting with the first layer, final norm and head with the last before the
// MTP layer. Error(input) names `path`, line and column.
std::vector<size_t> shard_table_counts(std::string_view text, const std::string& path,
                                       int64_t layers, const std::vector<TensorInfo>& tensors);

}  // namespace fathom
