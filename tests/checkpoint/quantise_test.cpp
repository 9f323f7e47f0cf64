#include "checkpoint/quantise.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/deepseek_tensors.h"
#include "checkpoint/hf_config.h"
#include "checkpoint/packed_tensor.h"
#include "checkpoint/synth.h"
#include "numerics/fp8_e4m3.h"
#include "numerics/half.h"
#include "tests/checkpoint/configs.h"
#include "tests/checkpoint/toy.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  std::string bytes(tensor.bytes, '\0');
  checkpoint.read(tensor, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::string bf16_bytes(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) {
    const uint16_t bits = float_to_bf16(value);
    bytes.append(reinterpret_cast<const char*>(&bits), 2);
  }
  return bytes;
}

std::vector<float> random_values(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = bf16_to_float(float_to_bf16(static_cast<float>(random() >> 8) * 0x1p-28f - 0x1p-5f));
  }
  return values;
}

// What a matrix of these values must have become.
void expect_packed(const Checkpoint& copy, const std::string& name, int bits, int64_t cols,
                   const std::vector<float>& values) {
  const TensorInfo* codes = copy.find(name);
  const TensorInfo* scales = copy.find(name + "_scale");
  ASSERT_NE(codes, nullptr) << name;
  ASSERT_NE(scales, nullptr) << name;
  const int64_t rows = static_cast<int64_t>(values.size()) / cols;
  ASSERT_EQ(packed_bits(*codes, rows, cols), bits);
  std::string expected_codes(codes->bytes, '\0');
  std::string expected_scales(scales->bytes, '\0');
  for (int64_t row = 0; row < rows; ++row) {
    const auto at = static_cast<size_t>(row);
    quantise_row(
        bits, std::span(values).subspan(at * static_cast<size_t>(cols), static_cast<size_t>(cols)),
        reinterpret_cast<std::byte*>(expected_codes.data()) +
            at * (codes->bytes / static_cast<uint64_t>(rows)),
        reinterpret_cast<std::byte*>(expected_scales.data()) +
            at * (scales->bytes / static_cast<uint64_t>(rows)));
  }
  EXPECT_EQ(bytes_of(copy, *codes), expected_codes) << name;
  EXPECT_EQ(bytes_of(copy, *scales), expected_scales) << name;
}

constexpr const char* kQuery = "model.layers.0.self_attn.q_proj.weight";
constexpr const char* kDown = "model.layers.1.mlp.down_proj.weight";

// A dense model's folder: two matrices of layers, and what is copied.
struct DenseFolder {
  DenseFolder() {
    query = random_values(3000 * 700, 1);  // several pieces
    down = random_values(9 * 130, 2);
    write_file(folder / "config.json",
               R"({"architectures":["Qwen2ForCausalLM"],"hidden_size":700})");
    write_file(folder / "tokenizer.json", "{}");
    write_file(folder / "generation_config.json", R"({"top_p":0.9})");
    write_file(folder / "model-00001-of-00002.safetensors",
               safetensors_of({{"model.embed_tokens.weight", "BF16", {4, 2}, std::string(16, 'e')},
                               {kQuery, "BF16", {3000, 700}, bf16_bytes(query)},
                               {"model.layers.0.self_attn.q_proj.bias", "BF16", {2}, "bias"}}));
    write_file(folder / "model-00002-of-00002.safetensors",
               safetensors_of({{kDown, "BF16", {9, 130}, bf16_bytes(down)},
                               {"lm_head.weight", "BF16", {4, 2}, std::string(16, 'h')}}));
  }
  QuantiseOptions to(const std::string& out, int bits) const {
    QuantiseOptions options;
    options.folder = folder.path();
    options.out_folder = out;
    options.bits = bits;
    options.threads = 2;
    return options;
  }
  TemporaryFolder folder;
  std::vector<float> query, down;
};

