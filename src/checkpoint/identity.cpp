#include "checkpoint/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <vector>

#include "base/hash.h"

namespace fathom {
namespace {

constexpr uint64_t kSampleBytes = 1024;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Name, dtype and shape, in a form that no two tensors share.
void describe(const TensorInfo& tensor, std::string* text) {
  *text = tensor.name;
  *text += '\0';
  *text += dtype_name(tensor.dtype);
  for (const int64_t size : tensor.shape) fmt::format_to(std::back_inserter(*text), ",{}", size);
}

// The tensor of a kind that is sampled: the one whose name has the smallest hash, so that the
// choice does not depend on the order of files.
struct Chosen {
  const TensorInfo* tensor = nullptr;
  uint64_t order = 0;
};

Hash128 sample(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  std::string bytes(static_cast<size_t>(std::min(tensor.bytes, kSampleBytes)), '\0');
  const uint64_t middle = (tensor.bytes - bytes.size()) / 2;
  checkpoint.shards()[static_cast<size_t>(tensor.shard)].file.read_at(
      tensor.offset + middle, std::as_writable_bytes(std::span(bytes)));
  return hash128(tensor.name + '\0' + bytes);
}

}  // namespace

std::string model_identity(const Checkpoint& checkpoint, std::string_view fields) {
  Hash128 sum = hash128(fields);
  std::unordered_map<uint64_t, Chosen> kinds;
  std::string text;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    describe(tensor, &text);
    const Hash128 hash = hash128(text);
    sum += hash;
    text = tensor.name;
    text.erase(std::remove_if(text.begin(), text.end(), is_digit), text.end());
    Chosen& chosen = kinds[hash128(text).low];
    const bool first = chosen.tensor == nullptr;
    if (first || hash.low < chosen.order) chosen = {&tensor, hash.low};
  }
  std::vector<const TensorInfo*> samples;
  for (const auto& [kind, chosen] : kinds) samples.push_back(chosen.tensor);
  // In the order of the disk.
  std::sort(samples.begin(), samples.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return a->shard != b->shard ? a->shard < b->shard : a->offset < b->offset;
  });
  for (const TensorInfo* tensor : samples) sum += sample(checkpoint, *tensor);
  return sum.hex();
}

std::string model_identity(const Checkpoint& checkpoint, const ModelConfig& config) {
  return model_identity(checkpoint, identity_fields(config));
}

namespace {

class FieldAdder {
 public:
  explicit FieldAdder(std::string* text) : text_(text) {}
  template <typename T>
  void operator()(std::string_view name, const T& value) const {
    fmt::format_to(std::back_inserter(*text_), ";{}={}", name, value);
  }

 private:
  std::string* text_;
};

void add_rope(const FieldAdder& add, const RopeScaling& rope) {
  add("rope_type", static_cast<int>(rope.type));
  add("factor", rope.factor);
  add("original", rope.original_max_position_embeddings);
  add("beta_fast", rope.beta_fast);
  add("beta_slow", rope.beta_slow);
  add("mscale", rope.mscale);
  add("mscale_all_dim", rope.mscale_all_dim);
}

std::string identity_fields(const DeepseekConfig& c) {
  std::string text = "DeepseekV3ForCausalLM";
  const FieldAdder add(&text);
  add("vocab_size", c.vocab_size);
  add("hidden_size", c.hidden_size);
  add("num_hidden_layers", c.num_hidden_layers);
  add("first_k_dense_replace", c.first_k_dense_replace);
  add("moe_layer_freq", c.moe_layer_freq);
  add("intermediate_size", c.intermediate_size);
  add("moe_intermediate_size", c.moe_intermediate_size);
  add("n_routed_experts", c.n_routed_experts);
  add("n_shared_experts", c.n_shared_experts);
  add("num_experts_per_tok", c.num_experts_per_tok);
  add("n_group", c.n_group);
  add("topk_group", c.topk_group);
  add("norm_topk_prob", c.norm_topk_prob);
  add("routed_scaling_factor", c.routed_scaling_factor);
  add("num_attention_heads", c.num_attention_heads);
  add("q_lora_rank", c.q_lora_rank.value_or(0));
  add("kv_lora_rank", c.kv_lora_rank);
  add("qk_nope_head_dim", c.qk_nope_head_dim);
  add("qk_rope_head_dim", c.qk_rope_head_dim);
  add("v_head_dim", c.v_head_dim);
  add("attention_bias", c.attention_bias);
  add("rms_norm_eps", c.rms_norm_eps);
  add("max_position_embeddings", c.max_position_embeddings);
  add("rope_theta", c.rope_theta);
  add_rope(add, c.rope_scaling);
  add("tie_word_embeddings", c.tie_word_embeddings);
  add("weight_block_rows", c.weight_block_rows);
  add("weight_block_cols", c.weight_block_cols);
  return text;
}

std::string identity_fields(const DenseConfig& c) {
  std::string text = c.architecture;
  const FieldAdder add(&text);
  add("vocab_size", c.vocab_size);
  add("hidden_size", c.hidden_size);
  add("intermediate_size", c.intermediate_size);
  add("num_hidden_layers", c.num_hidden_layers);
  add("num_attention_heads", c.num_attention_heads);
  add("num_key_value_heads", c.num_key_value_heads);
  add("head_dim", c.head_dim);
  add("qkv_bias", c.qkv_bias);
  add("o_bias", c.o_bias);
  add("rms_norm_eps", c.rms_norm_eps);
  add("max_position_embeddings", c.max_position_embeddings);
  add("rope_theta", c.rope_theta);
  add_rope(add, c.rope_scaling);
  add("low_freq_factor", c.rope_scaling.low_freq_factor);
  add("high_freq_factor", c.rope_scaling.high_freq_factor);
  add("attention_factor", c.rope_attention_factor);
  add("tie_word_embeddings", c.tie_word_embeddings);
  add("weight_block_rows", c.weight_block_rows);
  add("weight_block_cols", c.weight_block_cols);
  return text;
}

}  // namespace

std::string identity_fields(const ModelConfig& config) {
  return std::visit([](const auto& c) { return identity_fields(c); }, config);
}

}  // namespace fathom
