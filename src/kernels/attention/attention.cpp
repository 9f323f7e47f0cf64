#include "kernels/attention/attention.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "kernels/combine/combine.h"
#include "kernels/dispatch.h"
#include "numerics/elementary.h"

namespace fathom {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int64_t kGroupRows = 64;  // queries that share a decoded block
constexpr int64_t kScratchFloats = KernelContext::kScratchBytes / sizeof(float);

int64_t pad16(int64_t n) { return (n + 15) / 16 * 16; }

// Which rows of a block a token sees: [begin, end), empty where begin >= end.
struct Seen {
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const Seen&) const = default;
  bool empty() const { return begin >= end; }
};

int64_t first_seen(const LatentAttention& a, int64_t token) {
  return a.first.empty() ? 0 : std::max<int64_t>(0, a.first[static_cast<size_t>(token)]);
}

Seen seen_in_block(const LatentAttention& a, int64_t token, int64_t block) {
  const int64_t base = block * kAttentionBlock;
  const int64_t position = a.positions[static_cast<size_t>(token)];
  return {std::max<int64_t>(first_seen(a, token) - base, 0),
          std::min(position + 1 - base, kAttentionBlock)};
}

// Queries of one key-value head, counted through tokens: rows [row0, row0 + rows) of one worker,
// and its scratch. Everything is padded to 16 floats, so that the products have no tails; the
// padding of queries and of a block's end is zero.
class Group {
 public:
  static int64_t floats(const KvRowLayout& layout, int64_t rows) {
    const int64_t per_row = pad16(layout.width()) + pad16(layout.latent) + kAttentionBlock + 4;
    return rows * per_row + kAttentionBlock * panel_width(layout);
  }

  struct Rows {
    int64_t head;  // of the cache
    int64_t first;
    int64_t count;
  };
  Group(const KernelContext& context, const LatentAttention& a, const Rows& part, int worker)
      : a_(a),
        combine_(*context.kernels().combine),
        attention_(*context.kernels().attention),
        head_(part.head),
        row0_(part.first),
        rows_(part.count),
        shared_(a.heads / a.layout.heads),
        width_(panel_width(a.layout)),
        key_(a.keys_apart ? a.layout.latent : 0),
        key_width_(pad16(a.query_width())),
        latent_(pad16(a.layout.latent)) {
    const int64_t rows = part.count;
    float* scratch = reinterpret_cast<float*>(context.scratch(worker));
    const auto take = [&](int64_t count) { return std::exchange(scratch, scratch + count); };
    panel_ = take(kAttentionBlock * width_);
    q_ = take(rows * key_width_);
    o_ = take(rows * latent_);
    e_ = take(rows * kAttentionBlock);
    factor_ = take(rows);
    state_ = reinterpret_cast<SoftmaxState*>(take(rows * 3));
    static_assert(sizeof(SoftmaxState) == 3 * sizeof(float));

    for (int64_t p = 0; p < kAttentionBlock; ++p) {
      std::fill(panel_ + p * width_ + a.layout.width(), panel_ + (p + 1) * width_, 0.0f);
    }
    for (int64_t i = 0; i < rows; ++i) {
      float* q = q_ + i * key_width_;
      std::copy_n(a.q.row(query_row(i)), a.query_width(), q);
      std::fill(q + a.query_width(), q + key_width_, 0.0f);
      state_[i] = {-kInf, 0.0f, 0.0f};
    }
    std::fill_n(o_, rows * latent_, 0.0f);
  }

  int64_t first_token() const { return row0_ / shared_; }
  int64_t last_token() const { return (row0_ + rows_ - 1) / shared_; }
  int64_t token(int64_t i) const { return (row0_ + i) / shared_; }
  // Of the group's row i in the caller's queries.
  int64_t query_row(int64_t i) const {
    return token(i) * a_.heads + head_ * shared_ + (row0_ + i) % shared_;
  }
  const SoftmaxState& state(int64_t i) const { return state_[i]; }

