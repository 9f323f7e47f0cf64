// Dense decoders: outputs of independent float64 passes, and the same bits whatever the
// circumstances.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/file.h"
#include "base/json.h"
#include "base/npy.h"
#include "fathom/model.h"
#include "fathom/session.h"
#include "kernels/dispatch.h"
#include "tests/paths.h"
#include "tests/temporary_folder.h"

namespace fathom {
namespace {

constexpr float kTolerance = 2e-4f;

std::string path_of(const std::string& rest) { return test_paths::golden() + "/" + rest; }

std::vector<int32_t> ids_of(const std::string& path) {
  const nlohmann::json file = parse_json(read_text(path), path);
  return (file.is_array() ? file : file.at("input_ids")).get<std::vector<int32_t>>();
}

LoadOptions tiny(const std::string& name, KvPrecision kv = KvPrecision::bf16) {
  LoadOptions options;
  options.folder = path_of(name);
  options.kv = kv;
  options.threads = 1;
  return options;
}

std::vector<int32_t> some_ids(int32_t count, int32_t salt = 0) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < count; ++i) ids.push_back((i * 37 + i * i * 11 + salt) % 61);
  return ids;
}

void expect_close(const std::vector<float>& ours, const std::vector<float>& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) ASSERT_NEAR(ours[i], theirs[i], kTolerance) << i;
}

testing::AssertionResult same(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << "sizes differ";
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) {
      return testing::AssertionFailure() << "value " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return testing::AssertionSuccess();
}

std::string test_name(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class DenseGolden : public testing::TestWithParam<const char*> {
 protected:
  std::string file(const std::string& name) const { return path_of(GetParam()) + "/" + name; }
};

TEST_P(DenseGolden, LogitsAndHiddenStatesWithF32Cache) {
  ForwardInput input;
  input.ids = ids_of(file("golden.json"));
  LoadOptions options = tiny(GetParam(), KvPrecision::f32);
  options.context = static_cast<int64_t>(input.ids.size());  // dynamic scaling: beyond the config's
  Model model = Model::load(options);
  input.hidden_states = true;
  const ForwardOutput output = model.forward(input);
  expect_close(output.logits, read_npy(file("golden_logits.npy")).values);
  if (std::filesystem::exists(file("golden_hidden.npy"))) {
    expect_close(output.hidden_states, read_npy(file("golden_hidden.npy")).values);
  }
}

class DenseGreedy : public DenseGolden {};

TEST_P(DenseGreedy, IdsWithF32Cache) {
  Model model = Model::load(tiny(GetParam(), KvPrecision::f32));
  const std::vector<int32_t> ids = ids_of(file("golden_greedy.json"));
  GenerateRequest request;
  request.prompt.ids.assign(ids.begin(), ids.begin() + 12);
  request.sampling.temperature = 0;
  request.max_tokens = 24;
  request.ignore_eos = true;
  EXPECT_EQ(model.generate(request).ids, std::vector<int32_t>(ids.begin() + 12, ids.end()));
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, DenseGreedy,
                         testing::Values("qwen2-tiny", "qwen2-tied", "llama3-tiny"), test_name);
INSTANTIATE_TEST_SUITE_P(Checkpoints, DenseGolden,
                         testing::Values("qwen2-tiny", "qwen2-tied", "llama3-tiny", "qwen3-yarn",
                                         "llama-linear", "qwen2-dynamic"),
                         test_name);

class DenseBitsThreads : public testing::TestWithParam<const char*> {
 protected:
  static ForwardOutput outputs(const LoadOptions& options) {
    Model model = Model::load(options);
    ForwardInput input;
    input.ids = some_ids(70);
    input.hidden_states = true;
    return model.forward(input);
  }
};

TEST_P(DenseBitsThreads, KernelsThreadsAndChunks) {
  struct Circumstances {
    KvPrecision kv;
    int threads;
    int64_t chunk;
  };
  for (const auto& [kv, threads, chunk] : {Circumstances{KvPrecision::bf16, 1, 64},
                                           {KvPrecision::bf16, 2, 1},
                                           {KvPrecision::f32, 3, 7},
                                           {KvPrecision::int8, 2, 1000}}) {
    LoadOptions plain = tiny(GetParam(), kv);
    plain.kernels = "reference";
    const ForwardOutput expected = outputs(plain);
    for (const KernelSet* kernels : available_kernels()) {
      LoadOptions options = tiny(GetParam(), kv);
      options.kernels = kernels->name;
      options.threads = threads;
      options.row_chunk = chunk;
      const ForwardOutput got = outputs(options);
      SCOPED_TRACE(testing::Message()
                   << kernels->name << ", " << threads << " threads, chunk " << chunk);
      EXPECT_TRUE(same(got.logits, expected.logits));
      EXPECT_TRUE(same(got.hidden_states, expected.hidden_states));
    }
  }
}

TEST_P(DenseBitsThreads, InPiecesAfterTruncationAndForks) {
  Model model = Model::load(tiny(GetParam()));
  ForwardInput whole;
  whole.ids = some_ids(150);
  const ForwardOutput expected = model.forward(whole);
  const auto vocab = static_cast<std::ptrdiff_t>(expected.vocab);
  for (const std::vector<int>& cuts : {std::vector<int>(150, 1), {1, 63, 65, 21}, {100, 50}}) {
    Cache cache;
    int begin = 0;
    for (const int cut : cuts) {
      // Somebody else goes on from here, and this one loses a little and computes it again.
      Cache fork = cache;
      ForwardInput other;
      other.ids = some_ids(3, 5);
      other.cache = &fork;
      model.forward(other);
      const int back = std::min(begin, 2);
      cache.truncate(begin - back);
      ForwardInput part;
      part.ids.assign(whole.ids.begin() + begin - back, whole.ids.begin() + begin + cut);
      part.cache = &cache;
      EXPECT_TRUE(same(model.forward(part).logits,
                       std::vector<float>(expected.logits.begin() + (begin - back) * vocab,
                                          expected.logits.begin() + (begin + cut) * vocab)));
      begin += cut;
    }
  }
}

TEST_P(DenseBitsThreads, BatchesAndSamplesAreAsAlone) {
  LoadOptions options = tiny(GetParam());
  options.threads = 2;
  Model model = Model::load(options);
  std::vector<GenerateRequest> requests;
  for (const int32_t count : {70, 1, 129, 64, 13}) {
    GenerateRequest& request = requests.emplace_back();
    request.prompt.ids = some_ids(count, count);
    request.sampling.temperature = 0.9;
    request.sampling.seed = 7;
    request.max_tokens = 12;
    request.ignore_eos = true;
  }
  const std::vector<GenerateResult> together = model.generate(requests, 4);
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_FALSE(together[i].error) << together[i].error->what();
    EXPECT_EQ(together[i].ids, model.generate(requests[i]).ids);
  }
  const std::vector<GenerateResult> samples = model.generate_samples(requests[0], 3);
  for (uint64_t i = 0; i < samples.size(); ++i) {
    GenerateRequest alone = requests[0];
    alone.sampling.choice = i;
    EXPECT_EQ(samples[i].ids, model.generate(alone).ids);
  }
}

