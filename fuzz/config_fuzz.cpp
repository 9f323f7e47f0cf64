// config.json, generation_config.json and the weight index: each parser gets every text.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/model_config.h"
#include "checkpoint/synth_layout.h"
#include "checkpoint/weight_index.h"

namespace {

template <typename Parser>
void try_parse(const Parser& parser) {
  try {
    parser();
  } catch (const fathom::Error& error) {
    if (error.kind() != fathom::ErrorKind::input) std::abort();
  }
}

// An accepted configuration must lead to tensors that can be laid out.
void lay_out(const fathom::ModelConfig& config) {
  constexpr int64_t kMostExperts = 4096;  // more would only be slow
  const auto* moe = std::get_if<fathom::DeepseekConfig>(&config);
  if (moe != nullptr && moe->n_routed_experts * moe->num_hidden_layers > kMostExperts) return;
  for (const fathom::TensorInfo& tensor : fathom::released_layout(config)) {
    if (tensor.bytes == 0 || tensor.bytes > (uint64_t{1} << 62)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  fathom::log::set_level(fathom::log::Level::off);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try_parse([&] { lay_out(fathom::parse_model_config(text, "config.json")); });
  try_parse([&] { fathom::parse_generation_config(text, "generation_config.json"); });
  try_parse([&] { fathom::parse_weight_index(text, "model.safetensors.index.json"); });
  return 0;
}
