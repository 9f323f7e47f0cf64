#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "experts/streamed_store.h"
#include "tests/experts/store_bench.h"

namespace fathom {
namespace {

TEST(StreamedFaults, AFailedReadNamesFileTensorAndOffsetAndLeavesTheStoreUsable) {
  for (const TensorOrder order : {TensorOrder::released, TensorOrder::shuffled}) {
    const ExpertFiles files(expert_config(), {order, 4, false, 2});
    StoreBench bench(files);
    ResidentExpertStore resident = bench.resident();
    const Routing routing = one_row_to({1, 3, 5, 7, 9});
    const Matrix x = bench.input(1, 1);
    const std::vector<float> expected = results(resident, 2, routing, x);
    for (const int64_t broken : {1, 5, 9}) {
      for (const int64_t slots : {2, 3, 12}) {
        for (const LandingOrder landing :
             {LandingOrder::first_started, LandingOrder::last_started, LandingOrder::random}) {
          FakeDisk disk;
          disk.order = landing;
          disk.polls_per_landing = 1;
          const auto streamed = bench.streamed(disk, slots, {});
          const ExpertLayout& layout = streamed->layout();
          const auto down = *layout.tensor(layout.id(2, broken), 4, true);
          disk.failure = [&](const Extent& extent) -> std::optional<ReadFailure> {
            if (extent.file != down.file || down.offset < extent.offset ||
                down.offset >= extent.offset + extent.bytes) {
              return std::nullopt;
            }
            return ReadFailure{files.path(down.file), down.offset + 100, "Input/output error"};
          };
          for (int attempt = 0; attempt < 2; ++attempt) {
            expect_contains(
                error_of([&] { results_until_error(*streamed, routing, x); }, ErrorKind::io),
                {files.path(down.file), down.name, std::to_string(down.offset + 100),
                 "Input/output error"});
            EXPECT_EQ(disk.outstanding, 0u);
          }
          disk.failure = nullptr;
          EXPECT_TRUE(same_bits(results(*streamed, 2, routing, x), expected));
        }
      }
    }
  }
}

TEST(StreamedFaults, AllReadsFailingAtOnceIsOneError) {
  const ExpertFiles files(expert_config(), {TensorOrder::shuffled, 2, false, 2});
  StoreBench bench(files);
  ResidentExpertStore resident = bench.resident();
  FakeDisk disk;
  const auto streamed = bench.streamed(disk, 12, {});
  const Matrix x = bench.input(1, 1);
  disk.failure = [&](const Extent& extent) {
    return ReadFailure{files.path(extent.file), extent.offset, "the file ends here"};
  };
  const Routing routing = one_row_to({0, 2, 4, 6, 8});
  expect_contains(error_of([&] { results_until_error(*streamed, routing, x); }, ErrorKind::io),
                  {"the file ends here", "model.layers.2.mlp.experts."});
  disk.failure = nullptr;
  EXPECT_TRUE(same_bits(results(*streamed, 2, routing, x), results(resident, 2, routing, x)));
}

TEST(StreamedFaultsThreads, AFileThatShrinksWhileItIsInUse) {
  for (const IoMode mode :
       {IoMode::uring_direct, IoMode::threads_direct, IoMode::threads_buffered}) {
    const ExpertFiles files(expert_config(), {});
    StoreBench bench(files, 2);
    ResidentExpertStore resident = bench.resident();
    ExpertLayout layout = bench.layout();
    ExtentReaderOptions reading;
    for (const std::string& path : layout.paths()) reading.paths.push_back({path});
    reading.mode = mode;
    std::unique_ptr<ExtentReader> reader;
    try {
      reader = open_extent_reader(reading);
    } catch (const Error&) {
      continue;  // refused here
    }
    SCOPED_TRACE(io_mode_name(mode));
    const ExpertId last = layout.id(3, 11);
    const ExpertLayout::Tensor lost = *layout.tensor(last, 4, true);
    StreamedStoreOptions options;
    options.cache_bytes = 4 * layout.slot_bytes();
    StreamedExpertStore streamed(bench.context(), std::move(layout), std::move(reader), options);
    std::filesystem::resize_file(files.path(lost.file), lost.offset + 1);
    const Matrix x = bench.input(1, 1);
    const Routing all = one_row_to({0, 1, 11});
    const std::string message = error_of(
        [&] {
          streamed.run(
              3, all.groups, x, [](int64_t, int64_t, Span2d<const float>) {}, nullptr);
        },
        ErrorKind::io);
    expect_contains(message, {files.path(lost.file), lost.name});
    // What is not lost can still be had.
    const Routing others = one_row_to({0, 1, 10});
    EXPECT_TRUE(same_bits(results(streamed, 3, others, x), results(resident, 3, others, x)));
  }
}

TEST(StreamedFaults, AFailedLookaheadReadIsNoError) {
  const ExpertFiles files(expert_config(), {});
  StoreBench bench(files);
  ResidentExpertStore resident = bench.resident();
  FakeDisk disk;
  StreamedStoreOptions options;
  options.lookahead = LookaheadMode::on;
  const auto streamed = bench.streamed(disk, 12, options);
  const Matrix x = bench.input(1, 1);
  disk.failure = [&](const Extent& extent) {
    return ReadFailure{files.path(extent.file), extent.offset, "Input/output error"};
  };
  streamed->look_ahead(1, std::vector<int32_t>{2, 3});
  results(*streamed, 2, one_row_to({}), x);  // takes in what has landed
  disk.failure = nullptr;
  const Routing routing = one_row_to({2, 3});
  EXPECT_TRUE(same_bits(results(*streamed, 1, routing, x), results(resident, 1, routing, x)));
  EXPECT_EQ(streamed->stats().misses, 2u);
}

TEST(StreamedFaults, CancellingBetweenExpertsAndWhileWaiting) {
  const ExpertFiles files(expert_config(), {});
  StoreBench bench(files);
  ResidentExpertStore resident = bench.resident();
  const Routing routing = one_row_to({0, 1, 2, 3, 4, 5, 6, 7});
  const Matrix x = bench.input(1, 1);
  const std::vector<float> expected = results(resident, 1, routing, x);
  for (const int64_t slots : {2, 3, 8}) {
    FakeDisk disk;
    const auto streamed = bench.streamed(disk, slots, {});
    CancelToken cancel;
    int delivered = 0;
    EXPECT_EQ(error_of(
                  [&] {
                    streamed->run(
                        1, routing.groups, x,
                        [&](int64_t, int64_t, Span2d<const float>) {
                          if (++delivered == 3) cancel.cancel();
                        },
                        &cancel);
                  },
                  ErrorKind::cancelled),
              "stopped on request");
    EXPECT_EQ(delivered, 3);
    cancel.reset();
    EXPECT_TRUE(same_bits(results(*streamed, 1, routing, x, &cancel), expected));

    // A disk that never answers.
    FakeDisk stuck;
    stuck.polls_per_landing = 1 << 30;
    const auto waiting = bench.streamed(stuck, slots, {});
    int polls = 0;
    stuck.on_poll = [&] {
      if (++polls == 20) cancel.cancel();
    };
    error_of([&] { results(*waiting, 1, routing, x, &cancel); }, ErrorKind::cancelled);
    EXPECT_LE(polls, 22);
    EXPECT_GT(stuck.outstanding, 0u);  // left to land in their slots
    cancel.reset();
    stuck.polls_per_landing = 1;
    const size_t started = stuck.started.size();
    EXPECT_TRUE(same_bits(results(*waiting, 1, routing, x, &cancel), expected));
    EXPECT_LT(stuck.started.size() - started, routing.groups.size() + 1);  // some were under way
  }
}

TEST(StreamedFaultsThreads, CancellingFromAnotherThreadTakesEffectQuickly) {
  const ExpertFiles files(expert_config(), {});
  StoreBench bench(files, 2);
  FakeDisk disk;
  disk.polls_per_landing = 1 << 30;
  const auto streamed = bench.streamed(disk, 4, {});
  const Matrix x = bench.input(1, 1);
  CancelToken cancel;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cancel.cancel();
  });
  const Routing routing = one_row_to({0, 1});
  error_of([&] { results_until_error(*streamed, routing, x, &cancel); }, ErrorKind::cancelled);
  other.join();
}

