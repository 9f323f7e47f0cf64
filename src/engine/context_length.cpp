#include "engine/context_length.h"

#include <fmt/core.h>

#include "base/error.h"

namespace fathom {

ContextDecision decide_context(const ModelShape& shape,
                               std::optional<int64_t> tokenizer_model_max_length, int64_t asked,
                               const std::string& source) {
  const int64_t most = shape.max_position_embeddings;
  const std::string stated = tokenizer_model_max_length
                                 ? fmt::format("{} says {}, tokenizer_config.json {}", source, most,
                                               *tokenizer_model_max_length)
                                 : fmt::format("{} says {}", source, most);
  if (asked < 0) fail_usage("--ctx {}: a context has at least one token", asked);
  if (asked > 0) {
    if (asked > most && !shape.dynamic_rope) {
      fail_usage("--ctx {} is more than the model's max_position_embeddings, {} ({})", asked, most,
                 source);
    }
    std::string reason = fmt::format("--ctx ({})", stated);
    if (asked > most) {
      reason +=
          "; beyond max_position_embeddings dynamic scaling changes with the length, so "
          "there results depend on how a prompt is cut";
    }
    return {asked, reason};
  }
  if (tokenizer_model_max_length && *tokenizer_model_max_length < most) {
    return {*tokenizer_model_max_length,
            fmt::format("the smaller of two ({}); --ctx takes up to {}", stated, most)};
  }
  return {most, stated};
}

}  // namespace fathom
