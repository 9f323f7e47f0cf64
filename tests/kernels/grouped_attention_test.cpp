// Attention with grouped queries: pairs of value and key for each key-value head.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>

#include "kernels/attention/attention.h"
#include "tests/kernels/same_bits.h"

namespace fathom {
namespace {

constexpr int64_t kPositions = 150;

struct Shape {
  KvFormat format = KvFormat::bf16;
  int64_t dim = 64;
  int64_t heads = 8;
  int64_t kv_heads = 2;
};

std::vector<Shape> shapes() {
  std::vector<Shape> list;
  for (const KvFormat format : {KvFormat::f32, KvFormat::bf16, KvFormat::int8}) {
    for (const auto& [dim, heads, kv_heads] : {std::array<int64_t, 3>{128, 12, 2},
                                               {16, 8, 2},
                                               {32, 4, 1},
                                               {18, 6, 3},
                                               {2, 3, 3},
                                               {7, 10, 5}}) {
      list.push_back({format, dim, heads, kv_heads});
    }
  }
  return list;
}

// Pages of their own at odd addresses; what lies behind the last position is NaN.
class Problem {
 public:
  Problem(const Shape& shape, std::vector<int64_t> positions, Random& random)
      : shape_(shape),
        positions_(std::move(positions)),
        layout_{shape.format, shape.dim, shape.dim, shape.kv_heads} {
    for (int64_t p = 0; p < kPositions; ++p) {
      if (p % kAttentionBlock == 0) {
        pages_.emplace_back(static_cast<size_t>(kAttentionBlock * layout_.bytes() + 1),
                            std::byte{0xff});
      }
      for (int64_t g = 0; g < shape.kv_heads; ++g) {
        store_kv_row(layout_, random.floats(2 * shape.dim, -2, 2).data(), at(p, g));
      }
    }
    for (const auto& page : pages_) blocks_.push_back(page.data() + 1);
    q_ = random.floats(tokens() * shape.heads * shape.dim, -3, 3);
  }

  int64_t tokens() const { return static_cast<int64_t>(positions_.size()); }
  const Shape& shape() const { return shape_; }
  LatentAttention attention() const {
    LatentAttention a;
    a.layout = layout_;
    a.keys_apart = true;
    a.softmax_scale = 0.3f;
    a.heads = shape_.heads;
    a.q = {q_.data(), tokens() * shape_.heads, shape_.dim, shape_.dim};
    a.positions = positions_;
    a.blocks = blocks_;
    return a;
  }
  // Value, then key.
  std::vector<float> pair(int64_t position, int64_t kv_head) const {
    std::vector<float> values(static_cast<size_t>(2 * shape_.dim));
    load_kv_row(layout_, at(position, kv_head), values.data());
    return values;
  }

 private:
  std::byte* at(int64_t p, int64_t g) const {
    return const_cast<std::byte*>(pages_[static_cast<size_t>(p / kAttentionBlock)].data()) + 1 +
           p % kAttentionBlock * layout_.bytes() + g * layout_.head_bytes();
  }