  // Calls step(first row, rows, seen) for every run of queries that see the same part of a block,
  // in ascending blocks, with the block decoded.
  template <typename Step>
  void walk(const Step& step) {
    int64_t low = std::numeric_limits<int64_t>::max();
    int64_t high = -1;
    for (int64_t t = first_token(); t <= last_token(); ++t) {
      low = std::min(low, first_seen(a_, t));
      high = std::max(high, a_.positions[static_cast<size_t>(t)]);
    }
    for (int64_t block = low / kAttentionBlock; block * kAttentionBlock <= high; ++block) {
      Seen all{kAttentionBlock, 0};
      for (int64_t t = first_token(); t <= last_token(); ++t) {
        const Seen seen = seen_in_block(a_, t, block);
        if (seen.empty()) continue;
        all = {std::min(all.begin, seen.begin), std::max(all.end, seen.end)};
      }
      if (all.empty()) continue;
      attention_.load_rows(a_.layout,
                           a_.blocks[static_cast<size_t>(block)] + all.begin * a_.layout.bytes() +
                               head_ * a_.layout.head_bytes(),
                           all.end - all.begin, panel_ + all.begin * width_, width_);
      for (int64_t t = first_token(); t <= last_token();) {
        const Seen seen = seen_in_block(a_, t, block);
        int64_t after = t + 1;
        while (after <= last_token() && seen_in_block(a_, after, block) == seen) ++after;
        if (!seen.empty()) {
          const int64_t begin = std::max(t * shared_, row0_) - row0_;
          const int64_t end = std::min(after * shared_ - row0_, rows_);
          step(block, begin, end - begin, seen);
        }
        t = after;
      }
    }
  }

  // The scaled scores of a run; row i's are at the returned pointer + i * kAttentionBlock.
  float* scores(int64_t row, int64_t count, Seen seen) {
    DotTile tile;
    tile.q = q_ + row * key_width_;
    tile.q_stride = key_width_;
    tile.w = panel_ + seen.begin * width_ + key_;
    tile.w_stride = width_;
    tile.out = e_ + row * kAttentionBlock + seen.begin;
    tile.out_stride = kAttentionBlock;
    tile.n = count;
    tile.rows = seen.end - seen.begin;
    tile.width = key_width_;
    tile.scale = a_.softmax_scale;
    attention_.dots(tile);
    return e_ + row * kAttentionBlock;
  }

  void softmax(int64_t row, int64_t count, Seen seen) {
    for (int64_t i = row; i < row + count; ++i) {
      attention_.softmax(e_ + i * kAttentionBlock, seen.begin, seen.end, state_[i]);
      factor_[i] = state_[i].factor;
    }
  }

  void add_latents(int64_t row, int64_t count, Seen seen) {
    UpdateTile tile;
    tile.p = e_ + row * kAttentionBlock + seen.begin;
    tile.p_stride = kAttentionBlock;
    tile.w = panel_ + seen.begin * width_;
    tile.w_stride = width_;
    tile.y = o_ + row * latent_;
    tile.y_stride = latent_;
    tile.n = count;
    tile.rows = seen.end - seen.begin;
    tile.cols = latent_;
    tile.factor = factor_ + row;
    combine_.update(tile);
  }

  // o / l; a query that saw nothing gives zeros.
  void finish() {
    for (int64_t i = 0; i < rows_; ++i) {
      float* out = a_.out.row(query_row(i));
      const float sum = state_[i].sum;
      for (int64_t c = 0; c < a_.layout.latent; ++c) {
        out[c] = sum == 0.0f ? 0.0f : o_[i * latent_ + c] / sum;
      }
    }
  }

 private:
  // A decoded row, and room behind it for the padding of a key that begins anywhere.
  static int64_t panel_width(const KvRowLayout& layout) { return pad16(layout.width() + 15); }

