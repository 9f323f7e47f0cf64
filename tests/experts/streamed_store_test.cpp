#include "experts/streamed_store.h"

#include <gtest/gtest.h>

#include "tests/experts/store_bench.h"

namespace fathom {
namespace {

// Many layers one after the other, as decoding and prefill mixed would ask for them.
void expect_same_as_resident(StoreBench& bench, ExpertStore& streamed, ExpertStore& resident,
                             int64_t experts, uint32_t seed, bool hints) {
  std::mt19937 random(seed);
  for (int step = 0; step < 18; ++step) {
    const int64_t layer = 1 + step % 3;
    const int64_t rows = step % 8 == 7 ? 60 : 1 + static_cast<int64_t>(random() % 4);
    const Routing routing = random_routing(random, experts, rows, 1 + random() % 3);
    const Matrix x = bench.input(rows, random());
    const Routing next = random_routing(random, experts, 1, 3);
    if (hints && layer < 3) {
      // Sometimes right (the same experts that the next step draws cannot be known), sometimes for
      // a layer that does not come next, sometimes far too much.
      std::vector<int32_t> guess;
      for (const ExpertGroup& group : next.groups) {
        guess.push_back(static_cast<int32_t>(group.expert));
      }
      if (random() % 4 == 0) {
        guess.clear();
        for (int32_t e = 0; e < experts; ++e) guess.push_back(e);
      }
      streamed.look_ahead(random() % 5 == 0 ? layer : layer + 1, guess);
    }
    const std::vector<float> expected = results(resident, layer, routing, x);
    const std::vector<float> got = results(streamed, layer, routing, x);
    ASSERT_TRUE(same_bits(got, expected)) << "step " << step;
  }
}

TEST(StreamedStoreThreads, HasTheBitsOfTheResidentOne) {
  for (const TensorOrder order :
       {TensorOrder::released, TensorOrder::by_projection, TensorOrder::shuffled}) {
    const ExpertFiles files(expert_config(), {order, 4, order != TensorOrder::released, 3});
    for (const int threads : {1, 2, 4}) {
      StoreBench bench(files, threads);
      ResidentExpertStore resident = bench.resident();
      uint32_t seed = 0;
      for (const int64_t slots : {2, 3, 18, 36}) {
        for (const CachePolicyKind policy : all_cache_policies()) {
          for (const LookaheadMode lookahead : {LookaheadMode::off, LookaheadMode::on}) {
            SCOPED_TRACE(testing::Message()
                         << "order " << static_cast<int>(order) << ", " << threads << " threads, "
                         << slots << " slots, " << cache_policy_name(policy));
            FakeDisk disk;
            disk.order = static_cast<LandingOrder>(++seed % 3);
            disk.polls_per_landing = static_cast<int>(seed % 3);
            disk.background_lands = seed % 5 != 0;
            StreamedStoreOptions options;
            options.policy = policy;
            options.lookahead = lookahead;
            options.row_chunk = 3 + seed % 4;
            options.held_rows = seed % 3 == 0 ? 2 : 64;
            const auto streamed = bench.streamed(disk, slots, options);
            expect_same_as_resident(bench, *streamed, resident, 12, seed,
                                    lookahead == LookaheadMode::on);
            const ExpertStats stats = streamed->stats();
            EXPECT_GT(stats.misses, 0u);
            EXPECT_EQ(stats.slots, static_cast<uint64_t>(slots));
          }
        }
      }
    }
  }
}

TEST(StreamedStoreThreads, HasTheSameBitsOverEveryWayOfReading) {
  const ExpertFiles files(expert_config(), {TensorOrder::shuffled, 4, true, 3});
  for (const IoMode mode :
       {IoMode::uring_direct, IoMode::threads_direct, IoMode::threads_buffered}) {
    StoreBench bench(files, 2);
    ResidentExpertStore resident = bench.resident();
    ExpertLayout layout = bench.layout();
    ExtentReaderOptions reading;
    for (const std::string& path : layout.paths()) reading.paths.push_back({path});
    reading.mode = mode;
    reading.depth = 4;
    std::unique_ptr<ExtentReader> reader;
    try {
      reader = open_extent_reader(reading);
    } catch (const Error&) {
      continue;  // refused here, as memory file systems refuse O_DIRECT
    }
    StreamedStoreOptions options;
    options.cache_bytes = 7 * layout.slot_bytes();
    options.lookahead = LookaheadMode::on;
    options.row_chunk = 5;
    StreamedExpertStore streamed(bench.context(), std::move(layout), std::move(reader), options);
    SCOPED_TRACE(io_mode_name(mode));
    expect_same_as_resident(bench, streamed, resident, 12, 4, true);
    const ExpertStats stats = streamed.stats();
    EXPECT_GT(stats.bytes_read, 0u);
    EXPECT_GT(stats.disk_seconds, 0.0);
  }
}

TEST(StreamedStore, PrefillOfAllExpertsReadsEachOnceAndAhead) {
  const ExpertFiles files(expert_config(40), {});
  StoreBench bench(files);
  ResidentExpertStore resident = bench.resident();
  std::mt19937 random(5);
  for (const int64_t slots : {2, 3, 8, 200}) {
    FakeDisk disk;
    disk.polls_per_landing = 3;
    const auto streamed = bench.streamed(disk, slots, {});
    const Routing routing = random_routing(random, 40, 300, 3);
    ASSERT_EQ(routing.groups.size(), 40u);
    const Matrix x = bench.input(300, 9);
    EXPECT_TRUE(same_bits(results(*streamed, 1, routing, x), results(resident, 1, routing, x)));
    EXPECT_EQ(streamed->stats().misses, 40u) << slots;
    EXPECT_EQ(streamed->stats().hits, 0u);
    uint64_t bytes = 0;
    for (ExpertId id = 0; id < 40; ++id) bytes += streamed->layout().expert_bytes(id);
    EXPECT_EQ(streamed->stats().bytes_read, bytes);
    // One expert of a straddling pair counts twice in the queue.
    EXPECT_LE(disk.most_outstanding, static_cast<size_t>(std::min(slots, kMostReadAhead)) + 1);
    EXPECT_GE(disk.most_outstanding, static_cast<size_t>(std::min(slots, kMostReadAhead)));
  }
}

TEST(StreamedStore, AnswersFromMemoryTheSecondTime) {
  const ExpertFiles files(expert_config(), {});
  StoreBench bench(files);
  FakeDisk disk;
  const auto streamed = bench.streamed(disk, 6, {});
  const Routing routing = one_row_to({1, 4, 7});
  const Matrix x = bench.input(1, 1);
  const std::vector<float> first = results(*streamed, 2, routing, x);
  const size_t reads = disk.started.size();
  EXPECT_TRUE(same_bits(results(*streamed, 2, routing, x), first));
  EXPECT_EQ(disk.started.size(), reads);
  EXPECT_EQ(streamed->stats().hits, 3u);
  EXPECT_EQ(streamed->stats().misses, 3u);
  EXPECT_EQ(streamed->stats().policy, "forecast");
}

TEST(StreamedStore, ComputesWhatIsThereBeforeItWaits) {
  const ExpertFiles files(expert_config(), {});
  StoreBench bench(files);
  ResidentExpertStore resident = bench.resident();
  FakeDisk disk;
  const auto streamed = bench.streamed(disk, 8, {});
  const Matrix x = bench.input(1, 1);
  results(*streamed, 1, one_row_to({5, 9}), x);

  // 5 and 9 are there: nothing is delivered before 0 lands, but its wait begins with all others
  // computed.
  double computed_before_landing = -1;
  disk.failure = [&](const Extent&) -> std::optional<ReadFailure> {
    if (computed_before_landing < 0) computed_before_landing = streamed->stats().compute_seconds;
    return std::nullopt;
  };
  disk.polls_per_landing = 8;
  const double before = streamed->stats().compute_seconds;
  const Routing routing = one_row_to({0, 5, 9});
  EXPECT_TRUE(same_bits(results(*streamed, 1, routing, x), results(resident, 1, routing, x)));
  EXPECT_GT(computed_before_landing, before);
}

TEST(StreamedStore, HoldsNoMoreRowsThanAllowed) {
  const ExpertFiles files(expert_config(), {});
  StoreBench bench(files);
  ResidentExpertStore resident = bench.resident();
  FakeDisk disk;
  disk.order = LandingOrder::last_started;  // every expert but the first lands before its turn
  StreamedStoreOptions options;
  options.held_rows = 7;
  options.row_chunk = 4;
  const auto streamed = bench.streamed(disk, 12, options);
  // 3 + 4 rows fit beside each other, 8 never do.
  const Routing routing = routing_of({{0, {0, 1, 2, 3, 4, 5}},
                                      {2, {0, 1, 2, 3, 4, 5, 6, 7}},
                                      {3, {1, 2, 3}},
                                      {5, {0, 1, 2, 3}},
                                      {6, {7}},
                                      {11, {0, 1, 2, 3, 4, 5, 6, 7}}});
  const Matrix x = bench.input(8, 2);
  for (int64_t layer = 1; layer <= 3; ++layer) {
    EXPECT_TRUE(
        same_bits(results(*streamed, layer, routing, x), results(resident, layer, routing, x)));
  }
}

TEST(StreamedStore, RowPoolLendsNeighboursOnly) {
  RowPool pool(5, 3);
  EXPECT_EQ(pool.take(6), -1);
  EXPECT_EQ(pool.take(2), 0);
  EXPECT_EQ(pool.take(2), 2);
  EXPECT_EQ(pool.take(2), -1);
  pool.give_back(0, 2);
  EXPECT_EQ(pool.take(3), -1);  // three are free, but not together
  EXPECT_EQ(pool.take(1), 0);
  pool.give_back_all();
  EXPECT_EQ(pool.take(5), 0);
}

TEST(StreamedStore, RefusesACacheOfOneExpert) {
  const ExpertFiles files(expert_config(), {});
  StoreBench bench(files);
  FakeDisk disk;
  expect_contains(error_of([&] { bench.streamed(disk, 1, {}); }, ErrorKind::usage),
                  {"1 expert ", "at least 2"});
}

TEST(StreamedStore, LookaheadReadsInIdleTimeAndCounts) {
  const ExpertFiles files(expert_config(), {});
  StoreBench bench(files);
  ResidentExpertStore resident = bench.resident();
  FakeDisk disk;
  StreamedStoreOptions options;
  options.lookahead = LookaheadMode::on;
  const auto streamed = bench.streamed(disk, 12, options);
  ASSERT_TRUE(streamed->wants_lookahead());
  const Matrix x = bench.input(1, 1);

  // The layer before has no experts: reads begin at once.
  streamed->look_ahead(1, std::vector<int32_t>{3, 4});
  EXPECT_EQ(disk.started.size(), 2u);
  EXPECT_EQ(disk.priorities[0], ReadPriority::background);
  const Routing routing = one_row_to({3, 4});
  EXPECT_TRUE(same_bits(results(*streamed, 1, routing, x), results(resident, 1, routing, x)));
  EXPECT_EQ(streamed->stats().hits, 2u);
  EXPECT_EQ(streamed->stats().lookahead_used, 2u);

  // A layer with experts reads its own first.
  const size_t before = disk.started.size();
  streamed->look_ahead(2, std::vector<int32_t>{7, 8, 9});
  EXPECT_EQ(disk.started.size(), before);
  results(*streamed, 1, one_row_to({0, 1}), x);
  ASSERT_EQ(disk.started.size(), before + 5);
  EXPECT_EQ(disk.priorities[before], ReadPriority::demand);
  EXPECT_EQ(disk.priorities[before + 1], ReadPriority::demand);
  EXPECT_EQ(disk.priorities[before + 2], ReadPriority::background);
  // Two guesses were right.
  results(*streamed, 2, one_row_to({1, 7, 9}), x);
  EXPECT_EQ(streamed->stats().lookahead_used, 4u);
  EXPECT_EQ(streamed->stats().lookahead_reads, 5u);
}

TEST(StreamedStore, BackgroundReadsArePromotedOrDropped) {
  const ExpertFiles files(expert_config(), {});
  StoreBench bench(files);
  ResidentExpertStore resident = bench.resident();
  FakeDisk disk;
  disk.background_lands = false;
  StreamedStoreOptions options;
  options.lookahead = LookaheadMode::on;
  const auto streamed = bench.streamed(disk, 12, options);
  const Matrix x = bench.input(1, 1);
  streamed->look_ahead(1, std::vector<int32_t>{3, 4, 5});
  const Routing routing = one_row_to({0, 4});
  EXPECT_TRUE(same_bits(results(*streamed, 1, routing, x), results(resident, 1, routing, x)));
  EXPECT_EQ(disk.promoted, 1u);
  EXPECT_EQ(disk.dropped, 2u);
  EXPECT_EQ(streamed->stats().lookahead_used, 1u);
  EXPECT_EQ(streamed->stats().lookahead_reads, 1u);
  EXPECT_EQ(streamed->stats().misses, 2u);
  // Expert 3 was dropped: it is read when it is asked for.
  const Routing again = one_row_to({3, 5});
  EXPECT_TRUE(same_bits(results(*streamed, 1, again, x), results(resident, 1, again, x)));
}

TEST(StreamedStore, LookaheadNeverTakesWhatTheLayerNeeds) {
  const ExpertFiles files(expert_config(), {});
  StoreBench bench(files);
  ResidentExpertStore resident = bench.resident();
  FakeDisk disk;
  StreamedStoreOptions options;
  options.lookahead = LookaheadMode::on;
  options.held_rows = 0;
  const auto streamed = bench.streamed(disk, 4, options);
  const Matrix x = bench.input(1, 1);
  for (int i = 0; i < 5; ++i) {
    const uint64_t misses = streamed->stats().misses;
    streamed->look_ahead(2, std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7});
    const Routing routing = one_row_to({2, 3, 4, 5});
    EXPECT_TRUE(same_bits(results(*streamed, 1, routing, x), results(resident, 1, routing, x)));
    EXPECT_LE(streamed->stats().misses, misses + 4);
  }
  EXPECT_FALSE(bench.streamed(disk, 2, options)->wants_lookahead());
  EXPECT_TRUE(bench.streamed(disk, 35, options)->wants_lookahead());
  EXPECT_FALSE(bench.streamed(disk, 36, options)->wants_lookahead());
}

TEST(Lookahead, AutomaticGoesByWhatBecameOfIt) {
  LookaheadControl control(LookaheadMode::automatic);
  EXPECT_TRUE(control.on());
  for (int64_t i = 0; i < 3 * LookaheadControl::kWindow; ++i) control.used(i % 2 == 0);
  EXPECT_TRUE(control.on());
  // Wrong guesses switch it off, for a while.
  for (int64_t i = 0; i < LookaheadControl::kWindow; ++i) control.wasted();
  EXPECT_FALSE(control.on());
  for (int64_t i = 0; i < LookaheadControl::kFirstPause - 1; ++i) control.layer_done();
  EXPECT_FALSE(control.on());
  control.layer_done();
  EXPECT_TRUE(control.on());
  // A second attempt that fails pauses longer. Here no guess is ever read.
  for (int64_t i = 0; i < LookaheadControl::kWindow; ++i) control.dropped();
  EXPECT_FALSE(control.on());
  for (int64_t i = 0; i < 2 * LookaheadControl::kFirstPause - 1; ++i) control.layer_done();
  EXPECT_FALSE(control.on());
  control.layer_done();
  EXPECT_TRUE(control.on());
  EXPECT_EQ(control.used(), static_cast<uint64_t>(3 * LookaheadControl::kWindow));
  // An attempt that succeeds makes the next pause short again.
  for (int64_t i = 0; i < LookaheadControl::kWindow; ++i) control.used(true);
  for (int64_t i = 0; i < LookaheadControl::kWindow; ++i) control.wasted();
  EXPECT_FALSE(control.on());
  for (int64_t i = 0; i < LookaheadControl::kFirstPause; ++i) control.layer_done();
  EXPECT_TRUE(control.on());

  LookaheadControl always(LookaheadMode::on);
  LookaheadControl never(LookaheadMode::off);
  for (int64_t i = 0; i < LookaheadControl::kWindow; ++i) always.wasted();
  for (int i = 0; i < 10000; ++i) never.layer_done();
  EXPECT_TRUE(always.on());
  EXPECT_FALSE(never.on());
  EXPECT_EQ(lookahead_mode_named("auto"), LookaheadMode::automatic);
  expect_contains(error_of([] { lookahead_mode_named("often"); }, ErrorKind::usage), {"often"});
}

}  // namespace
}  // namespace fathom