  Shape shape_;
  std::vector<int64_t> positions_;
  KvRowLayout layout_;
  std::vector<std::vector<std::byte>> pages_;
  std::vector<const std::byte*> blocks_;
  std::vector<float> q_;
};

const KernelContext& context_of(const KernelSet& set, int threads) {
  static ThreadPool pools[] = {ThreadPool(1), ThreadPool(3)};
  static std::map<std::pair<const KernelSet*, int>, KernelContext> contexts;
  return contexts.try_emplace({&set, threads}, set, pools[threads / 2]).first->second;
}

std::vector<float> run(const KernelSet& set, int threads, LatentAttention a) {
  const KernelContext& context = context_of(set, threads);
  for (int i = 0; i < threads; ++i) std::memset(context.scratch(i), 0xff, size_t{1} << 20);
  std::vector<float> out(static_cast<size_t>(a.q.rows * a.layout.latent), 777.0f);
  a.out = {out.data(), a.q.rows, a.layout.latent, a.layout.latent};
  latent_attention(context, a);
  return out;
}

// One query by the definition of softmax, in double precision.
std::vector<double> plain(const Problem& problem, int64_t row, std::vector<double>* weights) {
  const LatentAttention a = problem.attention();
  const Shape& shape = problem.shape();
  const int64_t kv_head = row % shape.heads / (shape.heads / shape.kv_heads);
  const int64_t last = a.positions[static_cast<size_t>(row / shape.heads)];
  double max = -INFINITY;
  for (int64_t p = 0; p <= last; ++p) {
    const std::vector<float> pair = problem.pair(p, kv_head);
    double score = 0;
    for (int64_t k = 0; k < shape.dim; ++k) {
      score += static_cast<double>(a.q.row(row)[k]) * pair[static_cast<size_t>(shape.dim + k)];
    }
    weights->push_back(score * a.softmax_scale);
    max = std::max(max, weights->back());
  }
  double sum = 0;
  for (double& w : *weights) sum += w = std::exp(w - max);
  std::vector<double> out(static_cast<size_t>(shape.dim));
  for (int64_t p = 0; p <= last; ++p) {
    (*weights)[static_cast<size_t>(p)] /= sum;
    const std::vector<float> pair = problem.pair(p, kv_head);
    for (size_t c = 0; c < out.size(); ++c) {
      out[c] += (*weights)[static_cast<size_t>(p)] * pair[c];
    }
  }
  return out;
}

TEST(GroupedAttention, IsTheDefinition) {
  Random random(1);
  for (const Shape& shape : shapes()) {
    const Problem problem(shape, {0, 5, 63, 64, 149}, random);
    const LatentAttention a = problem.attention();
    for (const KernelSet* set : available_kernels()) {
      SCOPED_TRACE(testing::Message() << set->name << " dim " << shape.dim);
      const std::vector<float> out = run(*set, 1, a);
      std::vector<float> seen(static_cast<size_t>(a.q.rows * kPositions));
      attention_probabilities(context_of(*set, 1), a, {seen.data(), a.q.rows, kPositions});
      for (int64_t row = 0; row < a.q.rows; ++row) {
        std::vector<double> weights;
        const std::vector<double> want = plain(problem, row, &weights);
        for (size_t c = 0; c < want.size(); ++c) {
          ASSERT_NEAR(out[static_cast<size_t>(row) * want.size() + c], want[c], 4e-6) << row;
        }
        weights.resize(kPositions);
        for (size_t p = 0; p < weights.size(); ++p) {
          ASSERT_NEAR(seen[static_cast<size_t>(row * kPositions) + p], weights[p], 4e-6);
        }
      }
    }
  }
}

TEST(GroupedAttentionThreads, AllSetsAndThreadsGiveTheSameBits) {
  Random random(2);
  for (const Shape& shape : shapes()) {
    for (const int64_t tokens : {1, 2, 5, 40}) {
      std::vector<int64_t> positions;
      for (int64_t t = 0; t < tokens; ++t) positions.push_back(tokens == 1 ? 149 : 50 + t);
      const Problem problem(shape, positions, random);
      const std::vector<float> want = run(*available_kernels()[0], 1, problem.attention());
      for (const KernelSet* set : available_kernels()) {
        for (const int threads : {1, 3}) {
          SCOPED_TRACE(testing::Message() << set->name << " threads " << threads << " tokens "
                                          << tokens << " dim " << shape.dim);
          expect_same_bits(run(*set, threads, problem.attention()), want);
        }
      }
    }
  }
}

// Tokens alone and together; and only what a head of the cache holds itself matters to its queries.
TEST(GroupedAttention, DoesNotDependOnCompany) {
  Random random(3);
  const Problem problem({KvFormat::int8, 18, 6, 3}, {3, 70, 71, 149}, random);
  const LatentAttention all = problem.attention();
  for (const KernelSet* set : available_kernels()) {
    SCOPED_TRACE(set->name);
    const std::vector<float> want = run(*set, 1, all);
    for (int64_t t = 0; t < problem.tokens(); ++t) {
      LatentAttention one = all;
      one.q = all.q.middle_rows(t * 6, 6);
      one.positions = all.positions.subspan(static_cast<size_t>(t), 1);
      expect_same_bits(run(*set, 1, one),
                       std::span(want).subspan(static_cast<size_t>(t * 6 * 18), 6 * 18));
    }
  }
}

}  // namespace
}  // namespace fathom
