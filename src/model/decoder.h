// What the engine and the scheduler see of a model: a stack of layers that takes sweeps.
#pragma once

#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/span2d.h"
#include "checkpoint/model_shape.h"
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

// What a decoder can do; the scheduler asks for no more.
struct DecoderAbilities {
  int64_t most_sequences = 0;   // on their way at once; 0: any number
  bool rollback = true;         // positions can be taken back one by one (else: all, or none)
  bool prefix_sharing = true;   // a sequence can be copied and both go on
  int64_t longest_context = 0;  // 0: what the config says
  bool bit_stable = true;       // the same bits whatever the chunks and the company
  bool traces = true;           // begin() with embeddings, and SweepTrace
  std::string remark;           // for the user, where there is something to say; ""
};

class Decoder {
 public:
  virtual ~Decoder() = default;

  virtual const ModelShape& shape() const = 0;
  virtual DecoderAbilities abilities() const { return {}; }
  virtual const PassTimes& times() const = 0;

  // Starts a sweep: cache positions for its rows, the embedding of their tokens, scratch. All that
  // a sweep allocates is allocated here.
  virtual void begin(Sweep& sweep) = 0;
  // The same with the caller's own input embeddings [rows, hidden] instead of tokens.
  virtual void begin(Sweep& sweep, Span2d<const float> embeddings) = 0;
  // Takes every row through the next layer (or several); false once all are done. Cancellation
  // throws and leaves the sweep unusable: the driver truncates its sequences.
  virtual bool advance(Sweep& sweep, const CancelToken* cancel, const SweepTrace& trace) = 0;
  bool advance(Sweep& sweep, const CancelToken* cancel) { return advance(sweep, cancel, {}); }
  // final_norm(hidden) of the rows that want logits, [wanting rows, hidden] in order of rows; after
  // the last layer.
  virtual void final_hidden(const Sweep& sweep, Span2d<float> out) const = 0;
  // Logits [n, vocab] of such rows.
  virtual void head(Span2d<const float> final_hidden, Span2d<float> logits) const = 0;

  // The multi-token-prediction layer, where one is loaded.
  virtual bool has_mtp() const { return false; }
  // Starts a sweep through it: row i holds the *next* token t_{i+1} at its own position i,
  // final_hidden[i] is the main model's h_i. advance() once, then mtp_head(): logits of the rows
  // that want them.
  virtual void begin_mtp(Sweep& sweep, Span2d<const float> final_hidden);
  virtual void mtp_head(const Sweep& sweep, Span2d<float> logits) const;
};

// For those who write decoders.

// Makes room in the sequences' caches for all rows of a sweep, and counts them as cached.
void prepare_caches(Sweep& sweep);
// The hidden states of the rows that want logits.
void copy_wanting(const Sweep& sweep, Span2d<float> out);
Matrix copy_of(Span2d<const float> x);
void add_to(Span2d<const float> x, Span2d<float> to);
// bias [to.cols], to every row.
void add_bias(const float* bias, Span2d<float> to);

}  // namespace fathom
