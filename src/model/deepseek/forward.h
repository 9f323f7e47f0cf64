// DeepseekV3ForCausalLM, one layer at a time.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/cancel.h"
#include "checkpoint/hf_config.h"
#include "experts/expert_store.h"
#include "kernels/context.h"
#include "model/deepseek/mla.h"
#include "model/deepseek/moe.h"
#include "model/deepseek/weights.h"
#include "model/pass_times.h"
#include "model/sweep.h"

namespace fathom {

// What a caller may want to see of a sweep besides its logits. Views are filled where they are set.
struct SweepTrace {
  // [num_hidden_layers + 1][rows, hidden]: the embedding's output, then after each layer, the last
  // one after the final norm.
  std::vector<Matrix>* hidden_states = nullptr;
  // [num_hidden_layers][rows * heads, positions]; only for sweeps of one sequence.
  std::vector<Matrix>* attentions = nullptr;
};

class DeepseekModel {
 public:
  // `row_chunk`: rows that are worked on at once inside a layer; it bounds scratch memory and never
  // changes bits. weights, experts and context must outlive the model.
  DeepseekModel(const DeepseekConfig& config, const DeepseekWeights& weights, ExpertStore& experts,
                const KernelContext& context, int64_t row_chunk);

  const DeepseekConfig& config() const { return config_; }
  bool has_mtp() const { return weights_->has_mtp; }
  // Cache layers that a sequence needs: one per decoder layer, the MTP layer included.
  int64_t cache_layers() const { return static_cast<int64_t>(weights_->layers.size()); }
  const Rope& rope() const { return mla_.rope(); }
  // Hears of every router's choice from here on; nullptr for nobody.
  void set_route_sink(RouteSink* sink) { moe_.set_route_sink(sink); }
  const PassTimes& times() const { return times_; }

  // Starts a sweep: cache positions for its rows, the embedding of their tokens, scratch. All that
  // a sweep allocates is allocated here.
  void begin(Sweep& sweep);
  // The same with the caller's own input embeddings [rows, hidden] instead of tokens.
  void begin(Sweep& sweep, Span2d<const float> embeddings);
  // Takes every row through the next layer; false once all decoder layers are done. Cancellation
  // (between row chunks and between experts) throws and leaves the sweep unusable: the driver
  // truncates its sequences.
  bool advance(Sweep& sweep, const CancelToken* cancel, const SweepTrace& trace = {});
  // final_norm(hidden) of the rows that want logits, [wanting rows, hidden] in order of rows; after
  // the last layer.
  void final_hidden(const Sweep& sweep, Span2d<float> out) const;
  // Logits [n, vocab] of such rows.
  void head(Span2d<const float> final_hidden, Span2d<float> logits) const;

  // Starts a sweep through the MTP layer: row i holds the *next* token t_{i+1} at its own position
  // i, final_hidden[i] is the main model's h_i. advance() once, then mtp_head(): logits of the rows
  // that want them.
  void begin_mtp(Sweep& sweep, Span2d<const float> final_hidden);
  void mtp_head(const Sweep& sweep, Span2d<float> logits) const;

 private:
  void reserve(Sweep& sweep);
  void embed(const Sweep& sweep, const Embedding& table, Span2d<float> out) const;
  void attention(const LayerWeights& w, int64_t layer, Sweep& sweep, const CancelToken* cancel,
                 const SweepTrace& trace);
  void guess_next_experts(int64_t layer, Sweep& sweep);
  void mlp(const LayerWeights& w, int64_t layer, Sweep& sweep, const CancelToken* cancel);

  DeepseekConfig config_;
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
