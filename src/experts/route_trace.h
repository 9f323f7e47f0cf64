// A record of which experts every row was sent to, for replay against cache policies.
//
// The file, all numbers little-endian:
//   8 bytes  "FATHROUT"
//   u32      version, 1
//   u32      layers of the model (its dense ones and the MTP layer count), at most 65,535
//   u32      experts of an MoE layer, at most 65,535
//   u32      experts per row, at most the experts
// then one record per MoE layer that a sweep goes through, in the order in which that happened:
//   u32      layer, u32 rows (at least 1)
//   rows x   { u16 expert x experts per row, in order of choice; f32 group margin; f32 expert
//   margin }
// and at the end
//   u32      0xffffffff, u64 number of records
// A margin says how close the choice was: the last group (expert) that was chosen against the first
// one that was not; infinite where nothing was left out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"

namespace fathom {

// What the router decided for one row.
struct RoutedRow {
  std::span<const int32_t> experts;  // in order of choice
  float group_margin = 0;
  float expert_margin = 0;
};

// Hears of every choice.
class RouteSink {
 public:
  virtual ~RouteSink() = default;
  // `rows` calls of row() follow.
  virtual void begin(int64_t layer, int64_t rows) = 0;
  virtual void row(const RoutedRow& row) = 0;
};

struct RouteTraceShape {
  int64_t layers = 0;
  int64_t experts = 0;
  int64_t experts_per_row = 0;
};

// Writes such a file, which appears under its name with finish(). A full disk is an Error(io).
class RouteTraceWriter : public RouteSink {
 public:
  RouteTraceWriter(const std::string& path, const RouteTraceShape& shape);
  void begin(int64_t layer, int64_t rows) override;
  void row(const RoutedRow& row) override;
  void finish();

 private:
  void put(uint64_t value, int bytes);
  void flush();

  OutputFile file_;
  uint64_t records_ = 0;
  std::vector<std::byte> pending_;
};

// A trace in memory, rows of a visit put together.
struct RouteTrace {
  struct Asked {
    int32_t expert = 0;
    int32_t rows = 0;
  };
  // A sweep in one MoE layer; its experts are asked[first, first + count), ascending.
  struct Visit {
    int32_t layer = 0;
    int32_t rows = 0;
    size_t first = 0;
    size_t count = 0;
  };

  RouteTraceShape shape;
  std::vector<Visit> visits;
  std::vector<Asked> asked;
  std::vector<float> group_margins;   // [row of any visit]
  std::vector<float> expert_margins;  // likewise

  std::span<const Asked> of(const Visit& visit) const {
    return std::span(asked).subspan(visit.first, visit.count);
  }
};

// Error(input) names what is wrong in the file, and where.
RouteTrace read_route_trace(const std::string& path);
RouteTrace parse_route_trace(std::string_view bytes, const std::string& path);

}  // namespace fathom
