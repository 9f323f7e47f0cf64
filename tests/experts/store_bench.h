// A streamed store over a fake disk, beside a resident one over the same files.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "experts/resident_store.h"
#include "experts/streamed_store.h"
#include "kernels/dispatch.h"
#include "tests/experts/expert_files.h"
#include "tests/experts/fake_reader.h"

namespace fathom {

// Which rows go to which expert.
struct Routing {
  std::vector<std::vector<int32_t>> rows;  // [group]
  std::vector<ExpertGroup> groups;
};

// Each of `rows` rows goes to `each` different experts.
inline Routing random_routing(std::mt19937& random, int64_t experts, int64_t rows, int64_t each) {
  std::vector<std::vector<int32_t>> rows_of(static_cast<size_t>(experts));
  for (int32_t row = 0; row < rows; ++row) {
    std::vector<int64_t> all(static_cast<size_t>(experts));
    for (size_t e = 0; e < all.size(); ++e) all[e] = static_cast<int64_t>(e);
    std::shuffle(all.begin(), all.end(), random);
    for (int64_t k = 0; k < each; ++k) {
      rows_of[static_cast<size_t>(all[static_cast<size_t>(k)])].push_back(row);
    }
  }
  Routing routing;
  std::vector<int64_t> ids;
  for (size_t e = 0; e < rows_of.size(); ++e) {
    if (rows_of[e].empty()) continue;
    ids.push_back(static_cast<int64_t>(e));
    routing.rows.push_back(rows_of[e]);
  }
  for (size_t g = 0; g < ids.size(); ++g) routing.groups.push_back({ids[g], routing.rows[g]});
  return routing;
}

inline Routing routing_of(const std::vector<std::pair<int64_t, std::vector<int32_t>>>& groups) {
  Routing routing;
  for (const auto& group : groups) routing.rows.push_back(group.second);
  for (size_t g = 0; g < groups.size(); ++g) {
    routing.groups.push_back({groups[g].first, routing.rows[g]});
  }
  return routing;
}

// One row to each of the given experts.
inline Routing one_row_to(const std::vector<int64_t>& experts) {
  std::vector<std::pair<int64_t, std::vector<int32_t>>> groups;
  for (const int64_t expert : experts) groups.push_back({expert, {0}});
  return routing_of(groups);
}

class StoreBench {
 public:
  explicit StoreBench(const ExpertFiles& files, int threads = 1)
      : files_(files), pool_(threads), context_(best_kernels(), pool_) {}

  const KernelContext& context() const { return context_; }
  ThreadPool& pool() { return pool_; }

  ResidentExpertStore resident(int64_t row_chunk = 5) {
    return ResidentExpertStore(context_, files_.load(pool_, &memory_), row_chunk);
  }
  ExpertLayout layout() const { return ExpertLayout(files_.open(), files_.config(), true); }
  std::unique_ptr<StreamedExpertStore> streamed(FakeDisk& disk, int64_t slots,
                                                StreamedStoreOptions options = {}) const {
    ExpertLayout layout = this->layout();
    options.cache_bytes = static_cast<uint64_t>(slots) * layout.slot_bytes();
    auto reader = std::make_unique<FakeReader>(disk, layout.paths());
    return std::make_unique<StreamedExpertStore>(context_, std::move(layout), std::move(reader),
                                                 options);
  }

  Matrix input(int64_t rows, uint32_t seed) const {
    Matrix x(rows, files_.config().hidden_size);
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> values(-2, 2);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < x.cols(); ++c) x.row(r)[c] = values(random);
    }
    return x;
  }

 private:
  const ExpertFiles& files_;
  ThreadPool pool_;
  KernelContext context_;
  WeightMemory memory_;
};

// All that a run delivers, one row after the other; checks the order while it is at it.
inline std::vector<float> results(ExpertStore& store, int64_t layer, const Routing& routing,
                                  Span2d<const float> x, const CancelToken* cancel = nullptr) {
  std::vector<float> all;
  int64_t group = 0;
  int64_t row = 0;
  store.run(
      layer, routing.groups, x,
      [&](int64_t g, int64_t first, Span2d<const float> y) {
        if (g != group) {
          EXPECT_EQ(g, group + 1);
          EXPECT_EQ(row, static_cast<int64_t>(routing.rows[static_cast<size_t>(group)].size()));
          group = g;
          row = 0;
        }
        EXPECT_EQ(first, row);
        row += y.rows;
        for (int64_t r = 0; r < y.rows; ++r) all.insert(all.end(), y.row(r), y.row(r) + y.cols);
      },
      cancel);
  size_t expected = 0;
  for (const auto& rows : routing.rows) expected += rows.size();
  EXPECT_EQ(all.size(), expected * static_cast<size_t>(x.cols));
  return all;
}

// A run of layer 2 that is not expected to come to its end.
inline void results_until_error(ExpertStore& store, const Routing& routing, Span2d<const float> x,
                                const CancelToken* cancel = nullptr) {
  store.run(
      2, routing.groups, x, [](int64_t, int64_t, Span2d<const float>) {}, cancel);
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace fathom
