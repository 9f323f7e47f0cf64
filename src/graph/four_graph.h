// The four-graph contract: embedding, context (prefill windows), iteration (one token), head.
//
// Keys and values lie in buffers of max_len rows, each at its position. total_seq_len stays
// max_len; past_seq_len is the last position of the pass, from which the attention takes both what
// it may see and what RoPE is told. A prompt of N tokens goes through ceil(N / window) context
// passes whose past_seq_len is the window's last row's position, padded on the right in the last
// one; pads come after every real token, so no real row sees them, and the rows they leave behind
// are written over by the tokens that follow. What follows the prompt is row N - 1, and the first
// token's iteration pass has past_seq_len N.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "graph/four_graph_config.h"
#include "graph/graph_decoder.h"

namespace fathom {

class FourGraphModel : public GraphDecoder {
 public:
  FourGraphModel(const std::string& folder, FourGraphConfig config, const GraphChoice& choice);

  const GraphModelShape& shape() const override { return shape_; }
  void feed(std::span<const int32_t> ids, int64_t first, Span2d<float> hidden,
            const CancelToken* cancel) override;
  void head(Span2d<const float> hidden, Span2d<float> logits) override;
  std::vector<GraphRunner*> graphs() override;
  GraphSessions& sessions() override { return *sessions_; }

  // Single passes, for those who drive the graphs in other ways: a window with `ids` and pads
  // behind them, or one token.
  void context_pass(std::span<const int32_t> ids, int64_t past_seq_len);
  void iteration_pass(int32_t id, int64_t past_seq_len);
  // Row `row` of what the last pass gave, [hidden_size].
  std::span<const float> output_row(int64_t row) const;

 private:
  GraphRunner& stage(StageRole role);
  void read_shapes();
  void embed(std::span<const int32_t> ids, int64_t rows);
  void decoder_pass(StageRole role, int64_t rows, int64_t past_seq_len);
  void bind_kv(GraphRunner& runner);
  void require_width(const TensorSpec& spec, const GraphRunner& runner) const;

  std::string folder_;
  FourGraphConfig config_;
  std::unique_ptr<GraphSessions> sessions_;
  std::unique_ptr<GraphRunner> runners_[kStages];
  GraphModelShape shape_;
  std::vector<int64_t> kv_shape_;  // [1, kv heads, max_len, head size]
  int64_t layer_values_ = 0;       // of keys, and again of values

  // Graphs read one set of keys and values and write the other, so that a pass that fails or is
  // given up has changed nothing.
  Array<float> kv_[2];
  int now_ = 0;
  Array<float> input_;   // [window, hidden]
  Array<float> output_;  // [window, hidden]
  int32_t past_length_ = 0;
  int32_t total_length_ = 0;
};

}  // namespace fathom