// The message with which quantising is refused.
std::string refusal_of(const QuantiseOptions& options, ErrorKind kind = ErrorKind::usage) {
  return error_of([&] { quantise_checkpoint(options); }, kind);
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(QuantiseThreads, DenseModelInEachFormat) {
  const DenseFolder dense;
  for (const int bits : {8, 4, 3, 2}) {
    const TemporaryFolder place;
    const std::string out = place / "new/copy";
    const QuantiseResult result = quantise_checkpoint(dense.to(out, bits));
    EXPECT_EQ(result.matrices, 2);
    EXPECT_EQ(result.shards, 2);
    EXPECT_EQ(result.earlier_shards, 0);
    const Checkpoint copy = Checkpoint::open(out);
    EXPECT_EQ(copy.payload_bytes(), result.bytes);
    EXPECT_EQ(copy.tensors().size(), 7);
    expect_packed(copy, kQuery, bits, 700, dense.query);
    expect_packed(copy, kDown, bits, 130, dense.down);
    EXPECT_EQ(bytes_of(copy, *copy.find("lm_head.weight")), std::string(16, 'h'));
    EXPECT_EQ(bytes_of(copy, *copy.find("model.layers.0.self_attn.q_proj.bias")), "bias");
    const auto config = nlohmann::json::parse(read_text(out + "/config.json"));
    EXPECT_EQ(config["hidden_size"], 700);
    EXPECT_EQ(config["quantization_config"]["quant_method"], "fathom");
    EXPECT_EQ(config["quantization_config"]["format"], "int" + std::to_string(bits));
    EXPECT_EQ(files_in(out),
              (std::vector<std::string>{"config.json", "generation_config.json",
                                        "model-00001-of-000002.safetensors",
                                        "model-00002-of-000002.safetensors",
                                        "model.safetensors.index.json", "tokenizer.json"}));
    // Once more: that is a finished checkpoint, and no source either.
    EXPECT_NE(refusal_of(dense.to(out, bits)).find("already holds"), std::string::npos);
    QuantiseOptions again = dense.to(place / "other", bits);
    again.folder = out;
    EXPECT_NE(refusal_of(again).find("quantised already"), std::string::npos);
  }
}

TEST(Quantise, GoesOnAfterAKill) {
  const DenseFolder dense;
  const TemporaryFolder place;
  const std::string whole = place / "whole";
  const std::string out = place / "copy";
  quantise_checkpoint(dense.to(whole, 4));
  // What a call leaves that was stopped at once, and then what a killed one had on its way.
  CancelToken cancelled;
  cancelled.cancel();
  QuantiseOptions options = dense.to(out, 4);
  options.cancel = &cancelled;
  EXPECT_THROW(quantise_checkpoint(options), Error);
  EXPECT_EQ(files_in(out), std::vector<std::string>{"quantising.json"});
  const std::string first = "/model-00001-of-000002.safetensors";
  fs::copy_file(whole + first, out + first);
  write_file(out + "/model-00002-of-000002.safetensors.77-0.tmp", "half");
  // Another format is not gone on with.
  EXPECT_NE(refusal_of(dense.to(out, 3)).find("in another format"), std::string::npos);
  const QuantiseResult result = quantise_checkpoint(dense.to(out, 4));
  EXPECT_EQ(result.earlier_shards, 1);
  ASSERT_EQ(files_in(out), files_in(whole));
  for (const std::string& name : files_in(out)) {
    EXPECT_EQ(read_text(out + "/" + name), read_text(whole + "/" + name)) << name;
  }
}

TEST(Quantise, AShardThatDoesNotBelongThereIsNamed) {
  const DenseFolder dense;
  const TemporaryFolder place;
  const std::string out = place / "copy";
  CancelToken cancelled;
  cancelled.cancel();
  QuantiseOptions options = dense.to(out, 4);
  options.cancel = &cancelled;
  EXPECT_THROW(quantise_checkpoint(options), Error);
  const std::string first = out + "/model-00001-of-000002.safetensors";
  write_file(first, safetensors_of({toy("other", "xyz")}));
  EXPECT_NE(refusal_of(dense.to(out, 4)).find(first), std::string::npos);
}

TEST(Quantise, MessagesNameWhatIsWrong) {
  const DenseFolder dense;
  const TemporaryFolder place;
  QuantiseOptions little = dense.to(place / "a", 4);
  little.ram = 1 << 20;
  EXPECT_NE(refusal_of(little).find("--ram 1"), std::string::npos);
  EXPECT_FALSE(fs::exists(place / "a"));

  const TemporaryFolder bad;
  std::vector<float> values = random_values(200, 3);
  values[123] = std::nanf("");
  write_file(bad / "config.json", R"({"architectures":["LlamaForCausalLM"]})");
  write_file(bad / "model.safetensors",
             safetensors_of({{kDown, "BF16", {2, 100}, bf16_bytes(values)}}));
  QuantiseOptions options = dense.to(place / "b", 4);
  options.folder = bad.path();
  const std::string message = refusal_of(options, ErrorKind::input);
  EXPECT_NE(message.find(std::string("tensor ") + kDown + ": element 123"), std::string::npos)
      << message;

  const TemporaryFolder nothing;
  write_file(nothing / "config.json", R"({"architectures":["LlamaForCausalLM"]})");
  write_file(nothing / "model.safetensors", safetensors_of({toy("x", "y")}));
  options.folder = nothing.path();
  options.out_folder = place / "c";
  EXPECT_NE(refusal_of(options).find("nothing to quantise"), std::string::npos);
}

TEST(Quantise, OnlyRoutedExpertsOfDeepseek) {
  const TemporaryFolder place;
  nlohmann::json json = small_config();
  json["quantization_config"]["weight_block_size"] = {16, 8};
  write_file(place / "config.json", json.dump());
  SynthOptions synth;
  synth.config_path = place / "config.json";
  synth.out_folder = place / "model";
  synth.shards = 3;  // some scales lie in another shard than their weight
  synthesise_checkpoint(synth, 1);
  QuantiseOptions options;
  options.folder = place / "model";
  options.out_folder = place / "copy";
  options.bits = 3;
  const QuantiseResult result = quantise_checkpoint(options);
  EXPECT_EQ(result.matrices, 3 * 4 * 3);  // two layers and the MTP layer
  const Checkpoint original = Checkpoint::open(options.folder);
  const Checkpoint copy = Checkpoint::open(options.out_folder);
  const std::string path = options.out_folder + "/config.json";
  const DeepseekConfig config = parse_deepseek_config(read_text(path), path);
  EXPECT_EQ(config.weight_block_rows, 16);
  EXPECT_TRUE(check_deepseek_tensors(copy, config).unexpected.empty());
  for (const TensorInfo& tensor : original.tensors()) {
    if (tensor.name.find(".mlp.experts.") == std::string::npos) {
      EXPECT_EQ(bytes_of(copy, *copy.find(tensor.name)), bytes_of(original, tensor));
      continue;
    }
    if (tensor.name.ends_with("_scale_inv")) {
      EXPECT_EQ(copy.find(tensor.name), nullptr);
      continue;
    }
    const std::string codes = bytes_of(original, tensor);
    const TensorInfo& grid = *original.find(tensor.name + "_scale_inv");
    const std::string scales = bytes_of(original, grid);
    const auto cols = static_cast<size_t>(tensor.shape[1]);
    std::vector<float> values(codes.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t block = i / cols / 16 * static_cast<size_t>(grid.shape[1]) + i % cols / 8;
      float scale;
      std::memcpy(&scale, scales.data() + 4 * block, 4);
      values[i] = fp8_e4m3_to_float(static_cast<uint8_t>(codes[i])) * scale;
    }
    expect_packed(copy, tensor.name, 3, tensor.shape[1], values);
  }
  // FP8 has 8 bits already.
  options.bits = 8;
  options.out_folder = place / "other";
  EXPECT_NE(refusal_of(options).find("8 bits already"), std::string::npos);
}

}  // namespace
}  // namespace fathom
