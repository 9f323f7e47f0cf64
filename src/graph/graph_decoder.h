// A language model made of graphs: what both contracts (four graphs, QHexRT bundles) offer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/span2d.h"
#include "graph/runner.h"
#include "graph/sessions.h"

namespace fathom {

struct GraphModelShape {
  std::string contract;  // "four graphs", "QHexRT bundle"
  std::string name;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t max_len = 0;      // positions that keys and values have room for
  int64_t window = 1;       // rows of a prefill pass
  uint64_t kv_bytes = 0;    // of all positions
  uint64_t file_bytes = 0;  // of graphs and weights
  std::vector<int64_t> eos_ids;
  std::vector<int64_t> bos_ids;  // in front of a raw prompt, where a bundle says so
};

// One sequence at a time, whose keys and values it keeps. Rows at positions behind the last one fed
// are forgotten: feeding from an earlier position on takes back what followed it. Not bit-stable:
// providers compute as they like.
class GraphDecoder {
 public:
  virtual ~GraphDecoder() = default;
  virtual const GraphModelShape& shape() const = 0;
  // Computes `ids` at positions first, first + 1, ...; everything before `first` has been fed.
  // `hidden` [ids, hidden_size] receives what the head takes. Error(usage) where it is longer than
  // max_len. Cancelled between passes (Error(cancelled)); what was complete before stays.
  virtual void feed(std::span<const int32_t> ids, int64_t first, Span2d<float> hidden,
                    const CancelToken* cancel) = 0;
  // hidden [n, hidden_size] to logits [n, vocab_size].
  virtual void head(Span2d<const float> hidden, Span2d<float> logits) = 0;
  // The graphs in the order in which they run; those that are not loaded now are left out.
  virtual std::vector<GraphRunner*> graphs() = 0;
  virtual GraphSessions& sessions() = 0;
};

enum class GraphContract { four_graph, qhexrt };
// What `folder` holds: genai_config.json (or, if asked for, the walkthrough's files), a bundle's
// manifest or a bundle's folders by architecture; nothing where it is no model of graphs.
std::optional<GraphContract> graph_contract(const std::string& folder, const GraphChoice& choice);
// Where its tokenizer lies: the folder, or the bundle's folder for one architecture.
std::string graph_text_folder(const std::string& folder, const GraphChoice& choice);
std::unique_ptr<GraphDecoder> open_graph_model(const std::string& folder,
                                               const GraphChoice& choice);

}  // namespace fathom
