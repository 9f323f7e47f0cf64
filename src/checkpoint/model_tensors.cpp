#include "checkpoint/model_tensors.h"

#include <utility>

#include "checkpoint/deepseek_tensors.h"
#include "checkpoint/dense_tensors.h"

namespace fathom {

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config, bool with_mtp) {
  if (const auto* deepseek = std::get_if<DeepseekConfig>(&config)) {
    return expected_deepseek_tensors(*deepseek, with_mtp);
  }
  return expected_dense_tensors(std::get<DenseConfig>(config));
}

TensorComparison compare_tensors(const Checkpoint& checkpoint, const ModelConfig& config) {
  if (const auto* deepseek = std::get_if<DeepseekConfig>(&config)) {
    return compare_deepseek_tensors(checkpoint, *deepseek);
  }
  return compare_dense_tensors(checkpoint, std::get<DenseConfig>(config));
}

TensorReport check_tensors(const Checkpoint& checkpoint, const ModelConfig& config) {
  TensorComparison comparison = compare_tensors(checkpoint, config);
  comparison.problems.fail_if_any(checkpoint.folder());
  warn_of_unexpected(checkpoint, comparison.report.unexpected);
  return std::move(comparison.report);
}

bool has_mtp_layer(const ModelConfig& config) {
  const auto* deepseek = std::get_if<DeepseekConfig>(&config);
  return deepseek != nullptr && deepseek->num_nextn_predict_layers > 0;
}

std::pair<int64_t, int64_t> weight_blocks_of(const ModelConfig& config) {
  return std::visit(
      [](const auto& c) { return std::pair(c.weight_block_rows, c.weight_block_cols); }, config);
}

}  // namespace fathom
