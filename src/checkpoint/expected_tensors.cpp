#include "checkpoint/expected_tensors.h"

#include <charconv>
#include <utility>

#include "base/error.h"
#include "base/join.h"
#include "base/json_sax.h"
#include "base/log.h"
#include "checkpoint/packed_tensor.h"

namespace fathom {

namespace names {
namespace {

constexpr std::string_view kLayers = "model.layers.";

}  // namespace

std::string layer(int64_t layer, std::string_view rest) {
  return fmt::format("{}{}.{}", kLayers, layer, rest);
}

std::string expert(int64_t layer, int64_t expert, std::string_view projection) {
  return fmt::format("model.layers.{}.mlp.experts.{}.{}.weight", layer, expert, projection);
}

std::optional<int64_t> layer_of(std::string_view name) {
  if (!name.starts_with(kLayers)) return std::nullopt;
  name.remove_prefix(kLayers.size());
  int64_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.') return std::nullopt;
  return layer;
}

std::string_view rest_in_layer(std::string_view name) {
  return name.substr(name.find('.', kLayers.size()) + 1);
}

}  // namespace names

void TensorChecker::check(const ExpectedTensor& expected) {
  const TensorInfo* tensor = checkpoint_.find(expected.name);
  if (tensor == nullptr) {
    if (!expected.may_be_absent) problems_.add("missing", expected.name, "");
    return;
  }
  known_.insert(tensor->name);
  if (expected.packable && packed_bits(*tensor, expected.shape[0], expected.shape[1]) != 0) {
    check_packed_scale(*tensor, expected.shape);
    return;
  }
  if (tensor->shape != expected.shape) {
    problems_.add("wrong shape", expected.name,
                  fmt::format("{}, by config.json {}", shape_text(tensor->shape),
                              shape_text(expected.shape)));
    return;
  }
  const bool plain =
      tensor->dtype == Dtype::bf16 || tensor->dtype == Dtype::f16 || tensor->dtype == Dtype::f32;
  if (tensor->dtype == Dtype::f8_e4m3 && expected.quantised) {
    check_scale(*tensor);
  } else if (!plain) {
    problems_.add("wrong dtype", expected.name,
                  fmt::format("{}; accepted: {}BF16, F16, F32", dtype_name(tensor->dtype),
                              expected.quantised ? "F8_E4M3, " : ""));
  } else if (tensor->dtype != Dtype::f32 && expected.name.ends_with("e_score_correction_bias")) {
    ++rounded_biases_;
    if (rounded_biases_ == 1) {
      log::warning(
          "{}: {} is {} and not F32: the exporter rounded it, close choices of experts "
          "may differ",
          checkpoint_.folder(), expected.name, dtype_name(tensor->dtype));
    }
  }
}

void TensorChecker::check_packed_scale(const TensorInfo& weight,
                                       const std::vector<int64_t>& shape) {
  const std::string name = weight.name + std::string(kPackedScaleSuffix);
  const TensorInfo* scale = checkpoint_.find(name);
  if (scale == nullptr) {
    problems_.add("no scale", weight.name,
                  fmt::format("{}, but {} is missing", dtype_name(weight.dtype), name));
    return;
  }
  known_.insert(scale->name);
  const PackedShape packed =
      packed_shape(packed_bits(weight, shape[0], shape[1]), shape[0], shape[1]);
  if (scale->shape != packed.scale_shape) {
    problems_.add("wrong shape", name,
                  fmt::format("{}, for weight {} it must be {}", shape_text(scale->shape),
                              shape_text(shape), shape_text(packed.scale_shape)));
  } else if (scale->dtype != packed.scale_dtype) {
    problems_.add(
        "wrong dtype", name,
        fmt::format("{}; accepted: {}", dtype_name(scale->dtype), dtype_name(packed.scale_dtype)));
  }
}

void TensorChecker::check_scale(const TensorInfo& weight) {
  if (block_rows_ == 0) {
    problems_.add("wrong dtype", weight.name,
                  "F8_E4M3, but config.json has no quantization_config to say its blocks");
    return;
  }
  const std::string name = weight.name + std::string(names::kScaleSuffix);
  const TensorInfo* scale = checkpoint_.find(name);
  if (scale == nullptr) {
    problems_.add("no scale", weight.name,
                  fmt::format("F8_E4M3, but {} is missing{}", name, other_scale(weight.name)));
    return;
  }
  known_.insert(scale->name);
  const std::vector<int64_t> grid = {(weight.shape[0] + block_rows_ - 1) / block_rows_,
                                     (weight.shape[1] + block_cols_ - 1) / block_cols_};
  if (scale->shape != grid) {
    problems_.add(
        "wrong shape", name,
        fmt::format("{}, for weight {} in blocks of {}x{} it must be {}", shape_text(scale->shape),
                    shape_text(weight.shape), block_rows_, block_cols_, shape_text(grid)));
  } else if (scale->dtype != Dtype::f32) {
    problems_.add("wrong dtype", name,
                  fmt::format("{}; scales are only accepted as F32", dtype_name(scale->dtype)));
  }
}

// Other tools name the scale otherwise; saying so tells why the file does not fit.
std::string TensorChecker::other_scale(const std::string& weight) const {
  for (const std::string_view suffix : {"_scale", "_scales", "_inv_scale"}) {
    const std::string name = weight + std::string(suffix);
    if (checkpoint_.find(name) != nullptr) return fmt::format(" ({} is there instead)", name);
  }
  return "";
}

void warn_of_unexpected(const Checkpoint& checkpoint, const std::vector<std::string>& unexpected) {
  if (unexpected.empty()) return;
  constexpr size_t kNamed = 5;
  std::vector<std::string> some;
  for (const std::string& name : unexpected) {
    if (some.size() == kNamed) break;
    some.push_back(quoted_for_message(name));
  }
  log::warning("{}: {} tensor{} not used: {}{}", checkpoint.folder(), unexpected.size(),
               unexpected.size() == 1 ? " is" : "s are", join(some, ", "),
               unexpected.size() > kNamed ? ", ..." : "");
}

}  // namespace fathom
