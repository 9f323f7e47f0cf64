// DeepseekV3ForCausalLM, one layer at a time.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "checkpoint/hf_config.h"
#include "experts/expert_store.h"
#include "kernels/context.h"
#include "model/decoder.h"
#include "model/deepseek/mla.h"
#include "model/deepseek/moe.h"
#include "model/deepseek/weights.h"

namespace fathom {

class DeepseekModel final : public Decoder {
 public:
  // `row_chunk`: rows that are worked on at once inside a layer; it bounds scratch memory and never
  // changes bits. weights, experts and context must outlive the model.
  DeepseekModel(const DeepseekConfig& config, const DeepseekWeights& weights, ExpertStore& experts,
                const KernelContext& context, int64_t row_chunk);

  const ModelShape& shape() const override { return shape_; }
  const PassTimes& times() const override { return times_; }
  bool has_mtp() const override { return weights_->has_mtp; }
  const Rope& rope() const { return mla_.rope(); }
  // Hears of every router's choice from here on; nullptr for nobody.
  void set_route_sink(RouteSink* sink) { moe_.set_route_sink(sink); }

  void begin(Sweep& sweep) override;
  void begin(Sweep& sweep, Span2d<const float> embeddings) override;
  using Decoder::advance;
  // Cancellation is looked at between row chunks and between experts.
  bool advance(Sweep& sweep, const CancelToken* cancel, const SweepTrace& trace) override;
  void final_hidden(const Sweep& sweep, Span2d<float> out) const override;
  void head(Span2d<const float> final_hidden, Span2d<float> logits) const override;
  void begin_mtp(Sweep& sweep, Span2d<const float> final_hidden) override;
  void mtp_head(const Sweep& sweep, Span2d<float> logits) const override;

 private:
  void reserve(Sweep& sweep);
  void embed(const Sweep& sweep, const Embedding& table, Span2d<float> out) const;
  void attention(const LayerWeights& w, int64_t layer, Sweep& sweep, const CancelToken* cancel,
                 const SweepTrace& trace);
  void guess_next_experts(int64_t layer, Sweep& sweep);
  void mlp(const LayerWeights& w, int64_t layer, Sweep& sweep, const CancelToken* cancel);

  DeepseekConfig config_;
  ModelShape shape_;
  const DeepseekWeights* weights_;
  const KernelContext* context_;
  int64_t row_chunk_;
  float eps_;
  mutable PassTimes times_;
  Mla mla_;
  Moe moe_;
  Matrix gate_;  // scratch of the dense and shared MLPs, [row_chunk, intermediate]
  Matrix up_;
  Matrix mlp_out_;  // [row_chunk, hidden]
};

}  // namespace fathom