TEST(StreamedFaults, AnErrorOfTheReceiverLeavesTheStoreUsable) {
  const ExpertFiles files(expert_config(), {});
  StoreBench bench(files);
  ResidentExpertStore resident = bench.resident();
  const Routing routing = one_row_to({0, 2, 4, 6});
  const Matrix x = bench.input(1, 1);
  const std::vector<float> expected = results(resident, 1, routing, x);
  for (int64_t at = 0; at < 4; ++at) {
    for (const LandingOrder order : {LandingOrder::first_started, LandingOrder::last_started}) {
      FakeDisk disk;
      disk.order = order;
      disk.polls_per_landing = 1;
      const auto streamed = bench.streamed(disk, 4, {});
      EXPECT_THROW(streamed->run(
                       1, routing.groups, x,
                       [&](int64_t group, int64_t, Span2d<const float>) {
                         if (group == at) throw std::runtime_error("enough");
                       },
                       nullptr),
                   std::runtime_error);
      EXPECT_TRUE(same_bits(results(*streamed, 1, routing, x), expected));
    }
  }
}

TEST(StreamedFaultsThreads, AValueThatIsNoNumberIsNamedEveryTime) {
  struct Case {
    size_t tensor;
    uint64_t element;
    std::string bytes;
    uint64_t size;
    std::string what;
  };
  for (const Case& c : {Case{0, 0, "\x7f", 1, "the FP8 code for NaN"},
                        Case{4, 2879, "\xff", 1, "FP8"}, Case{2, 17, "\xff", 1, "FP8"},
                        Case{3, 2, std::string("\0\0\x80\x7f", 4), 4, "not a finite number"}}) {
    const ExpertFiles files(expert_config(), {});
    StoreBench bench(files, 2);
    ResidentExpertStore resident = bench.resident();
    const ExpertLayout layout = bench.layout();
    const ExpertLayout::Tensor tensor = *layout.tensor(layout.id(2, 4), c.tensor, true);
    files.overwrite(tensor.name, c.element * c.size, c.bytes);
    FakeDisk disk;
    const auto streamed = bench.streamed(disk, 6, {});
    const Matrix x = bench.input(1, 1);
    for (int i = 0; i < 2; ++i) {
      expect_contains(
          error_of([&] {
            results_until_error(*streamed, one_row_to({0, 4}), x);
          }),
          {files.path(tensor.file), tensor.name + ":", "element " + std::to_string(c.element) + " ",
           std::to_string(tensor.offset + c.element * c.size), c.what});
    }
    const Routing others = one_row_to({0, 3, 5});
    EXPECT_TRUE(same_bits(results(*streamed, 2, others, x), results(resident, 2, others, x)));
  }
}

}  // namespace
}  // namespace fathom
