// Which tensors a model asks for, compared with those that a checkpoint holds.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "checkpoint/checkpoint.h"
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
  bool quantised = false;      // may be F8_E4M3; then name + "_scale_inv" must hold its grid
  bool mtp = false;            // part of the multi-token-prediction layer
  bool may_be_absent = false;  // another tensor takes its place
  bool packable = false;       // may be in 8, 4, 3 or 2 bits; then name + "_scale" has its scales
};

struct TensorReport {
  bool has_mtp = false;
  std::vector<std::string> unexpected;
};
// Kinds of problems are "missing", "wrong shape", "wrong dtype" and "no scale".
struct TensorComparison {
  TensorReport report;
  ProblemList problems;
};

// Compares tensor after tensor: presence, shape, dtypes that no kernel takes, F8 weights without
// (or with misshapen) scales.
class TensorChecker {
 public:
  // The config's weight_block_size; 0 where the checkpoint is not FP8.
  TensorChecker(const Checkpoint& checkpoint, int64_t block_rows, int64_t block_cols)
      : checkpoint_(checkpoint), block_rows_(block_rows), block_cols_(block_cols) {}

  void check(const ExpectedTensor& expected);
  // True for tensors that were expected, and their scales.
  bool is_known(std::string_view name) const { return known_.count(name) > 0; }
  ProblemList take_problems() { return std::move(problems_); }

 private:
  void check_packed_scale(const TensorInfo& weight, const std::vector<int64_t>& shape);
  void check_scale(const TensorInfo& weight);
  std::string other_scale(const std::string& weight) const;

  const Checkpoint& checkpoint_;
  int64_t block_rows_;
  int64_t block_cols_;
  std::unordered_set<std::string_view> known_;  // views into the checkpoint's names
  ProblemList problems_;
  int rounded_biases_ = 0;
};

// A warning that names some of them.
void warn_of_unexpected(const Checkpoint& checkpoint, const std::vector<std::string>& unexpected);

}  // namespace fathom