  const LatentAttention& a_;
  const CombineKernels& combine_;
  const AttentionKernels& attention_;
  int64_t head_;
  int64_t row0_;
  int64_t rows_;
  int64_t shared_;     // query heads of one key-value head
  int64_t width_;      // padded
  int64_t key_;        // where in a row the part begins that scores are over
  int64_t key_width_;  // padded
  int64_t latent_;     // padded
  float* panel_;       // [kAttentionBlock, width]: the decoded block
  float* q_;           // [rows, key_width]
  float* o_;           // [rows, latent]
  float* e_;           // [rows, kAttentionBlock]: scores, then their exponentials
  float* factor_;      // [rows]
  SoftmaxState* state_;
};

int64_t divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }

// The groups of all key-value heads: large enough to share a decoded block well, and as many for
// each thread.
class Groups {
 public:
  Groups(const KernelContext& context, const LatentAttention& a)
      : rows_(a.q.rows / a.layout.heads) {
    int64_t most = kGroupRows;
    while (most > 1 && Group::floats(a.layout, most) > kScratchFloats) --most;
    if (Group::floats(a.layout, most) > kScratchFloats) {
      fail_input(
          "attention over a cached row of {} values does not fit the scratch memory of {} "
          "bytes",
          a.layout.width(), KernelContext::kScratchBytes);
    }
    const int64_t threads = context.pool().threads();
    const int64_t even = threads / std::gcd(threads, a.layout.heads);
    per_group_ = divide_up(rows_, divide_up(divide_up(rows_, most), even) * even);
    in_head_ = divide_up(rows_, per_group_);
    count_ = in_head_ * a.layout.heads;
  }
  int64_t count() const { return count_; }
  Group::Rows operator[](int64_t index) const {
    const int64_t first = index % in_head_ * per_group_;
    return {index / in_head_, first, std::min(per_group_, rows_ - first)};
  }

 private:
  int64_t rows_;  // of one key-value head
  int64_t per_group_;
  int64_t in_head_;
  int64_t count_;
};

}  // namespace

void latent_attention(const KernelContext& context, const LatentAttention& a) {
  if (a.q.rows == 0) return;
  const Groups groups(context, a);
  context.pool().parallel_for(groups.count(), [&](int64_t index, int worker) {
    Group group(context, a, groups[index], worker);
    group.walk([&](int64_t, int64_t row, int64_t count, Seen seen) {
      group.scores(row, count, seen);
      group.softmax(row, count, seen);
      group.add_latents(row, count, seen);
    });
    group.finish();
  });
}

void attention_probabilities(const KernelContext& context, const LatentAttention& a,
                             Span2d<float> probabilities) {
  if (a.q.rows == 0) return;
  const Groups groups(context, a);
  context.pool().parallel_for(groups.count(), [&](int64_t index, int worker) {
    const Group::Rows part = groups[index];
    const int64_t rows = part.count;
    Group group(context, a, part, worker);
    for (int64_t i = 0; i < rows; ++i) {
      std::fill_n(probabilities.row(group.query_row(i)), probabilities.cols, 0.0f);
    }
    group.walk([&](int64_t block, int64_t row, int64_t count, Seen seen) {
      const float* scores = group.scores(row, count, seen);
      for (int64_t i = 0; i < count; ++i) {
        std::copy(
            scores + i * kAttentionBlock + seen.begin, scores + i * kAttentionBlock + seen.end,
            probabilities.row(group.query_row(row + i)) + block * kAttentionBlock + seen.begin);
      }
      group.softmax(row, count, seen);
    });
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t token = group.token(i);
      const SoftmaxState& state = group.state(i);
      const float max = state.max == -kInf ? 0.0f : state.max;
      float* row = probabilities.row(group.query_row(i));
      for (int64_t p = first_seen(a, token); p <= a.positions[static_cast<size_t>(token)]; ++p) {
        row[p] = state.sum == 0.0f ? 0.0f : exp_f32(row[p] - max) / state.sum;
      }
    }
  });
}

}  // namespace fathom
