// Taking positions through a bundle's graphs.
#include <algorithm>

#include "base/error.h"
#include "graph/qhexrt/bundle.h"
#include "graph/qhexrt/names.h"
#include "numerics/elementary.h"
#include "numerics/half.h"

namespace fathom {
namespace {

constexpr uint16_t kMinusInfinity = 0xfc00;

}  // namespace

uint16_t* QhexrtModel::key_row(int64_t layer, int64_t position) const {
  return keys_.data() + (layer * manifest_.max_ctx + position) * manifest_.kv_dim;
}
uint16_t* QhexrtModel::value_row(int64_t layer, int64_t position) const {
  return values_.data() + (layer * manifest_.max_ctx + position) * manifest_.kv_dim;
}

void QhexrtModel::look_up(int32_t id, uint16_t* row) const {
  const uint64_t bytes = static_cast<uint64_t>(manifest_.hidden) * 2;
  embed_.read_at(static_cast<uint64_t>(id) * bytes,
                 std::as_writable_bytes(std::span(row, static_cast<size_t>(manifest_.hidden))));
}

void QhexrtModel::rotary_row(int64_t position, uint16_t* cosines, uint16_t* sines) const {
  const int64_t half = manifest_.head_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) * frequencies_[static_cast<size_t>(i)];
    cosines[i] = cosines[i + half] = float_to_fp16(static_cast<float>(cos_f64(angle)));
    sines[i] = sines[i + half] = float_to_fp16(static_cast<float>(sin_f64(angle)));
  }
}

void QhexrtModel::decode_one(int32_t id, int64_t position, float* hidden) {
  look_up(id, x_[0].data());
  rotary_row(position, cos_.data(), sin_.data());
  const int64_t open = position + (manifest_.cmask_includes_current ? 1 : 0);
  std::fill_n(cmask_.data(), open, uint16_t{0});
  std::fill_n(cmask_.data() + open, manifest_.max_ctx - open, kMinusInfinity);
  for (const auto& runner : decode_) runner->run();
  const int64_t width = manifest_.kv_dim;
  for (int64_t layer = 0; layer < manifest_.n_layers; ++layer) {
    const uint16_t* fresh = new_kv_.data() + 2 * layer * width;
    std::copy_n(fresh, width, key_row(layer, position));
    std::copy_n(fresh + width, width, value_row(layer, position));
  }
  const uint16_t* y = x_[decode_.size() % 2].data();
  for (int64_t i = 0; i < manifest_.hidden; ++i) hidden[i] = fp16_to_float(y[i]);
}

// The first ids of a sequence, as many as the graph takes; returns how many.
int64_t QhexrtModel::prefill(std::span<const int32_t> ids, Span2d<float> hidden) {
  const int64_t rows = prefill_rows_;
  const int64_t real = std::min<int64_t>(rows, static_cast<int64_t>(ids.size()));
  const int64_t dim = manifest_.head_dim;
  Halves x(rows * manifest_.hidden);
  Halves y(rows * manifest_.hidden);
  Halves cosines(rows * dim);
  Halves sines(rows * dim);
  Halves mask(rows * rows);
  Halves fresh(2 * manifest_.n_layers * rows * manifest_.kv_dim);
  for (int64_t r = 0; r < rows; ++r) {
    if (r < real) look_up(ids[static_cast<size_t>(r)], x.data() + r * manifest_.hidden);
    rotary_row(r, cosines.data() + r * dim, sines.data() + r * dim);
    // A row sees itself and what came before it.
    std::fill_n(mask.data() + r * rows + r + 1, rows - r - 1, kMinusInfinity);
  }
  prefill_->bind_input(half_view("x", {rows, manifest_.hidden}, x.data()));
  prefill_->bind_output(half_view("y", {rows, manifest_.hidden}, y.data()));
  prefill_->bind_input(half_view("cos", {rows, dim}, cosines.data()));
  prefill_->bind_input(half_view("sin", {rows, dim}, sines.data()));
  prefill_->bind_input(half_view("cmask", {rows, rows}, mask.data()));
  const int64_t width = manifest_.kv_dim;
  for (int64_t layer = 0; layer < manifest_.n_layers; ++layer) {
    const std::string& suffix = prefill_layers_.suffixes[static_cast<size_t>(layer)];
    uint16_t* keys = fresh.data() + 2 * layer * rows * width;
    prefill_->bind_output(half_view(kNewKeys + suffix, {rows, width}, keys));
    prefill_->bind_output(half_view(kNewValues + suffix, {rows, width}, keys + rows * width));
  }
  prefill_->run();
  for (int64_t layer = 0; layer < manifest_.n_layers; ++layer) {
    const uint16_t* keys = fresh.data() + 2 * layer * rows * width;
    std::copy_n(keys, real * width, key_row(layer, 0));
    std::copy_n(keys + rows * width, real * width, value_row(layer, 0));
  }
  for (int64_t r = 0; r < real; ++r) {
    for (int64_t i = 0; i < manifest_.hidden; ++i) {
      hidden.row(r)[i] = fp16_to_float(y[r * manifest_.hidden + i]);
    }
  }
  return real;
}

void QhexrtModel::feed(std::span<const int32_t> ids, int64_t first, Span2d<float> hidden,
                       const CancelToken* cancel) {
  const auto count = static_cast<int64_t>(ids.size());
  if (first + count > manifest_.max_ctx) {
    fail_usage("{} tokens are more than the {} positions (max_ctx) of this bundle", first + count,
               manifest_.max_ctx);
  }
  for (const int32_t id : ids) {
    if (id < 0 || id >= manifest_.vocab) {
      fail_usage("token {} is outside the vocabulary of {}", id, manifest_.vocab);
    }
  }
  int64_t done = 0;
  if (prefill_ && first == 0 && count > 1) done = prefill(ids, hidden);
  for (; done < count; ++done) {
    if (cancel != nullptr) cancel->throw_if_cancelled();
    decode_one(ids[static_cast<size_t>(done)], first + done, hidden.row(done));
  }
}

void QhexrtModel::head(Span2d<const float> hidden, Span2d<float> logits) {
  Halves in(manifest_.hidden);
  Halves out(manifest_.vocab);
  head_->bind_input(half_view(head_input_.name, {1, manifest_.hidden}, in.data()));
  head_->bind_output(half_view(head_output_.name, {1, manifest_.vocab}, out.data()));
  for (int64_t r = 0; r < hidden.rows; ++r) {
    for (int64_t i = 0; i < manifest_.hidden; ++i) in[i] = float_to_fp16(hidden.row(r)[i]);
    head_->run();
    for (int64_t i = 0; i < manifest_.vocab; ++i) logits.row(r)[i] = fp16_to_float(out[i]);
  }
}

}  // namespace fathom
