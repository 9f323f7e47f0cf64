#include "engine/graph_decoder_model.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace fathom {
namespace {

void store_token(const SweepRow& row) {
  std::memcpy(row.cache->row(0, row.index), &row.token, sizeof(row.token));
}

int32_t token_at(const KvSequence& cache, int64_t position) {
  int32_t token;
  std::memcpy(&token, cache.row(0, position), sizeof(token));
  return token;
}

}  // namespace

GraphDecoderModel::GraphDecoderModel(std::unique_ptr<GraphDecoder> graphs)
    : graphs_(std::move(graphs)) {
  const GraphModelShape& shape = graphs_->shape();
  shape_.architecture = shape.contract;
  shape_.vocab_size = shape.vocab_size;
  shape_.hidden_size = shape.hidden_size;
  shape_.num_hidden_layers = shape.num_hidden_layers;
  shape_.max_position_embeddings = shape.max_len;
}

KvCacheLayout GraphDecoderModel::cache_layout() {
  KvCacheLayout layout;
  layout.layers = 1;
  layout.row.format = KvFormat::f32;
  layout.row.latent = 1;  // room for one token
  static_assert(sizeof(float) == sizeof(int32_t));
  return layout;
}

DecoderAbilities GraphDecoderModel::abilities() const {
  DecoderAbilities abilities;
  abilities.most_sequences = 1;
  abilities.longest_context = graphs_->shape().max_len;
  abilities.bit_stable = false;
  abilities.traces = false;
  abilities.remark =
      "one sequence at a time; another one's turn computes it anew; results depend on the provider "
      "and are not the same to the bit";
  return abilities;
}

void GraphDecoderModel::begin(Sweep& sweep) {
  prepare_caches(sweep);
  for (const SweepRow& row : sweep.rows) {
    if (row.position != row.index) {
      fail_usage("graphs count positions themselves: position {} at place {} cannot be asked for",
                 row.position, row.index);
    }
    store_token(row);
  }
  sweep.hidden = Matrix(sweep.size(), shape_.hidden_size);
  sweep.next_layer = 0;
}

void GraphDecoderModel::begin(Sweep&, Span2d<const float>) {
  fail_usage("a model of graphs takes tokens, not embeddings");
}

void GraphDecoderModel::feed(std::span<const int32_t> ids, int64_t first, Span2d<float> hidden,
                             const CancelToken* cancel) {
  fed_.resize(static_cast<size_t>(first));  // also where it fails half-way
  graphs_->feed(ids, first, hidden, cancel);
  fed_.insert(fed_.end(), ids.begin(), ids.end());
}

bool GraphDecoderModel::advance(Sweep& sweep, const CancelToken* cancel, const SweepTrace& trace) {
  if (trace.hidden_states != nullptr || trace.attentions != nullptr) {
    fail_usage(
        "a model of graphs does not show what is inside: hidden states and attentions "
        "cannot be asked for");
  }
  const PartTimer timer(&times_.attention);
  std::vector<int32_t> ids;
  for (int64_t begin = 0; begin < sweep.size();) {
    const KvSequence& cache = *sweep.rows[static_cast<size_t>(begin)].cache;
    const int64_t first = sweep.rows[static_cast<size_t>(begin)].index;
    // What the buffers lack of this sequence.
    int64_t known = 0;
    while (known < std::min<int64_t>(first, static_cast<int64_t>(fed_.size())) &&
           fed_[static_cast<size_t>(known)] == token_at(cache, known)) {
      ++known;
    }
    if (known < first) {
      ids.clear();
      for (int64_t p = known; p < first; ++p) ids.push_back(token_at(cache, p));
      Matrix unused(first - known, shape_.hidden_size);
      feed(ids, known, unused, cancel);
    }
    ids.clear();
    int64_t end = begin;
    while (end < sweep.size() && sweep.rows[static_cast<size_t>(end)].cache == &cache) {
      ids.push_back(sweep.rows[static_cast<size_t>(end++)].token);
    }
    feed(ids, first, sweep.hidden.view().middle_rows(begin, end - begin), cancel);
    begin = end;
  }
  sweep.next_layer = shape_.num_hidden_layers;
  return false;
}

void GraphDecoderModel::final_hidden(const Sweep& sweep, Span2d<float> out) const {
  copy_wanting(sweep, out);
}

void GraphDecoderModel::head(Span2d<const float> final_hidden, Span2d<float> logits) const {
  const PartTimer timer(&times_.head);
  graphs_->head(final_hidden, logits);
}

}  // namespace fathom
