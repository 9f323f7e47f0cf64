// What tells one model from another: a fingerprint that stays the same when a checkpoint is moved,
// renamed or sharded otherwise, and changes with its layout or its weights.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "checkpoint/model_config.h"

namespace fathom {

// 32 hex digits from `fields` (what config.json says about the computation), every tensor's name,
// dtype and shape, and a sample of the contents: 1 KiB from the middle of one tensor of each kind
// (a kind is a name without its numbers), so that a fine-tune of the same layout is another model.
// Reads some tens of KiB.
std::string model_identity(const Checkpoint& checkpoint, std::string_view fields);
std::string model_identity(const Checkpoint& checkpoint, const ModelConfig& config);

// The fields of a config that change what is computed, as a text.
std::string identity_fields(const ModelConfig& config);

}  // namespace fathom
