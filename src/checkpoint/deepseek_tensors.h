// Which tensors a DeepseekV3 checkpoint must hold, by its config, and what was found instead.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/hf_config.h"
#include "checkpoint/problem_list.h"

namespace fathom {

// Names of the released files.
namespace names {
std::string layer(int64_t layer, std::string_view rest);  // "model.layers.3." + rest
std::string expert(int64_t layer, int64_t expert,
                   std::string_view projection);  // ".gate_proj", ...
// N of "model.layers.N.rest"; nullopt for other names.
std::optional<int64_t> layer_of(std::string_view name);
// "rest" of such a name.
std::string_view rest_in_layer(std::string_view name);
inline constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
inline constexpr std::string_view kFinalNorm = "model.norm.weight";
inline constexpr std::string_view kHead = "lm_head.weight";
inline constexpr std::string_view kScaleSuffix = "_scale_inv";  // after ".weight"
}  // namespace names

// A tensor that the config calls for.
struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
  bool quantised = false;  // may be F8_E4M3; then name + "_scale_inv" must hold its grid
  bool mtp = false;        // part of the multi-token-prediction layer
};

// In the order of the released files (embedding, layers, final norm, head, MTP).
std::vector<ExpectedTensor> expected_deepseek_tensors(const DeepseekConfig& config, bool with_mtp);

// Compares the checkpoint with its config: missing tensors, wrong shapes, dtypes that no kernel
// takes, F8 weights without (or with misshapen) scales. All problems go into one Error(input),
// grouped so that it stays readable however many there are. MTP tensors are known whether they are
// used or not; when they are all absent, the model simply has no MTP. Tensors that nothing expects
// are named in a warning.
struct TensorReport {
  bool has_mtp = false;
  std::vector<std::string> unexpected;
};
TensorReport check_deepseek_tensors(const Checkpoint& checkpoint, const DeepseekConfig& config);

// The same comparison, for those who list what is wrong: nothing is thrown, and unexpected tensors
// are not warned of. Kinds of problems are "missing", "wrong shape", "wrong dtype" and "no scale".
struct TensorComparison {
  TensorReport report;
  ProblemList problems;
};
TensorComparison compare_deepseek_tensors(const Checkpoint& checkpoint,
                                          const DeepseekConfig& config);

}  // namespace fathom
