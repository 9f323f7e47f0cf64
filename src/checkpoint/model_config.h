// The config of any model that can be run.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "checkpoint/dense_config.h"
#include "checkpoint/hf_config.h"
#include "checkpoint/model_shape.h"

namespace fathom {

using ModelConfig = std::variant<DeepseekConfig, DenseConfig>;

// By architectures[0]; Error(input) that names what is supported where it is another one.
ModelConfig parse_model_config(std::string_view text, const std::string& path);
[[noreturn]] void fail_unsupported(const std::string& architecture, const std::string& path);
// True for the architectures that parse_model_config() takes.
bool is_supported_architecture(std::string_view name);

ModelShape shape_of(const ModelConfig& config);
// True where the head is the embedding.
bool has_tied_embeddings(const ModelConfig& config);

}  // namespace fathom
