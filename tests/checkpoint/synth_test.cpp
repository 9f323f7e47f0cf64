#include "checkpoint/synth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/deepseek_tensors.h"
#include "checkpoint/fp8_check.h"
#include "checkpoint/synth_layout.h"
#include "checkpoint/synth_values.h"
#include "numerics/fp8_e4m3.h"
#include "numerics/half.h"
#include "tests/checkpoint/configs.h"
#include "tests/checkpoint/toy.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string stored(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  std::string bytes(tensor.bytes, '\0');
  checkpoint.read(tensor, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

class Synth : public testing::Test {
 protected:
  // Writes a checkpoint into folder `name`.
  std::string make(const std::string& name, const json& config, uint64_t seed, int shards,
                   int threads) {
    write_file(folder_ / "given.json", config.dump());
    SynthOptions options;
    options.config_path = folder_ / "given.json";
    options.out_folder = folder_ / name;
    options.seed = seed;
    options.shards = shards;
    synthesise_checkpoint(options, threads);
    return options.out_folder;
  }
  static std::vector<std::string> names_in(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryFolder folder_;
};

TEST_F(Synth, WritesWhatTheConfigCallsFor) {
  const json unquantised = [] {
    json config = small_config();
    config["quantization_config"] = nullptr;
    config["attention_bias"] = true;
    config["q_lora_rank"] = nullptr;
    config["tie_word_embeddings"] = true;
    config["num_nextn_predict_layers"] = 0;
    return config;
  }();
  int number = 0;
  for (const json& config : {small_config(), unquantised}) {
    const std::string out = make("sub/out" + std::to_string(number++), config, 1, 3, 2);
    EXPECT_EQ(names_in(out),
              (std::vector<std::string>{
                  "config.json", "generation_config.json", "model-00001-of-000003.safetensors",
                  "model-00002-of-000003.safetensors", "model-00003-of-000003.safetensors",
                  "model.safetensors.index.json"}));
    const std::string path = out + "/config.json";
    EXPECT_EQ(read_text(path), config.dump());
    const DeepseekConfig typed = parse_deepseek_config(read_text(path), path);
    const Checkpoint checkpoint = Checkpoint::open(out);
    const TensorReport report = check_deepseek_tensors(checkpoint, typed);
    EXPECT_EQ(report.has_mtp, typed.num_nextn_predict_layers > 0);
    EXPECT_TRUE(report.unexpected.empty());

    // Tensors in the order of the release, each file packed to its last byte, about even.
    const std::vector<TensorInfo> layout = released_layout(typed);
    ASSERT_EQ(checkpoint.tensors().size(), layout.size());
    for (size_t i = 0; i < layout.size(); ++i) {
      EXPECT_EQ(checkpoint.tensors()[i].name, layout[i].name);
    }
    uint64_t bytes = checkpoint.payload_bytes();
    for (const Shard& shard : checkpoint.shards()) {
      const uint64_t payload = shard.file.size() - 8 - shard.header_bytes;
      EXPECT_NEAR(static_cast<double>(payload), static_cast<double>(checkpoint.payload_bytes()) / 3,
                  2000.0);
      bytes -= payload;
    }
    EXPECT_EQ(bytes, 0u);
    const json index = json::parse(read_text(out + "/model.safetensors.index.json"));
    EXPECT_EQ(index["metadata"]["total_size"], checkpoint.payload_bytes());
    EXPECT_EQ(index["weight_map"].size(), layout.size());
    const GenerationConfig generation =
        parse_generation_config(read_text(out + "/generation_config.json"), "g.json");
    EXPECT_EQ(generation.bos_token_id, 0);
    EXPECT_EQ(generation.eos_token_ids, std::vector<int64_t>{1});
  }
}

TEST_F(Synth, GivesTheSameBytesWhateverTheShardsAndThreads) {
  const Checkpoint one = Checkpoint::open(make("one", small_config(), 42, 1, 1));
  const Checkpoint many = Checkpoint::open(make("many", small_config(), 42, 7, 3));
  const Checkpoint other = Checkpoint::open(make("other", small_config(), 43, 1, 2));
  EXPECT_EQ(many.shards().size(), 7u);
  size_t different = 0;
  for (const TensorInfo& tensor : one.tensors()) {
    EXPECT_EQ(stored(one, tensor), stored(many, *many.find(tensor.name))) << tensor.name;
    different += stored(one, tensor) != stored(other, *other.find(tensor.name));
  }
  EXPECT_EQ(different, one.tensors().size());
}

TEST_F(Synth, GivesATensorToEachShardAtTheMost) {
  json config = small_config();
  config["num_hidden_layers"] = 1;
  config["num_nextn_predict_layers"] = 0;
  const DeepseekConfig typed = parse_deepseek_config(config.dump(), "config.json");
  const auto count = static_cast<int>(released_layout(typed).size());
  EXPECT_EQ(Checkpoint::open(make("out", config, 42, count, 2)).shards().size(),
            static_cast<size_t>(count));
  expect_contains(error_of([&] { make("more", config, 42, count + 1, 2); }, ErrorKind::usage),
                  {"shards"});
}

TEST_F(Synth, PinsTheBytesOfASeed) {
  // Benchmarks are compared across versions and machines, so the values must never change.
  const Checkpoint checkpoint = Checkpoint::open(make("out", small_config(), 7, 1, 1));
  uint64_t hash = 0xcbf29ce484222325u;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    for (const char byte : stored(checkpoint, tensor)) {
      hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
    }
  }
  EXPECT_EQ(hash, 11185792431383572254u);
}

TEST_F(Synth, CopiesEmbeddingAndHeadIntoTheMtpLayer) {
  const Checkpoint checkpoint = Checkpoint::open(make("out", small_config(), 7, 2, 1));
  const auto bytes = [&](const std::string& name) {
    return stored(checkpoint, *checkpoint.find(name));
  };
  EXPECT_EQ(bytes("model.layers.3.embed_tokens.weight"), bytes("model.embed_tokens.weight"));
  EXPECT_EQ(bytes("model.layers.3.shared_head.head.weight"), bytes("lm_head.weight"));
  EXPECT_NE(bytes("lm_head.weight"), bytes("model.embed_tokens.weight"));
}

TEST_F(Synth, RefusesFoldersInUse) {
  const std::string out = make("out", small_config(), 1, 1, 1);
  const auto refused = [&](const std::string& name, const std::string& reason) {
    expect_contains(error_of([&] { make(name, small_config(), 1, 1, 1); }, ErrorKind::usage),
                    {folder_ / name, reason});
  };
  refused("out", "config.json");
  fs::remove(out + "/config.json");
  refused("out", "model.safetensors.index.json");
  fs::remove(out + "/model.safetensors.index.json");
  refused("out", "model-00001-of-000001.safetensors");
  fs::remove(out + "/model-00001-of-000001.safetensors");
  write_file(folder_ / "file", "x");
  refused("file", "not a folder");
  // Other files are no hindrance, and stay.
  write_file(out + "/notes.txt", "mine");
  make("out", small_config(), 1, 1, 1);
  EXPECT_EQ(read_text(out + "/notes.txt"), "mine");
}

TEST_F(Synth, RefusesShardsThatCannotBe) {
  for (const int shards : {0, -1, 100'000}) {
    expect_contains(error_of([&] { make("out", small_config(), 1, shards, 1); }, ErrorKind::usage),
                    {"shards"});
    EXPECT_FALSE(fs::exists(folder_ / "out"));
  }
  json broken = small_config();
  broken["scoring_func"] = "softmax";
  expect_contains(error_of([&] { make("out", broken, 1, 1, 1); }), {"given.json", "scoring_func"});
  json eos = small_config();
  eos["eos_token_id"] = "one";
  expect_contains(error_of([&] { make("out", eos, 1, 1, 1); }), {"given.json", "eos_token_id"});
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(Synth, LeavesNothingBehindWhenCancelled) {
  write_file(folder_ / "given.json", small_config().dump());
  CancelToken cancel;
  cancel.cancel();
  SynthOptions options;
  options.config_path = folder_ / "given.json";
  options.out_folder = folder_ / "a/b/out";
  options.shards = 2;
  options.cancel = &cancel;
  error_of([&] { synthesise_checkpoint(options, 2); }, ErrorKind::cancelled);
  EXPECT_EQ(names_in(folder_.path()), std::vector<std::string>{"given.json"});

  // A folder that was there before stays, with what was in it.
  fs::create_directories(folder_ / "kept");
  write_file(folder_ / "kept/notes.txt", "mine");
  options.out_folder = folder_ / "kept";
  error_of([&] { synthesise_checkpoint(options, 2); }, ErrorKind::cancelled);
  EXPECT_EQ(names_in(folder_ / "kept"), std::vector<std::string>{"notes.txt"});
}

TEST_F(Synth, SaysHowMuchTheDiskLacks) {
  write_file(folder_ / "given.json", [] {
    json config = released_config();
    config["vocab_size"] = 1 << 24;
    config["hidden_size"] = 1 << 20;  // 32 TiB for the embedding alone
    return config.dump();
  }());
  SynthOptions options;
  options.config_path = folder_ / "given.json";
  options.out_folder = folder_ / "out";
  expect_contains(error_of([&] { synthesise_checkpoint(options, 1); }, ErrorKind::io),
                  {folder_ / "out", "TiB", "free"});
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

// Values of one tensor of the given kind.
std::vector<double> values_of(const std::string& name, Dtype dtype, std::vector<int64_t> shape,
                              int64_t fan_in) {
  TensorInfo tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  size_t count = 1;
  for (const int64_t size : tensor.shape) count *= static_cast<size_t>(size);
  std::vector<std::byte> bytes(count * static_cast<size_t>(dtype_bytes(dtype)));
  TensorValues(tensor, fan_in, 5).fill(0, bytes);
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) {
    if (dtype == Dtype::f8_e4m3) {
      values[i] = fp8_e4m3_to_float(static_cast<uint8_t>(bytes[i]));
    } else if (dtype == Dtype::bf16) {
      uint16_t bits;
      std::memcpy(&bits, &bytes[2 * i], 2);
      values[i] = bf16_to_float(bits);
    } else {
      float value;
      std::memcpy(&value, &bytes[4 * i], 4);
      values[i] = value;
    }
  }
  return values;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}
double rms(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

TEST(SynthValues, KeepMagnitudesSane) {
  const std::vector<double> codes =
      values_of("model.layers.0.mlp.up_proj.weight", Dtype::f8_e4m3, {512, 1024}, 1024);
  const std::vector<double> scales =
      values_of("model.layers.0.mlp.up_proj.weight_scale_inv", Dtype::f32, {64, 64}, 1024);
  EXPECT_NEAR(rms(codes) * rms(scales), 1 / std::sqrt(1024.0), 0.03 / std::sqrt(1024.0));
  for (const double scale : scales) EXPECT_GT(scale, 0);

  const std::vector<double> norm =
      values_of("model.layers.0.input_layernorm.weight", Dtype::bf16, {4096}, 4096);
  EXPECT_NEAR(mean(norm), 1, 0.01);
  EXPECT_NEAR(rms(values_of("model.embed_tokens.weight", Dtype::bf16, {64, 512}, 512)), 1, 0.02);
  EXPECT_NEAR(rms(values_of("lm_head.weight", Dtype::bf16, {64, 512}, 512)) * std::sqrt(512.0), 3,
              0.1);
  EXPECT_NEAR(rms(values_of("model.layers.1.mlp.gate.weight", Dtype::bf16, {64, 512}, 512)) *
                  std::sqrt(512.0),
              1.5, 0.05);
  EXPECT_LT(
      rms(values_of("model.layers.1.mlp.gate.e_score_correction_bias", Dtype::f32, {256}, 256)),
      0.02);
}

TEST(SynthValues, UseEveryFp8CodeThatIsANumber) {
  TensorInfo tensor;
  tensor.name = "w";
  tensor.dtype = Dtype::f8_e4m3;
  tensor.shape = {1 << 16};
  std::vector<std::byte> bytes(1 << 16);
  TensorValues(tensor, 64, 1).fill(0, bytes);
  EXPECT_EQ(find_fp8_nan(bytes), std::nullopt);
  std::vector<int> seen(256);
  for (const std::byte code : bytes) ++seen[static_cast<size_t>(code)];
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 0), 2);
}

TEST(SynthValues, DependOnThePlaceAloneAndNotOnThePiece) {
  for (const Dtype dtype : {Dtype::f8_e4m3, Dtype::bf16, Dtype::f32}) {
    TensorInfo tensor;
    tensor.name = "w";
    tensor.dtype = dtype;
    tensor.shape = {20000 / dtype_bytes(dtype)};
    const TensorValues values(tensor, 64, 1);
    std::vector<std::byte> whole(20000);
    values.fill(0, whole);
    std::vector<std::byte> pieces(20000);
    for (size_t at = 0, size = 1; at < pieces.size(); at += size, size = size * 3 + 1) {
      size = std::min(size, pieces.size() - at);
      values.fill(at, std::span(pieces).subspan(at, size));
    }
    EXPECT_EQ(whole, pieces);
  }
}

TEST(SynthLayout, CutsShardsEvenly) {
  std::vector<TensorInfo> tensors(10);
  for (TensorInfo& tensor : tensors) tensor.bytes = 1;
  EXPECT_EQ(even_shards(tensors, 1), std::vector<size_t>{10});
  EXPECT_EQ(even_shards(tensors, 5), (std::vector<size_t>{2, 2, 2, 2, 2}));
  EXPECT_EQ(even_shards(tensors, 10), std::vector<size_t>(10, 1));
  tensors[0].bytes = 1000;  // the others still get one each
  EXPECT_EQ(even_shards(tensors, 4), (std::vector<size_t>{1, 1, 1, 7}));
  tensors[0].bytes = 1;
  tensors[9].bytes = 1000;
  EXPECT_EQ(even_shards(tensors, 4), (std::vector<size_t>{7, 1, 1, 1}));
}

}  // namespace
}  // namespace fathom
