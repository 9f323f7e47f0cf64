#include "checkpoint/synth_skeleton.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/deepseek_tensors.h"
#include "checkpoint/synth.h"
#include "checkpoint/synth_layout.h"
#include "checkpoint/synth_shard_table.h"
#include "numerics/half.h"
#include "tests/checkpoint/configs.h"
#include "tests/checkpoint/toy.h"
#include "tests/paths.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Rows = std::vector<std::pair<int64_t, int64_t>>;

std::string stored(const Checkpoint& checkpoint, const std::string& name) {
  const TensorInfo* tensor = checkpoint.find(name);
  EXPECT_NE(tensor, nullptr) << name;
  std::string bytes(tensor == nullptr ? 0 : tensor->bytes, '\0');
  if (tensor != nullptr) checkpoint.read(*tensor, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

class Skeleton : public testing::Test {
 protected:
  SynthOptions options(const std::string& name, const std::string& config) {
    write_file(folder_ / "given.json", config);
    SynthOptions o;
    o.config_path = folder_ / "given.json";
    o.out_folder = folder_ / name;
    o.seed = 5;
    o.shards = 3;
    o.skeleton = true;
    return o;
  }
  std::string r1_table() const { return test_paths::golden() + "/r1-shards.csv"; }

  TemporaryFolder folder_;
};

TEST_F(Skeleton, TheReleasedLayoutComesOutToTheByte) {
  const DeepseekConfig config = parse_deepseek_config(released_config().dump(), "config.json");
  std::vector<TensorInfo> tensors = released_layout(config);
  EXPECT_EQ(tensors.size(), 91'991u);
  const std::vector<size_t> counts =
      shard_table_counts(read_text(r1_table()), r1_table(), config.num_hidden_layers, tensors);
  ASSERT_EQ(counts.size(), 163u);
  const std::vector<std::string> headers = place_in_shards(counts, &tensors);
  EXPECT_EQ(index_text(tensors, counts.size()).size(), 8'898'324u);

  const auto place = [&](const std::string& name) {
    for (const TensorInfo& tensor : tensors) {
      if (tensor.name == name) return tensor;
    }
    ADD_FAILURE() << name;
    return TensorInfo();
  };
  const TensorInfo cut = place(names::expert(31, 92, "gate_proj"));
  EXPECT_EQ(cut.shard, 78);  // the last of shard 79
  EXPECT_EQ(place(names::expert(31, 92, "gate_proj") + "_scale_inv").shard, 79);
  EXPECT_EQ(place("model.embed_tokens.weight").offset, 34'127u);
}

TEST_F(Skeleton, WritesTheReleasedCheckpointAsHoles) {
  SynthOptions o = options("out", released_config().dump());
  o.shard_table = r1_table();
  const SynthResult result = synthesise_checkpoint(o, 1);
  EXPECT_EQ(result.files, 166);
  EXPECT_GT(result.bytes, 688'574'839'360u);
  EXPECT_LT(result.written_bytes, 30'000'000u);
  uint64_t sum = 0;
  for (const auto& entry : fs::directory_iterator(o.out_folder)) sum += entry.file_size();
  EXPECT_EQ(sum, result.bytes);

  struct Known {
    size_t shard;
    uint64_t header;
    uint64_t file;
  };
  const Checkpoint checkpoint = Checkpoint::open(o.out_folder);
  EXPECT_EQ(checkpoint.payload_bytes(), 688'574'839'360u);
  for (const Known& known : {Known{1, 34'119, 5'234'139'343}, Known{80, 76'042, 4'302'384'914},
                             Known{163, 48'183, 6'584'784'447}}) {
    const Shard& shard = checkpoint.shards()[known.shard - 1];
    EXPECT_EQ(shard.name, shard_name(known.shard - 1, 163));
    EXPECT_EQ(shard.header_bytes, known.header);
    EXPECT_EQ(shard.file.size(), known.file);
  }
}

TEST_F(Skeleton, DiffersFromTheFullCheckpointInTheDataAlone) {
  SynthOptions o = options("holes", small_config().dump());
  const SynthResult holes = synthesise_checkpoint(o, 1);
  o.out_folder = folder_ / "full";
  o.skeleton = false;
  const SynthResult full = synthesise_checkpoint(o, 2);
  EXPECT_EQ(holes.files, full.files);
  EXPECT_EQ(holes.bytes, full.bytes);
  EXPECT_EQ(full.written_bytes, full.bytes);
  for (const auto& entry : fs::directory_iterator(folder_ / "full")) {
    const std::string name = entry.path().filename();
    std::string expected = read_text(entry.path());
    if (name.ends_with(".safetensors")) {
      const SafetensorsHeader header = read_safetensors_header(File(entry.path()));
      std::fill(expected.begin() + 8 + static_cast<std::ptrdiff_t>(header.header_bytes),
                expected.end(), '\0');
    }
    EXPECT_TRUE(read_text(folder_ / "holes" + ("/" + name)) == expected) << name;
  }
  const uint64_t data = Checkpoint::open(folder_ / "full").payload_bytes();
  EXPECT_EQ(holes.written_bytes, holes.bytes - data);
}

TEST_F(Skeleton, ALiveOneHasTheFullCheckpointsValuesWhereRoutingNeedsThem) {
  json config = small_config();
  config["eos_token_id"] = {12, 13, 28};
  SynthOptions o = options("live", config.dump());
  o.live = true;
  o.live_rows = 8;
  const SynthResult result = synthesise_checkpoint(o, 1);
  o.out_folder = folder_ / "full";
  o.skeleton = false;
  synthesise_checkpoint(o, 2);
  const Checkpoint live = Checkpoint::open(folder_ / "live");
  const Checkpoint full = Checkpoint::open(folder_ / "full");
  check_deepseek_tensors(live, parse_deepseek_config(config.dump(), "config.json"));

  const std::set<int64_t> rows = {0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 28, 29};
  uint64_t written = result.bytes;
  for (const TensorInfo& tensor : full.tensors()) {
    const std::string& name = tensor.name;
    std::string expected = stored(full, name);
    uint64_t live_bytes = expected.size();
    if (name.find("embed_tokens") != std::string::npos || name == names::kHead ||
        name.find("shared_head.head") != std::string::npos) {
      const size_t row = expected.size() / 30;
      for (int64_t id = 0; id < 30; ++id) {
        if (rows.count(id)) continue;
        expected.replace(static_cast<size_t>(id) * row, row, row, '\0');
      }
      live_bytes = rows.size() * row;
    } else if (name.ends_with("eh_proj.weight")) {
      expected.assign(expected.size(), '\0');
      for (size_t i = 0; i < 20; ++i) expected.replace(2 * (i * 40 + i), 2, "\x80\x3f");
      live_bytes = 2 * 20;
    } else if (tensor.shape.size() != 1 && !name.ends_with(".mlp.gate.weight")) {
      expected.assign(expected.size(), '\0');
      live_bytes = 0;
    }
    EXPECT_TRUE(stored(live, name) == expected) << name;
    written -= tensor.bytes - live_bytes;
  }
  EXPECT_EQ(result.written_bytes, written);
}

TEST(SkeletonRows, AreTheFirstTheLastAndTheNamed) {
  EXPECT_EQ(live_token_rows(129280, 4096, {0, 1}), (Rows{{0, 4096}, {128256, 129280}}));
  EXPECT_EQ(live_token_rows(100, 8, {50, 8, 97, -1, 100}), (Rows{{0, 9}, {50, 51}, {97, 100}}));
  EXPECT_EQ(live_token_rows(100, 90, {}), (Rows{{0, 100}}));
  EXPECT_EQ(live_token_rows(100, 1000, {3}), (Rows{{0, 100}}));
  EXPECT_EQ(live_token_rows(100, 1, {}), (Rows{{0, 1}}));
}

std::vector<float> bf16_values(const std::string& bytes) {
  std::vector<float> values(bytes.size() / 2);
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, &bytes[2 * i], 2);
    values[i] = bf16_to_float(bits);
  }
  return values;
}

// The experts whose scores for the token are best; groups set aside.
std::set<size_t> chosen_experts(const Checkpoint& checkpoint, int64_t layer, size_t token) {
  const auto values = [&](const std::string& rest) {
    return bf16_values(stored(checkpoint, names::layer(layer, rest)));
  };
  const std::vector<float> embedding =
      bf16_values(stored(checkpoint, std::string(names::kEmbedding)));
  const std::vector<float> norm = values("post_attention_layernorm.weight");
  const std::vector<float> router = values("mlp.gate.weight");
  const size_t hidden = norm.size();
  std::vector<std::pair<double, size_t>> scores;
  for (size_t expert = 0; expert < router.size() / hidden; ++expert) {
    double sum = 0;
    for (size_t i = 0; i < hidden; ++i) {
      sum += router[expert * hidden + i] * norm[i] * embedding[token * hidden + i];
    }
    scores.emplace_back(-sum, expert);
  }
  std::sort(scores.begin(), scores.end());
  return {scores[0].second, scores[1].second, scores[2].second};
}

TEST_F(Skeleton, RoutesTokensAndLayersDifferently) {
  const std::string config = read_text(test_paths::golden() + "/r1-tiny/config.json");
  SynthOptions o = options("live", config);
  o.live = true;
  o.live_rows = 64;
  synthesise_checkpoint(o, 1);
  const Checkpoint checkpoint = Checkpoint::open(o.out_folder);
  for (const int64_t layer : {1, 2, 3}) {  // 3 is the MTP layer
    std::set<std::set<size_t>> choices;
    std::set<size_t> experts;
    for (size_t token = 0; token < 64; ++token) {
      const std::set<size_t> chosen = chosen_experts(checkpoint, layer, token);
      choices.insert(chosen);
      experts.insert(chosen.begin(), chosen.end());
    }
    EXPECT_GE(choices.size(), 20u);
    EXPECT_EQ(experts.size(), 8u);
  }
  int different = 0;
  for (size_t token = 0; token < 64; ++token) {
    different += chosen_experts(checkpoint, 1, token) != chosen_experts(checkpoint, 2, token);
  }
  EXPECT_GE(different, 48);
}

TEST_F(Skeleton, LeavesNothingBehindWhenCancelled) {
  CancelToken cancel;
  cancel.cancel();
  for (const bool live : {false, true}) {
    SynthOptions o = options("a/out", small_config().dump());
    o.live = live;
    o.cancel = &cancel;
    error_of([&] { synthesise_checkpoint(o, 1); }, ErrorKind::cancelled);
    EXPECT_EQ(folder_.count(), 1);  // given.json
  }
}

TEST_F(Skeleton, FilesThatMustStaySmallAreAnErrorAndNothingIsLeft) {
  const SynthOptions o = options("out", released_config().dump());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{uint64_t{1} << 30, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = error_of([&] { synthesise_checkpoint(o, 1); }, ErrorKind::io);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  expect_contains(message, {folder_ / "out/model-0000", "bytes long"});
  EXPECT_EQ(folder_.count(), 1);
}

TEST_F(Skeleton, SaysHowMuchTheDiskLacks) {
  json config = released_config();
  config["vocab_size"] = 1 << 24;
  config["hidden_size"] = 1 << 16;
  SynthOptions o = options("out", config.dump());
  o.live = true;
  o.shards = 100;
  o.live_rows = 1 << 24;  // 2 TiB for the embedding alone
  expect_contains(error_of([&] { synthesise_checkpoint(o, 1); }, ErrorKind::io),
                  {folder_ / "out", "TiB", "free"});
  EXPECT_EQ(folder_.count(), 1);
}

class ShardTable : public testing::Test {
 protected:
  ShardTable()
      : config_(parse_deepseek_config(small_config().dump(), "config.json")),
        tensors_(released_layout(config_)) {}

  std::vector<size_t> counts(const std::string& text) const {
    return shard_table_counts(text, "t.csv", config_.num_hidden_layers, tensors_);
  }
  void refused(const std::string& text, const std::vector<std::string>& parts) const {
    const std::string message = error_of([&] { counts(text); });
    expect_contains(message, {"t.csv"});
    expect_contains(message, parts);
  }
  // Tensors before the first one of `layer`.
  size_t before(int64_t layer) const {
    size_t count = 0;
    while (names::layer_of(tensors_[count].name).value_or(-1) < layer) ++count;
    return count;
  }

  DeepseekConfig config_;
  std::vector<TensorInfo> tensors_;
};

constexpr const char* kTitle = "shard,first_layer,last_layer,tensors\n";

TEST_F(ShardTable, TakesColumnsInAnyOrderAndLinesOfAnySystem) {
  const size_t n = tensors_.size();
  const size_t two = before(1) + 5;
  const std::string rest = std::to_string(n - two);
  const std::vector<size_t> expected = {two, n - two};
  EXPECT_EQ(counts(kTitle + fmt::format("1,0,1,{}\n2,1,3,{}\n", two, rest)), expected);
  EXPECT_EQ(counts("tensors, bytes, shard, last_layer, first_layer\r\n" +
                   fmt::format("{}, ?, 1, 1, 0\r\n\r\n{}, ?, 2, 3, 1", two, rest)),
            expected);
  // The last layer before the MTP layer has the final norm and the head.
  const size_t head = before(3);
  EXPECT_EQ(counts(kTitle + fmt::format("1,0,2,{}\n2,2,2,1\n3,3,3,{}\n", head - 1, n - head)),
            (std::vector<size_t>{head - 1, 1, n - head}));
}

TEST_F(ShardTable, NamesLineAndField) {
  const size_t n = tensors_.size();
  refused("", {"empty"});
  refused("shard,first_layer,tensors\n1,0,1\n", {"line 1", "last_layer"});
  refused(kTitle + std::string("1,0,0\n"), {"line 2", "3 fields"});
  refused(kTitle + std::string("\n1,0,0,many\n"), {"line 3", "tensors", "many"});
  refused(kTitle + std::string("1,0,0,-1\n"), {"line 2", "tensors", "-1"});
  refused(kTitle + std::string("1,0,0,99999999999999999999\n"), {"line 2", "tensors"});
  refused(kTitle + std::string("1,0,0,1.5\n"), {"line 2", "tensors", "1.5"});
  refused(kTitle + std::string("1,0,0,0\n"), {"line 2", "tensors", "one at least"});
  refused(kTitle + std::string("1,0,0,3\n3,0,0,4\n"), {"line 3", "shard", "2 comes next"});
  refused(kTitle + std::string("1,0,0,3\n2,1,0,4\n"), {"line 3", "first_layer", "it is 0"});
  refused(kTitle + std::string("1,0,x,3\n"), {"line 2", "last_layer", "x"});
  refused(kTitle + std::string("1,0,5,3\n"), {"line 2", "last_layer", "it is 0"});
  refused(kTitle + fmt::format("1,0,3,{}\n", n + 1), {"line 2", "tensors", std::to_string(n)});
  refused(kTitle + std::string("1,0,0,3\n"), {"tensors: 3 in all", std::to_string(n)});
  refused(kTitle, {"tensors: 0 in all"});
}

TEST_F(Skeleton, AWrongTableIsNamedAndNothingIsMade) {
  SynthOptions o = options("out", small_config().dump());
  o.shard_table = r1_table();
  expect_contains(error_of([&] { synthesise_checkpoint(o, 1); }), {r1_table(), "line 2"});
  EXPECT_EQ(folder_.count(), 1);
}

}  // namespace
}  // namespace fathom
