#include "experts/route_trace.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/checkpoint/toy.h"

namespace fathom {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::string small_trace(const TemporaryFolder& folder) {
  const std::string path = folder / "routes";
  RouteTraceWriter writer(path, {4, 16, 2});
  writer.begin(1, 2);
  writer.row({std::vector<int32_t>{7, 3}, 0.25f, 0.5f});
  writer.row({std::vector<int32_t>{3, 15}, kInfinity, 0.0f});
  writer.begin(3, 1);
  writer.row({std::vector<int32_t>{0, 1}, 1.5f, kInfinity});
  EXPECT_EQ(folder.count(), 1);  // under a temporary name so far
  writer.finish();
  return path;
}

TEST(RouteTrace, ComesBackAsItWasWritten) {
  const TemporaryFolder folder;
  const RouteTrace trace = read_route_trace(small_trace(folder));
  EXPECT_EQ(trace.shape.layers, 4);
  EXPECT_EQ(trace.shape.experts, 16);
  EXPECT_EQ(trace.shape.experts_per_row, 2);
  ASSERT_EQ(trace.visits.size(), 2u);
  EXPECT_EQ(trace.visits[0].layer, 1);
  EXPECT_EQ(trace.visits[0].rows, 2);
  const auto asked = trace.of(trace.visits[0]);
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_EQ(asked[0].expert, 3);
  EXPECT_EQ(asked[0].rows, 2);
  EXPECT_EQ(asked[1].expert, 7);
  EXPECT_EQ(asked[2].expert, 15);
  EXPECT_EQ(asked[2].rows, 1);
  EXPECT_EQ(trace.visits[1].layer, 3);
  EXPECT_EQ(trace.group_margins, (std::vector<float>{0.25f, kInfinity, 1.5f}));
  EXPECT_EQ(trace.expert_margins, (std::vector<float>{0.5f, 0.0f, kInfinity}));
}

TEST(RouteTrace, NothingAppearsBeforeItIsFinished) {
  const TemporaryFolder folder;
  {
    RouteTraceWriter writer(folder / "routes", {4, 16, 2});
    writer.begin(1, 1);
    writer.row({std::vector<int32_t>{7, 3}, 0, 0});
  }
  EXPECT_EQ(folder.count(), 0);
}

TEST(RouteTrace, AnyTruncationIsAnError) {
  const TemporaryFolder folder;
  const std::string bytes = read_text(small_trace(folder));
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string message =
        error_of([&] { parse_route_trace(std::string_view(bytes).substr(0, size), "cut"); });
    EXPECT_EQ(message.rfind("cut: ", 0), 0u) << message;
  }
  expect_contains(error_of([&] { parse_route_trace(bytes + "x", "long"); }), {"behind the end"});
}

TEST(RouteTrace, HostileValuesAreNamed) {
  const TemporaryFolder folder;
  const std::string good = read_text(small_trace(folder));
  const auto with = [&](size_t at, const std::string& bytes) {
    std::string bad = good;
    bad.replace(at, bytes.size(), bytes);
    return error_of([&] { parse_route_trace(bad, "bad"); });
  };
  expect_contains(with(0, "X"), {"not a route trace"});
  expect_contains(with(8, "\x02"), {"version 2"});
  expect_contains(with(12, std::string(4, '\0')), {"offset 12", "layers"});
  expect_contains(with(16, "\xff\xff\xff\xff"), {"offset 16", "4294967295 experts"});
  expect_contains(with(20, "\x11"), {"offset 20", "experts per row"});
  expect_contains(with(24, "\x04"), {"offset 24", "layer 4 of 4"});
  expect_contains(with(28, "\xff\xff\xff\xff"), {"offset 28", "4294967295 rows"});
  expect_contains(with(28, std::string(4, '\0')), {"0 rows"});
  expect_contains(with(32, "\x10"), {"offset 32", "expert 16 of 16"});
  expect_contains(with(34, "\x07"), {"offset 34", "expert 7 twice"});
  expect_contains(with(36, std::string("\0\0\xc0\x7f", 4)), {"offset 36", "group margin"});
  expect_contains(with(40, std::string("\0\0\x80\xbf", 4)), {"offset 40", "expert margin", "-1"});
  expect_contains(with(good.size() - 8, "\x03"), {"3 records, there are 2"});
  // Whatever single byte is wrong: an error or a trace, never a crash.
  for (size_t at = 0; at < good.size(); ++at) {
    for (const char c : {'\0', '\x01', '\x7f', '\xff'}) {
      std::string bad = good;
      bad[at] = c;
      try {
        parse_route_trace(bad, "bad");
      } catch (const Error&) {
      }
    }
  }
}

TEST(RouteTrace, RefusesShapesThatDoNotFitItsFields) {
  const TemporaryFolder folder;
  error_of([&] { RouteTraceWriter(folder / "t", {1, 70000, 8}); }, ErrorKind::usage);
  error_of([&] { RouteTraceWriter(folder / "t", {1, 4, 5}); }, ErrorKind::usage);
  EXPECT_EQ(folder.count(), 0);
}

}  // namespace
}  // namespace fathom
