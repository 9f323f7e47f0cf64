// How long a sequence may be: the folder's files disagree, so somebody has to decide and say why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/model_shape.h"
#include "fathom/model.h"

namespace fathom {

// `asked` is --ctx (0: not given), `source` the file that max_position_embeddings come from.
// Without it the smallest length that a file states is taken.
// More than max_position_embeddings is an Error(usage), except with dynamic RoPE scaling, which is
// made for that.
ContextDecision decide_context(const ModelShape& shape,
                               std::optional<int64_t> tokenizer_model_max_length, int64_t asked,
                               const std::string& source = "config.json");

}  // namespace fathom
