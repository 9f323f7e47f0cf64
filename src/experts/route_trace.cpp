#include "experts/route_trace.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/error.h"

namespace fathom {
namespace {

constexpr std::string_view kMagic = "FATHROUT";
constexpr uint32_t kVersion = 1;
constexpr uint32_t kEnd = 0xffffffff;
constexpr int64_t kMost = 65535;
constexpr size_t kFlushAt = 64 << 10;

class Parser {
 public:
  Parser(std::string_view bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  RouteTrace run() {
    if (bytes_.substr(0, kMagic.size()) != kMagic) {
      fail_input("{}: not a route trace: it does not begin with '{}'", path_, kMagic);
    }
    at_ = kMagic.size();
    if (const uint32_t version = u32("version"); version != kVersion) {
      fail_input("{}: route trace of version {}, only {} is known", path_, version, kVersion);
    }
    trace_.shape.layers = bounded("layers", 1, kMost);
    trace_.shape.experts = bounded("experts", 1, kMost);
    trace_.shape.experts_per_row = bounded("experts per row", 1, trace_.shape.experts);
    rows_of_.resize(static_cast<size_t>(trace_.shape.experts));
    uint64_t records = 0;
    while (true) {
      const size_t place = at_;
      const uint32_t layer = u32("layer");
      if (layer == kEnd) break;
      if (layer >= trace_.shape.layers) {
        fail_input("{}: offset {}: layer {} of {}", path_, place, layer, trace_.shape.layers);
      }
      record(static_cast<int32_t>(layer));
      ++records;
    }
    const size_t place = at_;
    const uint64_t low = u32("number of records");
    const uint64_t stated = low | uint64_t{u32("number of records")} << 32;
    if (stated != records) {
      fail_input("{}: offset {}: the end speaks of {} records, there are {}", path_, place, stated,
                 records);
    }
    if (at_ != bytes_.size()) {
      fail_input("{}: offset {}: {} bytes behind the end", path_, at_, bytes_.size() - at_);
    }
    return std::move(trace_);
  }

 private:
  void need(size_t count, const char* what) const {
    if (bytes_.size() - at_ < count) {
      fail_input("{}: offset {}: the file ends before {}", path_, at_, what);
    }
  }
  uint32_t number(size_t count, const char* what) {
    need(count, what);
    uint32_t value = 0;
    for (size_t i = 0; i < count; ++i) {
      value |= uint32_t{static_cast<uint8_t>(bytes_[at_ + i])} << (8 * i);
    }
    at_ += count;
    return value;
  }
  uint32_t u32(const char* what) { return number(4, what); }
  int64_t bounded(const char* what, int64_t least, int64_t most) {
    const size_t place = at_;
    const int64_t value = u32(what);
    if (value < least || value > most) {
      fail_input("{}: offset {}: {} {}, must be {} to {}", path_, place, value, what, least, most);
    }
    return value;
  }
  float margin(const char* what) {
    const size_t place = at_;
    const auto value = std::bit_cast<float>(u32(what));
    if (std::isnan(value) || value < 0) {
      fail_input("{}: offset {}: {} is {}", path_, place, what, value);
    }
    return value;
  }

  void record(int32_t layer) {
    const size_t place = at_;
    const uint64_t rows = u32("rows");
    const auto per_row = static_cast<uint64_t>(trace_.shape.experts_per_row);
    // Checked before anything grows: memory stays in proportion to the file.
    if (rows == 0 || rows > (bytes_.size() - at_) / (2 * per_row + 8)) {
      fail_input("{}: offset {}: {} rows, {} bytes are left", path_, place, rows,
                 bytes_.size() - at_);
    }
    for (uint64_t r = 0; r < rows; ++r) {
      ++row_;
      for (uint64_t k = 0; k < per_row; ++k) expert();
      trace_.group_margins.push_back(margin("group margin"));
      trace_.expert_margins.push_back(margin("expert margin"));
    }
    RouteTrace::Visit visit{layer, static_cast<int32_t>(rows), trace_.asked.size(), 0};
    for (size_t e = 0; e < rows_of_.size(); ++e) {
      if (rows_of_[e].count == 0) continue;
      trace_.asked.push_back({static_cast<int32_t>(e), rows_of_[e].count});
      rows_of_[e].count = 0;
    }
    visit.count = trace_.asked.size() - visit.first;
    trace_.visits.push_back(visit);
  }
  void expert() {
    const size_t place = at_;
    const uint32_t value = number(2, "expert");
    if (value >= trace_.shape.experts) {
      fail_input("{}: offset {}: expert {} of {}", path_, place, value, trace_.shape.experts);
    }
    auto& seen = rows_of_[value];
    if (seen.last_row == row_) {
      fail_input("{}: offset {}: expert {} twice in one row", path_, place, value);
    }
    seen.last_row = row_;
    ++seen.count;
  }

  struct Seen {
    int32_t count = 0;
    uint64_t last_row = 0;
  };
  std::string_view bytes_;
  const std::string& path_;
  size_t at_ = 0;
  uint64_t row_ = 0;
  std::vector<Seen> rows_of_;  // [expert], of the current record
  RouteTrace trace_;
};

}  // namespace

RouteTraceWriter::RouteTraceWriter(const std::string& path, const RouteTraceShape& shape)
    : file_(path) {
  if (shape.layers < 1 || shape.layers > kMost || shape.experts < 1 || shape.experts > kMost ||
      shape.experts_per_row < 1 || shape.experts_per_row > shape.experts) {
    fail_usage("{}: no route trace of {} layers with {} of {} experts per row", path, shape.layers,
               shape.experts_per_row, shape.experts);
  }
  pending_.reserve(kFlushAt + 1024);
  for (const char c : kMagic) pending_.push_back(static_cast<std::byte>(c));
  put(kVersion, 4);
  put(static_cast<uint64_t>(shape.layers), 4);
  put(static_cast<uint64_t>(shape.experts), 4);
  put(static_cast<uint64_t>(shape.experts_per_row), 4);
}

void RouteTraceWriter::begin(int64_t layer, int64_t rows) {
  put(static_cast<uint64_t>(layer), 4);
  put(static_cast<uint64_t>(rows), 4);
  ++records_;
}

void RouteTraceWriter::row(const RoutedRow& row) {
  for (const int32_t expert : row.experts) put(static_cast<uint64_t>(expert), 2);
  put(std::bit_cast<uint32_t>(row.group_margin), 4);
  put(std::bit_cast<uint32_t>(row.expert_margin), 4);
  if (pending_.size() >= kFlushAt) flush();
}

void RouteTraceWriter::finish() {
  put(kEnd, 4);
  put(records_, 8);
  flush();
  file_.commit();
}

void RouteTraceWriter::put(uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) pending_.push_back(static_cast<std::byte>(value >> (8 * i)));
}

void RouteTraceWriter::flush() {
  file_.write(pending_);
  pending_.clear();
}

RouteTrace parse_route_trace(std::string_view bytes, const std::string& path) {
  return Parser(bytes, path).run();
}

RouteTrace read_route_trace(const std::string& path) {
  const std::string bytes = read_text(path, uint64_t{4} << 30);
  return parse_route_trace(bytes, path);
}

}  // namespace fathom
