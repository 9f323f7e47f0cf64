#include "kernels/attention/attention.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "numerics/elementary.h"
#include "tests/kernels/same_bits.h"

namespace fathom {
namespace {

constexpr KvFormat kFormats[] = {KvFormat::f32, KvFormat::bf16, KvFormat::int8};

struct Shape {
  KvFormat format = KvFormat::bf16;
  int64_t latent = 64;
  int64_t rope = 16;
  int64_t heads = 4;
};

// A cache of `length` positions in pages of their own, at odd addresses, each page of exactly its
// size; everything past the last position is 0xff bytes (NaN in every format).
class Cache {
 public:
  Cache(const Shape& shape, int64_t length, Random& random) {
    layout_.format = shape.format;
    layout_.latent = shape.latent;
    layout_.rope = shape.rope;
    for (int64_t p = 0; p < length; ++p) {
      if (p % kAttentionBlock == 0) {
        pages_.emplace_back(static_cast<size_t>(kAttentionBlock * layout_.bytes() + 1),
                            std::byte{0xff});
      }
      const std::vector<float> row = random.floats(layout_.width(), -1, 1);
      store_kv_row(layout_, row.data(), at(p));
    }
    for (const auto& page : pages_) blocks_.push_back(page.data() + 1);
  }
  Cache(const Cache& other) : layout_(other.layout_), pages_(other.pages_) {
    for (const auto& page : pages_) blocks_.push_back(page.data() + 1);
  }
  const KvRowLayout& layout() const { return layout_; }
  std::span<const std::byte* const> blocks() const { return blocks_; }
  std::byte* at(int64_t p) {
    return pages_[static_cast<size_t>(p / kAttentionBlock)].data() + 1 +
           p % kAttentionBlock * layout_.bytes();
  }
  std::vector<float> row(int64_t p) {
    std::vector<float> values(static_cast<size_t>(layout_.width()));
    load_kv_row(layout_, at(p), values.data());
    return values;
  }

