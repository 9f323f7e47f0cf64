#include "model/decoder.h"

#include <algorithm>

#include "base/error.h"

namespace fathom {

void Decoder::begin_mtp(Sweep&, Span2d<const float>) {
  fail_usage("{} has no multi-token-prediction layer", shape().architecture);
}

void Decoder::mtp_head(const Sweep&, Span2d<float>) const {
  fail_usage("{} has no multi-token-prediction layer", shape().architecture);
}

void prepare_caches(Sweep& sweep) {
  for (size_t first = 0; first < sweep.rows.size();) {
    KvSequence& cache = *sweep.rows[first].cache;
    size_t end = first;
    while (end < sweep.rows.size() && sweep.rows[end].cache == &cache) ++end;
    const auto count = static_cast<int64_t>(end - first);
    cache.prepare(count);
    cache.commit(count);
    first = end;
  }
}

void copy_wanting(const Sweep& sweep, Span2d<float> out) {
  int64_t to = 0;
  for (int64_t i = 0; i < sweep.size(); ++i) {
    if (!sweep.rows[static_cast<size_t>(i)].wants_logits) continue;
    std::copy_n(sweep.hidden.row(i), out.cols, out.row(to++));
  }
}

Matrix copy_of(Span2d<const float> x) {
  Matrix copy(x.rows, x.cols);
  for (int64_t r = 0; r < x.rows; ++r) std::copy_n(x.row(r), x.cols, copy.row(r));
  return copy;
}

void add_to(Span2d<const float> x, Span2d<float> to) {
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = 0; c < x.cols; ++c) to.row(r)[c] += x.row(r)[c];
  }
}

void add_bias(const float* bias, Span2d<float> to) {
  for (int64_t r = 0; r < to.rows; ++r) {
    for (int64_t c = 0; c < to.cols; ++c) to.row(r)[c] += bias[c];
  }
}

}  // namespace fathom