TEST_P(DenseBitsThreads, GoesOnFromASnapshotAtEveryToken) {
  const TemporaryFolder folder;
  GenerateRequest request;
  request.prompt.ids = some_ids(60);
  request.sampling.temperature = 0.8;
  request.max_tokens = 8;
  request.ignore_eos = true;
  Model first = Model::load(tiny(GetParam()));
  const std::vector<int32_t> expected = first.generate(request).ids;
  Cache cache;
  GenerateRequest saving = request;
  saving.cache = &cache;
  int64_t token = 0;
  saving.on_step = [&](const GenerateStep&) {
    Session::save_cache(first, cache, folder / std::to_string(token++));
    return true;
  };
  first.generate(saving);
  ASSERT_EQ(token, 8);
  LoadOptions other = tiny(GetParam());
  other.threads = 2;
  other.row_chunk = 5;
  Model second = Model::load(other);
  for (int64_t at = 0; at < token; ++at) {
    Cache loaded = Session::load_cache(second, folder / std::to_string(at));
    EXPECT_GT(loaded.length(), 0);
    GenerateRequest rest = request;
    rest.cache = &loaded;
    rest.resume.assign(expected.begin(), expected.begin() + at);
    EXPECT_EQ(second.generate(rest).ids, expected) << at;
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, DenseBitsThreads,
                         testing::Values("qwen2-tied", "llama3-tiny", "qwen3-yarn"), test_name);

TEST(Dense, AttentionsAreProbabilities) {
  Model model = Model::load(tiny("qwen2-tiny"));
  ForwardInput input;
  input.ids = some_ids(70);
  input.attentions = true;
  const ForwardOutput output = model.forward(input);
  ASSERT_EQ(output.heads, 8);
  for (int64_t row = 0; row < output.heads * output.layers * 70; ++row) {
    const float* p = output.attentions.data() + row * output.positions;
    EXPECT_NEAR(std::accumulate(p, p + output.positions, 0.0), 1, 1e-5);
    for (int64_t future = row % 70 + 1; future < output.positions; ++future) {
      ASSERT_EQ(p[future], 0);
    }
  }
}

std::string refusal(const LoadOptions& options) {
  try {
    Model::load(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Dense, RefusesWhatItHasNot) {
  LoadOptions mtp = tiny("qwen2-tiny");
  mtp.mtp = true;
  EXPECT_NE(refusal(mtp).find("there is no MTP layer"), std::string::npos);
  LoadOptions trace = tiny("qwen2-tiny");
  trace.expert_trace = "routes";
  EXPECT_NE(refusal(trace).find("no routed experts"), std::string::npos);
  LoadOptions tied = tiny("qwen2-tied");
  tied.head = WeightPrecision::int8;
  EXPECT_NE(refusal(tied).find("--head and --embed must be the same"), std::string::npos);
}

TEST(Dense, EightBitHeadAndEmbedding) {
  for (const char* name : {"qwen2-tied", "llama3-tiny"}) {
    LoadOptions options = tiny(name);
    Model native = Model::load(options);
    options.head = WeightPrecision::int8;
    options.embed = WeightPrecision::int8;
    Model rounded = Model::load(options);
    ForwardInput input;
    input.ids = some_ids(20);
    const std::vector<float> a = native.forward(input).logits;
    const std::vector<float> b = rounded.forward(input).logits;
    double difference = 0, size = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      difference += std::pow(a[i] - b[i], 2);
      size += std::pow(a[i], 2);
    }
    EXPECT_GT(difference, 0);
    EXPECT_LT(difference, 0.01 * size);
  }
}

TEST(Dense, TooLittleMemoryGivesTheTable) {
  LoadOptions options = tiny("llama3-tiny");
  options.ram = 1 << 20;
  const std::string message = refusal(options);
  for (const char* part : {"attention", "dense MLP", "KV cache", "--ctx"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
  }
}

}  // namespace
}  // namespace fathom