 private:
  KvRowLayout layout_;
  std::vector<std::vector<std::byte>> pages_;
  std::vector<const std::byte*> blocks_;
};

struct Queries {
  std::vector<int64_t> positions;
  std::vector<int64_t> first;
  std::vector<float> q;  // [tokens * heads, width + 1]
};

Queries make_queries(const Shape& shape, std::vector<int64_t> positions, float size,
                     Random& random) {
  Queries queries;
  const int64_t rows = static_cast<int64_t>(positions.size()) * shape.heads;
  queries.q = random.floats(rows * (shape.latent + shape.rope + 1) + 1, -size, size);
  queries.positions = std::move(positions);
  return queries;
}

LatentAttention problem(const Shape& shape, const Cache& cache, const Queries& queries) {
  LatentAttention a;
  a.layout = cache.layout();
  a.softmax_scale = 0.1352338f;
  a.heads = shape.heads;
  const int64_t rows = static_cast<int64_t>(queries.positions.size()) * shape.heads;
  a.q = {queries.q.data() + 1, rows, cache.layout().width(), cache.layout().width() + 1};
  a.positions = queries.positions;
  a.first = queries.first;
  a.blocks = cache.blocks();
  return a;
}

const KernelContext& context_of(const KernelSet& set, int threads) {
  static ThreadPool pools[] = {ThreadPool(1), ThreadPool(2), ThreadPool(4)};
  static std::map<std::pair<const KernelSet*, int>, KernelContext> contexts;
  return contexts.try_emplace({&set, threads}, set, pools[threads / 2]).first->second;
}

std::vector<float> run(const KernelContext& context, LatentAttention a) {
  // Old contents of the scratch must not matter.
  for (int i = 0; i < context.pool().threads(); ++i) {
    std::memset(context.scratch(i), 0xff, size_t{1} << 20);
  }
  const int64_t stride = a.layout.latent + 2;
  std::vector<float> out(static_cast<size_t>(a.q.rows * stride), 777.0f);
  a.out = {out.data(), a.q.rows, a.layout.latent, stride};
  latent_attention(context, a);
  return out;
}

std::vector<float> run(const KernelSet& set, int threads, const LatentAttention& a) {
  return run(context_of(set, threads), a);
}

// One query by the definition of softmax, in double precision.
std::vector<double> plain(const LatentAttention& a, Cache& cache, int64_t row,
                          std::vector<double>* probabilities = nullptr) {
  const int64_t token = row / a.heads;
  const int64_t first = a.first.empty() ? 0 : a.first[static_cast<size_t>(token)];
  const int64_t last = a.positions[static_cast<size_t>(token)];
  std::vector<double> scores;
  double max = -std::numeric_limits<double>::infinity();
  for (int64_t p = first; p <= last; ++p) {
    const std::vector<float> values = cache.row(p);
    double score = 0;
    for (int64_t k = 0; k < a.layout.width(); ++k) {
      score += static_cast<double>(a.q.row(row)[k]) * values[static_cast<size_t>(k)];
    }
    scores.push_back(score * a.softmax_scale);
    max = std::max(max, scores.back());
  }
  double sum = 0;
  for (double& s : scores) sum += s = std::exp(s - max);
  std::vector<double> out(static_cast<size_t>(a.layout.latent));
  for (int64_t p = first; p <= last; ++p) {
    const std::vector<float> values = cache.row(p);
    const double weight = scores[static_cast<size_t>(p - first)] / sum;
    if (probabilities != nullptr) probabilities->push_back(weight);
    for (size_t c = 0; c < out.size(); ++c) out[c] += weight * values[c];
  }
  return out;
}

std::vector<Shape> shapes(KvFormat format) {
  return {{format, 64, 16, 4},   // r1-trial
          {format, 136, 16, 4},  // r1-tiny
          {format, 512, 64, 5}, {format, 1, 1, 1}, {format, 7, 2, 3},
          {format, 33, 30, 17}, {format, 16, 0, 2}};
}

TEST(Attention, IsTheDefinition) {
  Random random(1);
  for (const KvFormat format : kFormats) {
    for (const Shape& shape : shapes(format)) {
      Cache cache(shape, 200, random);
      Queries queries = make_queries(shape, {0, 5, 63, 64, 127, 130, 199}, 3, random);
      for (const bool padded : {false, true}) {
        if (padded) queries.first = {0, 5, 10, 64, 70, 129, 3};
        const LatentAttention a = problem(shape, cache, queries);
        for (const KernelSet* set : available_kernels()) {
          const std::vector<float> out = run(*set, 1, a);
          for (int64_t row = 0; row < a.q.rows; ++row) {
            const std::vector<double> want = plain(a, cache, row);
            for (int64_t c = 0; c < shape.latent; ++c) {
              ASSERT_NEAR(out[static_cast<size_t>(row * (shape.latent + 2) + c)],
                          want[static_cast<size_t>(c)], 2e-6)
                  << set->name << " row " << row;
            }
          }
        }
      }
    }
  }
}

TEST(Attention, FollowsTheCanonicalOrder) {
  Random random(2);
  const Shape shape{KvFormat::bf16, 40, 9, 1};
  Cache cache(shape, 150, random);
  const Queries queries = make_queries(shape, {149}, 2, random);
  const LatentAttention a = problem(shape, cache, queries);
  const auto tree = [](float* lane) {
    for (int width = 8; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
    }
    return lane[0];
  };
  float m = -std::numeric_limits<float>::infinity();
  float l = 0;
  std::vector<float> o(40, 0.0f);
  for (int64_t base = 0; base < 150; base += 64) {
    const int64_t count = std::min<int64_t>(64, 150 - base);
    float e[64] = {};
    float max = m;
    for (int64_t p = 0; p < count; ++p) {
      const std::vector<float> values = cache.row(base + p);
      float lane[16] = {};
      for (size_t k = 0; k < values.size(); ++k) {
        lane[k % 16] = std::fma(values[k], a.q.row(0)[k], lane[k % 16]);
      }
      e[p] = tree(lane) * a.softmax_scale;
      max = std::max(max, e[p]);
    }
    const float c = exp_f32(m - max);
    float lane[16] = {};
    for (int64_t p = 0; p < 64; ++p) {
      e[p] = p < count ? exp_f32(e[p] - max) : 0.0f;
      lane[p % 16] += e[p];
    }
    l = l * c + tree(lane);
    for (float& v : o) v *= c;
    for (int64_t p = 0; p < count; ++p) {
      const std::vector<float> values = cache.row(base + p);
      for (size_t k = 0; k < o.size(); ++k) o[k] = std::fma(e[p], values[k], o[k]);
    }
    m = max;
  }
  std::vector<float> want(42, 777.0f);
  for (size_t k = 0; k < o.size(); ++k) want[k] = o[k] / l;
  for (const KernelSet* set : available_kernels()) {
    SCOPED_TRACE(set->name);
    expect_same_bits(run(*set, 1, a), want);
  }
}

TEST(Attention, AllSetsAndThreadsGiveTheSameBits) {
  Random random(3);
  for (const KvFormat format : kFormats) {
    for (const Shape& shape : shapes(format)) {
      Cache cache(shape, 300, random);
      for (const int64_t tokens : {1, 2, 3, 5, 17, 40}) {
        std::vector<int64_t> positions;
        for (int64_t t = 0; t < tokens; ++t) positions.push_back(tokens == 1 ? 299 : 110 + t);
        Queries queries = make_queries(shape, positions, 5, random);
        if (tokens == 5) queries.first = {0, 1, 64, 100, 114};
        const LatentAttention a = problem(shape, cache, queries);
        const std::vector<float> want = run(*available_kernels()[0], 1, a);
        for (const KernelSet* set : available_kernels()) {
          for (const int threads : {1, 2, 4}) {
            SCOPED_TRACE(testing::Message() << set->name << " threads " << threads << " tokens "
                                            << tokens << " latent " << shape.latent);
            expect_same_bits(run(*set, threads, a), want);
          }
        }
      }
    }
  }
}

// A token's result is the same alone and among others, and whatever lies behind its position.
TEST(Attention, DoesNotDependOnTheCut) {
  Random random(4);
  for (const KvFormat format : kFormats) {
    const Shape shape{format, 136, 16, 4};
    Cache cache(shape, 150, random);
    std::vector<int64_t> positions;
    for (int64_t p = 0; p < 150; ++p) positions.push_back(p);
    Queries all = make_queries(shape, positions, 4, random);
    const int64_t row_floats = shape.heads * (shape.latent + 2);
    for (const KernelSet* set : available_kernels()) {
      const std::vector<float> want = run(*set, 2, problem(shape, cache, all));
      for (const int64_t chunk : {1, 7, 64}) {
        for (int64_t t = 0; t < 150; t += chunk) {
          const int64_t count = std::min<int64_t>(chunk, 150 - t);
          // Only the positions up to the chunk's own end exist yet.
          Cache young = cache;
          for (int64_t p = t + count; p < 150; ++p) {
            std::memset(young.at(p), 0xff, static_cast<size_t>(young.layout().bytes()));
          }
          LatentAttention a = problem(shape, young, all);
          a.positions = a.positions.subspan(static_cast<size_t>(t), static_cast<size_t>(count));
          a.q = a.q.middle_rows(t * shape.heads, count * shape.heads);
          SCOPED_TRACE(testing::Message() << set->name << " token " << t << " chunk " << chunk);
          expect_same_bits(run(*set, 1, a),
                           std::span(want).subspan(static_cast<size_t>(t * row_floats),
                                                   static_cast<size_t>(count * row_floats)));
        }
      }
    }
  }
}

TEST(Attention, WhatIsMaskedTakesNoPart) {
  Random random(5);
  const Shape shape{KvFormat::f32, 64, 16, 4};
  Cache cache(shape, 200, random);
  // Positions before 130 hold NaN: two blocks and a part of the third are skipped.
  for (int64_t p = 0; p < 130; ++p) {
    std::memset(cache.at(p), 0xff, static_cast<size_t>(cache.layout().bytes()));
  }
  Queries queries = make_queries(shape, {130, 199, 131, 20}, 4, random);
  queries.first = {130, 130, 131, 25};  // the last one sees nothing
  const LatentAttention a = problem(shape, cache, queries);
  for (const KernelSet* set : available_kernels()) {
    SCOPED_TRACE(set->name);
    const std::vector<float> out = run(*set, 1, a);
    const size_t stride = static_cast<size_t>(shape.latent + 2);
    for (int64_t row = 0; row < a.q.rows; ++row) {
      const size_t at = static_cast<size_t>(row) * stride;
      const bool nothing = row >= 12;
      const std::vector<double> want =
          nothing ? std::vector<double>(64, 0.0) : plain(a, cache, row);
      for (size_t c = 0; c < 64; ++c) ASSERT_NEAR(out[at + c], want[c], 2e-6) << row;
    }
  }
}

TEST(Attention, LargeScoresStayFinite) {
  Random random(6);
  const Shape shape{KvFormat::bf16, 64, 16, 3};
  Cache cache(shape, 140, random);
  const Queries queries = make_queries(shape, {139, 0}, 1e6f, random);
  const LatentAttention a = problem(shape, cache, queries);
  const std::vector<float> reference = run(*available_kernels()[0], 1, a);
  for (const float v : reference) EXPECT_TRUE(std::isfinite(v));
  for (const KernelSet* set : available_kernels()) expect_same_bits(run(*set, 1, a), reference);
}

// Scores of minus infinity (an overflow) count as weight 0 and do not turn into NaN.
TEST(Attention, MinusInfinityIsNoWeight) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const KernelSet* set : available_kernels()) {
    SCOPED_TRACE(set->name);
    SoftmaxState state{-kInf, 0.0f, 0.0f};
    std::vector<float> e(64, -kInf);
    set->attention->softmax(e.data(), 3, 40, state);
    expect_same_bits(e, std::vector<float>(64, 0.0f));
    EXPECT_EQ(state.sum, 0.0f);
    EXPECT_EQ(state.factor, 0.0f);
    std::fill(e.begin(), e.end(), -kInf);
    e[10] = 5.0f;
    set->attention->softmax(e.data(), 3, 40, state);
    std::vector<float> want(64, 0.0f);
    want[10] = 1.0f;
    expect_same_bits(e, want);
    EXPECT_EQ(state.sum, 1.0f);
    EXPECT_EQ(state.max, 5.0f);
  }
}

