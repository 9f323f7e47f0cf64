#include <algorithm>
#include <iterator>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/buffer.h"
#include "base/error.h"
#include "checkpoint/model_tensors.h"
#include "checkpoint/value_scan.h"
#include "checkpoint/verify.h"
#include "checkpoint/verify_parallel.h"

namespace fathom {
namespace {

constexpr uint64_t kPiece = uint64_t{8} << 20;  // a multiple of every element's size

bool is_float(Dtype dtype) {
  return dtype == Dtype::bf16 || dtype == Dtype::f16 || dtype == Dtype::f32;
}

class ValueCheck {
 public:
  ValueCheck(const VerifyOptions& options, const VerifySubject& subject, VerifyReport* report)
      : options_(options), subject_(subject), report_(report) {
    by_shard_.resize(subject.checkpoint.shards().size());
  }

  void run() {
    FileWork work;
    uint64_t tensors = 0;
    uint64_t skipped = 0;
    for (const TensorInfo& tensor : subject_.checkpoint.tensors()) {
      const auto shard = static_cast<size_t>(tensor.shard);
      const bool whole =
          tensor.offset + tensor.bytes <= subject_.checkpoint.shards()[shard].file.size();
      if (!whole || !(is_float(tensor.dtype) || tensor.dtype == Dtype::f8_e4m3)) {
        ++skipped;
        continue;
      }
      by_shard_[shard].push_back(&tensor);
      work.bytes += tensor.bytes;
      ++tensors;
    }
    for (std::vector<const TensorInfo*>& of_shard : by_shard_) {
      std::sort(of_shard.begin(), of_shard.end(),
                [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
    }
    if (skipped > 0) {
      report_->notes.push_back(
          fmt::format("values of {} tensors were not looked at: they are cut short, or no kernel "
                      "takes their format",
                      skipped));
    }
    work.label = "values";
    work.files = by_shard_.size();
    work.threads = file_threads(options_.threads);
    work.cancel = options_.cancel;
    work.task = [this](size_t shard, const auto& advance) { scan_shard(shard, advance); };
    run_file_work(work);
    report_->bytes_scanned = work.bytes;
    std::sort(findings_.begin(), findings_.end(), [](const Finding& a, const Finding& b) {
      return std::tie(a.file, a.offset, a.tensor) < std::tie(b.file, b.offset, b.tensor);
    });
    report_->checks.push_back({VerifyCheck::values, tensors, "tensors", findings_.size()});
    std::move(findings_.begin(), findings_.end(), std::back_inserter(report_->findings));
  }

 private:
  const Shard& shard_of(const TensorInfo& tensor) const {
    return subject_.checkpoint.shards()[static_cast<size_t>(tensor.shard)];
  }

  void find(const TensorInfo& tensor, const ValueProblem& problem) {
    const uint64_t element =
        problem.element.value_or(0) * static_cast<uint64_t>(dtype_bytes(tensor.dtype));
    const std::lock_guard lock(mutex_);
    findings_.push_back({VerifyCheck::values, shard_of(tensor).name, tensor.name,
                         tensor.offset + element, problem.problem, true});
  }

  void scan_shard(size_t shard, const std::function<void(uint64_t)>& advance) {
    const Buffer buffer(static_cast<size_t>(kPiece));
    for (const TensorInfo* tensor : by_shard_[shard]) {
      try {
        scan(*tensor, buffer.bytes(), advance);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::cancelled) throw;
        find(*tensor, {false, std::nullopt, error.what()});
      }
    }
  }

  template <typename Scan>
  void feed(const TensorInfo& tensor, std::span<std::byte> buffer,
            const std::function<void(uint64_t)>& advance, Scan* scan) const {
    for (uint64_t at = 0; at < tensor.bytes;) {
      const std::span<std::byte> piece =
          buffer.first(static_cast<size_t>(std::min<uint64_t>(buffer.size(), tensor.bytes - at)));
      subject_.checkpoint.read(tensor, at, piece);
      scan->add(piece);
      shard_of(tensor).file.drop_cached(tensor.offset + at, piece.size());
      at += piece.size();
      advance(piece.size());
    }
  }

  void scan(const TensorInfo& tensor, std::span<std::byte> buffer,
            const std::function<void(uint64_t)>& advance) {
    if (tensor.dtype == Dtype::f8_e4m3) return scan_fp8(tensor, buffer, advance);
    if (tensor.dtype == Dtype::f32 && tensor.name.ends_with(names::kScaleSuffix)) {
      for (const ValueProblem& problem : scale_problems(floats_of(tensor))) find(tensor, problem);
      advance(tensor.bytes);
      return;
    }
    FloatScan scan(tensor.dtype);
    feed(tensor, buffer, advance, &scan);
    const bool is_matrix = tensor.shape.size() > 1;
    for (const ValueProblem& problem : scan.problems(is_matrix, tensor.name.ends_with("bias"))) {
      find(tensor, problem);
    }
  }

  std::vector<float> floats_of(const TensorInfo& tensor) const {
    std::vector<float> values(static_cast<size_t>(tensor.bytes / sizeof(float)));
    subject_.checkpoint.read(tensor, std::as_writable_bytes(std::span(values)));
    return values;
  }

  void scan_fp8(const TensorInfo& tensor, std::span<std::byte> buffer,
                const std::function<void(uint64_t)>& advance) {
    const auto [block_rows, block_cols] =
        subject_.config ? weight_blocks_of(*subject_.config) : std::pair<int64_t, int64_t>{};
    const bool blocks = block_rows > 0;
    // What is no matrix in blocks is searched for what is no number, as one row.
    Fp8Scan::Shape shape{1, static_cast<int64_t>(tensor.bytes), 1, int64_t{1} << 16};
    if (tensor.bytes == 0) return;
    if (blocks && tensor.shape.size() == 2) {
      shape = {tensor.shape[0], tensor.shape[1], block_rows, block_cols};
    }
    Fp8Scan scan(shape);
    feed(tensor, buffer, advance, &scan);
    const TensorInfo* scale =
        subject_.checkpoint.find(tensor.name + std::string(names::kScaleSuffix));
    std::vector<float> scales;
    if (blocks && scale != nullptr && scale->dtype == Dtype::f32 &&
        scale->offset + scale->bytes <= shard_of(*scale).file.size()) {
      scales = floats_of(*scale);
      if (!scale_problems(scales).empty()) scales.clear();  // said of the scales themselves
    }
    for (const ValueProblem& problem : scan.problems(scales)) {
      find(problem.in_scales ? *scale : tensor, problem);
    }
  }

  const VerifyOptions& options_;
  const VerifySubject& subject_;
  VerifyReport* report_;
  std::vector<std::vector<const TensorInfo*>> by_shard_;
  std::mutex mutex_;
  std::vector<Finding> findings_;
};

}  // namespace

void verify_values(const VerifyOptions& options, const VerifySubject& subject,
                   VerifyReport* report) {
  ValueCheck(options, subject, report).run();
}

}  // namespace fathom
