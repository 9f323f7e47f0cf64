// Qwen2ForCausalLM, LlamaForCausalLM and Qwen3ForCausalLM, one layer at a time.
#pragma once

#include "checkpoint/dense_config.h"
#include "kernels/context.h"
#include "model/decoder.h"
#include "model/dense/attention.h"
#include "model/dense/weights.h"

namespace fathom {

class DenseModel final : public Decoder {
 public:
  // `row_chunk`: rows that are worked on at once inside a layer; it bounds scratch memory and never
  // changes bits. weights and context must outlive the model.
  DenseModel(const DenseConfig& config, const DenseWeights& weights, const KernelContext& context,
             int64_t row_chunk);

  const ModelShape& shape() const override { return shape_; }
  const PassTimes& times() const override { return times_; }
  void begin(Sweep& sweep) override;
  void begin(Sweep& sweep, Span2d<const float> embeddings) override;
  using Decoder::advance;
  // Cancellation is looked at between row chunks.
  bool advance(Sweep& sweep, const CancelToken* cancel, const SweepTrace& trace) override;
  void final_hidden(const Sweep& sweep, Span2d<float> out) const override;
  void head(Span2d<const float> final_hidden, Span2d<float> logits) const override;

 private:
  void attention(const DenseLayerWeights& w, Sweep& sweep, const CancelToken* cancel,
                 const SweepTrace& trace);
  void mlp(const DenseLayerWeights& w, Sweep& sweep, const CancelToken* cancel);
  // Calls step(first, count) for one piece of the rows after the other, in ascending order.
  template <typename Step>
  void in_chunks(const Sweep& sweep, const CancelToken* cancel, const Step& step) const;

  DenseConfig config_;
  ModelShape shape_;
  const DenseWeights* weights_;
  const KernelContext* context_;
  int64_t row_chunk_;
  float eps_;
  mutable PassTimes times_;
  GroupedAttention attention_;
  Matrix gate_;  // scratch of the MLP, [row_chunk, intermediate]
  Matrix up_;
  Matrix mlp_out_;  // [row_chunk, hidden]
};

}  // namespace fathom