TEST(Attention, ExponentialsAreExpF32) {
  Random random(7);
  for (const KernelSet* set : available_kernels()) {
    SCOPED_TRACE(set->name);
    for (int round = 0; round < 20000; ++round) {
      SoftmaxState state{0.0f, 1.0f, 0.0f};
      std::vector<float> e(64);
      for (float& v : e) {
        v = round % 2 == 0 ? random.between(-110, 0)
                           : std::bit_cast<float>(random.bits() | 0x80000000u);
      }
      std::vector<float> want(e);
      for (float& v : want) v = exp_f32(v);
      set->attention->softmax(e.data(), 0, 64, state);
      expect_same_bits(e, want);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Attention, ProbabilitiesAreThoseOfTheSameComputation) {
  Random random(8);
  for (const KvFormat format : kFormats) {
    const Shape shape{format, 136, 16, 4};
    Cache cache(shape, 150, random);
    Queries queries = make_queries(shape, {0, 63, 64, 100, 149}, 4, random);
    queries.first = {0, 60, 0, 70, 1};
    const LatentAttention a = problem(shape, cache, queries);
    std::vector<float> reference;
    for (const KernelSet* set : available_kernels()) {
      for (const int threads : {1, 4}) {
        const int64_t cols = 152;
        std::vector<float> got(static_cast<size_t>(a.q.rows * cols), 9.0f);
        attention_probabilities(context_of(*set, threads), a, {got.data(), a.q.rows, cols});
        if (reference.empty()) reference = got;
        expect_same_bits(got, reference);
        for (int64_t row = 0; row < a.q.rows; ++row) {
          std::vector<double> seen;
          plain(a, cache, row, &seen);
          const int64_t first = queries.first[static_cast<size_t>(row / shape.heads)];
          for (int64_t p = 0; p < cols; ++p) {
            const bool inside = p >= first && p < first + static_cast<int64_t>(seen.size());
            const double want = inside ? seen[static_cast<size_t>(p - first)] : 0.0;
            ASSERT_NEAR(got[static_cast<size_t>(row * cols + p)], want, 2e-6);
          }
        }
      }
    }
  }
}

TEST(KvRow, FloatsAreExactAndBf16IsNearestEven) {
  const std::vector<float> values = {1.0f,        -2.5f, 0x1.01p0f, 0x1.03p0f,
                                     0x1.0101p0f, 0.0f,  0x1p-130f, 3e38f};
  std::vector<float> back(values.size());
  std::vector<std::byte> row(values.size() * 4 + 1);
  KvRowLayout layout{KvFormat::f32, 5, 3};
  store_kv_row(layout, values.data(), row.data() + 1);
  load_kv_row(layout, row.data() + 1, back.data());
  expect_same_bits(back, values);
  layout.format = KvFormat::bf16;
  store_kv_row(layout, values.data(), row.data() + 1);
  load_kv_row(layout, row.data() + 1, back.data());
  expect_same_bits(back, std::vector<float>{1.0f, -2.5f, 0x1p0f, 0x1.04p0f, 0x1.02p0f, 0.0f,
                                            0x1p-130f, 0x1.c4p127f});
}

TEST(KvRow, Int8IsWithinHalfAStep) {
  Random random(9);
  const KvRowLayout layout{KvFormat::int8, 100, 20};
  ASSERT_EQ(layout.bytes(), 128);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> values = random.floats(120, -1, 1);
    for (size_t i = 0; i < 100; ++i) values[i] = std::ldexp(values[i], round % 60 - 30);
    std::vector<std::byte> row(129);
    std::vector<float> back(120);
    store_kv_row(layout, values.data(), row.data() + 1);
    load_kv_row(layout, row.data() + 1, back.data());
    const auto check = [&](size_t begin, size_t end) {
      float absmax = 0;
      for (size_t i = begin; i < end; ++i) absmax = std::max(absmax, std::fabs(values[i]));
      for (size_t i = begin; i < end; ++i) {
        EXPECT_NEAR(back[i], values[i], absmax / 127 * 0.50001);
        if (std::fabs(values[i]) == absmax) {
          EXPECT_NEAR(back[i], values[i], absmax * 2e-7);
        }
      }
    };
    check(0, 100);  // the parts have scales of their own
    check(100, 120);
  }
}

TEST(KvRow, Int8OfZerosAndOfNan) {
  const KvRowLayout layout{KvFormat::int8, 4, 2};
  std::vector<float> values = {0, 0, -0.0f, 0, 1, -2};
  std::vector<std::byte> row(14);
  std::vector<float> back(6);
  store_kv_row(layout, values.data(), row.data());
  load_kv_row(layout, row.data(), back.data());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(back[static_cast<size_t>(i)], 0.0f);
  EXPECT_EQ(back[5], -2.0f);
  values[1] = std::nanf("");
  store_kv_row(layout, values.data(), row.data());
  load_kv_row(layout, row.data(), back.data());
  EXPECT_TRUE(std::isnan(back[1]));
  values[1] = 0x1p-149f;  // so small that the scale rounds to 0
  store_kv_row(layout, values.data(), row.data());
  load_kv_row(layout, row.data(), back.data());
  EXPECT_EQ(back[1], 0.0f);
}

}  // namespace
}  // namespace fathom
