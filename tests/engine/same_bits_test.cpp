// The same tokens and logits whatever the circumstances: threads, kernels, chunks, company, cache.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "base/threads.h"
#include "cache/kv_cache.h"
#include "engine/engine.h"
#include "fathom/model.h"
#include "kernels/dispatch.h"
#include "tests/paths.h"

namespace fathom {
namespace {

LoadOptions tiny(KvPrecision kv = KvPrecision::bf16) {
  LoadOptions options;
  options.folder = test_paths::golden() + "/r1-tiny";
  options.kv = kv;
  options.mtp = true;
  options.threads = 1;
  return options;
}

// Long enough to span three cache pages.
std::vector<int32_t> some_ids(int32_t count, int32_t salt = 0) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < count; ++i) ids.push_back((i * 37 + i * i * 11 + salt) % 263);
  return ids;
}

ForwardOutput outputs(const LoadOptions& options, int32_t count) {
  Model model = Model::load(options);
  ForwardInput input;
  input.ids = some_ids(count);
  input.mtp_logits = true;
  input.hidden_states = true;
  return model.forward(input);
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

TEST(SameBitsThreads, KernelsThreadsAndChunks) {
  struct Circumstances {
    KvPrecision kv;
    int threads;
    int64_t chunk;
  };
  for (const auto& [kv, threads, chunk] : {Circumstances{KvPrecision::bf16, 1, 64},
                                           {KvPrecision::bf16, 2, 1},
                                           {KvPrecision::bf16, 4, 1000},
                                           {KvPrecision::f32, 3, 7},
                                           {KvPrecision::int8, 2, 64}}) {
    LoadOptions plain = tiny(kv);
    plain.kernels = "reference";
    const ForwardOutput expected = outputs(plain, 70);
    for (const KernelSet* kernels : available_kernels()) {
      LoadOptions options = tiny(kv);
      options.kernels = kernels->name;
      options.threads = threads;
      options.row_chunk = chunk;
      const ForwardOutput got = outputs(options, 70);
      SCOPED_TRACE(std::string(kernels->name) + ", " + std::to_string(threads) +
                   " threads, chunk " + std::to_string(chunk));
      EXPECT_TRUE(same(got.logits, expected.logits));
      EXPECT_TRUE(same(got.mtp_logits, expected.mtp_logits));
      EXPECT_TRUE(same(got.hidden_states, expected.hidden_states));
    }
  }
}

TEST(SameBits, OneTokenAtATimeAndInPieces) {
  Model model = Model::load(tiny());
  ForwardInput input;
  input.ids = some_ids(150);
  const ForwardOutput expected = model.forward(input);
  for (const std::vector<size_t>& cuts :
       {std::vector<size_t>(150, 1), std::vector<size_t>{64, 64, 22}, {1, 63, 65, 21}, {100, 50}}) {
    Cache cache;
    std::vector<float> logits;
    size_t begin = 0;
    for (const size_t cut : cuts) {
      ForwardInput part;
      part.ids.assign(input.ids.begin() + static_cast<std::ptrdiff_t>(begin),
                      input.ids.begin() + static_cast<std::ptrdiff_t>(begin + cut));
      part.cache = &cache;
      const ForwardOutput output = model.forward(part);
      logits.insert(logits.end(), output.logits.begin(), output.logits.end());
      begin += cut;
    }
    EXPECT_TRUE(same(logits, expected.logits));
  }
}

TEST(SameBits, AfterTruncationAndForks) {
  Model model = Model::load(tiny());
  ForwardInput input;
  input.ids = some_ids(100);
  const ForwardOutput expected = model.forward(input);

  Cache cache;
  ForwardInput first;
  first.ids.assign(input.ids.begin(), input.ids.begin() + 70);
  first.cache = &cache;
  model.forward(first);
  Cache fork = cache;
  ForwardInput other;
  other.ids = some_ids(40, 5);
  other.cache = &fork;
  model.forward(other);  // writes into pages that both share

  cache.truncate(66);
  ForwardInput rest;
  rest.ids.assign(input.ids.begin() + 66, input.ids.end());
  rest.cache = &cache;
  const ForwardOutput output = model.forward(rest);
  const auto vocab = static_cast<std::ptrdiff_t>(output.vocab);
  EXPECT_TRUE(same(output.logits, std::vector<float>(expected.logits.begin() + 66 * vocab,
                                                     expected.logits.end())));
}

TEST(SameBits, LeftPaddingWithAMask) {
  Model model = Model::load(tiny());
  ForwardInput plain;
  plain.ids = some_ids(30);
  plain.attentions = true;
  plain.hidden_states = true;
  const ForwardOutput expected = model.forward(plain);

  ForwardInput padded = plain;
  padded.ids.insert(padded.ids.begin(), 5, 0);
  padded.attention_mask.assign(35, 1);
  std::fill_n(padded.attention_mask.begin(), 5, 0);
  const ForwardOutput output = model.forward(padded);
  const auto vocab = static_cast<std::ptrdiff_t>(output.vocab);
  EXPECT_EQ(output.logits.size(), 35u * static_cast<size_t>(vocab));
  EXPECT_TRUE(same(std::vector<float>(output.logits.begin() + 5 * vocab, output.logits.end()),
                   expected.logits));
  // Attention probabilities: every row sums to 1 over what it may see, and padding has none.
  for (int64_t row = 0; row < output.heads * output.layers * 35; ++row) {
    const float* p = output.attentions.data() + row * output.positions;
    const bool is_padding = row % 35 < 5;
    EXPECT_NEAR(std::accumulate(p, p + output.positions, 0.0), is_padding ? 0 : 1, 1e-5);
    EXPECT_EQ(std::accumulate(p, p + 5, 0.0), 0);
  }
}

// Rows of several sequences in one sweep, as continuous batching and verification will run them.
TEST(SameBits, InCompanyOfOtherSequences) {
  Engine engine(tiny());
  const auto run = [&engine](const std::vector<std::vector<int32_t>>& prompts) {
    std::vector<KvSequence> caches(prompts.size(), KvSequence(*engine.pages()));
    Sweep sweep;
    for (size_t s = 0; s < prompts.size(); ++s) {
      for (size_t i = 0; i < prompts[s].size(); ++i) {
        const auto index = static_cast<int64_t>(i);
        sweep.rows.push_back({prompts[s][i], index, index, &caches[s], i + 1 == prompts[s].size()});
      }
    }
    engine.model().begin(sweep);
    engine.run(sweep, nullptr, {});
    Matrix hidden(static_cast<int64_t>(prompts.size()), engine.shape().hidden_size);
    engine.model().final_hidden(sweep, hidden);
    Matrix logits(hidden.rows(), engine.shape().vocab_size);
    engine.model().head(hidden, logits);
    return std::vector<float>(logits.data(), logits.data() + logits.rows() * logits.cols());
  };
  const std::vector<std::vector<int32_t>> prompts = {some_ids(70), some_ids(1, 3), some_ids(129, 9),
                                                     some_ids(64, 2), some_ids(13, 77)};
  std::vector<float> alone;
  for (const auto& prompt : prompts) {
    const std::vector<float> logits = run({prompt});
    alone.insert(alone.end(), logits.begin(), logits.end());
  }
  EXPECT_TRUE(same(run(prompts), alone));
}

TEST(SameBits, InputEmbeddingsInsteadOfIds) {
  Model model = Model::load(tiny());
  ForwardInput by_id;
  by_id.ids = some_ids(20);
  by_id.hidden_states = true;
  const ForwardOutput expected = model.forward(by_id);
  ForwardInput by_embedding;
  by_embedding.embeddings.assign(expected.hidden_states.begin(),
                                 expected.hidden_states.begin() + 20 * expected.hidden);
  EXPECT_TRUE(same(model.forward(by_embedding).logits, expected.logits));
}

}  // namespace
}  // namespace fathom
