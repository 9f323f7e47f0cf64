// A model of graphs as the engine's decoder.
//
// Keys and values of one sequence lie in the graphs' own buffers. What the engine takes for a
// sequence's cache holds the tokens alone, one per position; before a pass, what the buffers hold
// is compared with it, and what is missing is computed anew. So sequences may be copied, cut and
// saved like any other, and taking turns is right, though slow.
#pragma once

#include <memory>
#include <vector>

#include "graph/graph_decoder.h"
#include "model/decoder.h"

namespace fathom {

class GraphDecoderModel : public Decoder {
 public:
  explicit GraphDecoderModel(std::unique_ptr<GraphDecoder> graphs);

  const ModelShape& shape() const override { return shape_; }
  DecoderAbilities abilities() const override;
  const PassTimes& times() const override { return times_; }
  void begin(Sweep& sweep) override;
  void begin(Sweep& sweep, Span2d<const float> embeddings) override;
  bool advance(Sweep& sweep, const CancelToken* cancel, const SweepTrace& trace) override;
  void final_hidden(const Sweep& sweep, Span2d<float> out) const override;
  void head(Span2d<const float> final_hidden, Span2d<float> logits) const override;

  GraphDecoder& graphs() const { return *graphs_; }
  static KvCacheLayout cache_layout();

 private:
  void feed(std::span<const int32_t> ids, int64_t first, Span2d<float> hidden,
            const CancelToken* cancel);

  std::unique_ptr<GraphDecoder> graphs_;
  ModelShape shape_;
  mutable PassTimes times_;
  std::vector<int32_t> fed_;  // what the graphs' buffers hold
};

}  // namespace fathom
