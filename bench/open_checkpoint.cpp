// How long it takes to read the headers of a checkpoint in DeepSeek-R1's layout: 163 shards, 91,991
// tensors. The shards are made here with real headers and holes in place of the data (a few tens of
// MB on disk), opened and checked several times, and removed.
//
//   bench_open_checkpoint [FOLDER]     FOLDER must not exist yet; default: beside other temporaries
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>

#include "checkpoint/checkpoint.h"
#include "checkpoint/deepseek_tensors.h"
#include "checkpoint/identity.h"
#include "checkpoint/synth_layout.h"

namespace fathom {
namespace {

constexpr size_t kShards = 163;
constexpr int kRounds = 5;

DeepseekConfig r1() {
  DeepseekConfig c;
  c.vocab_size = 129280;
  c.hidden_size = 7168;
  c.num_hidden_layers = 61;
  c.num_nextn_predict_layers = 1;
  c.first_k_dense_replace = 3;
  c.intermediate_size = 18432;
  c.moe_intermediate_size = 2048;
  c.n_routed_experts = 256;
  c.n_shared_experts = 1;
  c.num_experts_per_tok = 8;
  c.n_group = 8;
  c.topk_group = 4;
  c.num_attention_heads = 128;
  c.q_lora_rank = 1536;
  c.kv_lora_rank = 512;
  c.qk_nope_head_dim = 128;
  c.qk_rope_head_dim = 64;
  c.v_head_dim = 128;
  c.max_position_embeddings = 163840;
  c.weight_block_rows = 128;
  c.weight_block_cols = 128;
  return c;
}

void write_holes(const std::string& folder, const DeepseekConfig& config) {
  std::vector<TensorInfo> tensors = released_layout(config);
  const std::vector<std::string> headers = place_in_shards(even_shards(tensors, kShards), &tensors);
  std::vector<uint64_t> ends(kShards);
  std::ofstream index(folder + "/model.safetensors.index.json");
  index << R"({"metadata":{},"weight_map":{)";
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& tensor = tensors[i];
    const auto shard = static_cast<size_t>(tensor.shard);
    ends[shard] = std::max(ends[shard], tensor.offset + tensor.bytes);
    index << (i == 0 ? "" : ",") << '"' << tensor.name << "\":\"" << shard_name(shard, kShards)
          << '"';
  }
  index << "}}";
  for (size_t shard = 0; shard < kShards; ++shard) {
    const std::string path = folder + "/" + shard_name(shard, kShards);
    std::ofstream file(path, std::ios::binary);
    const uint64_t length = headers[shard].size();
    for (int byte = 0; byte < 8; ++byte) file.put(static_cast<char>(length >> (8 * byte)));
    file << headers[shard];
    file.close();
    std::filesystem::resize_file(path, ends[shard]);
  }
}

double milliseconds(const auto& work) {
  const auto began = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began)
      .count();
}

int run(const std::string& folder) {
  if (!std::filesystem::create_directories(folder)) {
    fmt::print(stderr, "{} exists already\n", folder);
    return 2;
  }
  const DeepseekConfig config = r1();
  write_holes(folder, config);
  for (int round = 0; round < kRounds; ++round) {
    double check = 0;
    double identity = 0;
    size_t count = 0;
    const double open = milliseconds([&] {
      const Checkpoint checkpoint = Checkpoint::open(folder);
      count = checkpoint.tensors().size();
      check = milliseconds([&] { check_deepseek_tensors(checkpoint, config); });
      identity = milliseconds([&] { model_identity(checkpoint, config); });
    });
    fmt::print(
        "{} shards, {} tensors: opened in {:.0f} ms, checked against the config in {:.0f}, "
        "identified in {:.0f}\n",
        kShards, count, open - check - identity, check, identity);
  }
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace fathom

int main(int argc, char** argv) {
  const std::string folder =
      argc > 1 ? argv[1] : (std::filesystem::temp_directory_path() / "fathom-headers").string();
  try {
    return fathom::run(folder);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    std::filesystem::remove_all(folder);
    return 1;
  }
}
