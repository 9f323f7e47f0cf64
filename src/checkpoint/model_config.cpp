#include "checkpoint/model_config.h"

#include "base/error.h"
#include "base/json_sax.h"

namespace fathom {
namespace {

constexpr std::string_view kDeepseek = "DeepseekV3ForCausalLM";

}  // namespace

bool is_supported_architecture(std::string_view name) {
  return name == kDeepseek || is_dense_architecture(name);
}

ModelConfig parse_model_config(std::string_view text, const std::string& path) {
  const std::string name = architecture_of(text, path);
  if (name == kDeepseek) return parse_deepseek_config(text, path);
  if (is_dense_architecture(name)) return parse_dense_config(text, path);
  fail_unsupported(name, path);
}

void fail_unsupported(const std::string& architecture, const std::string& path) {
  fail_input(
      "{}: architectures: {} is not supported by this version; supported: {}, Qwen2ForCausalLM, "
      "LlamaForCausalLM, Qwen3ForCausalLM",
      path, quoted_for_message(architecture, 80), kDeepseek);
}

ModelShape shape_of(const ModelConfig& config) {
  return std::visit([](const auto& c) { return shape_of(c); }, config);
}

bool has_tied_embeddings(const ModelConfig& config) {
  return std::visit([](const auto& c) { return c.tie_word_embeddings; }, config);
}

}  // namespace fathom
