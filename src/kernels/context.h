// What an operation computes with: a set of kernels, threads, and scratch memory.
#pragma once

#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/threads.h"

namespace fathom {

struct KernelSet;  // kernels/dispatch.h

// Made once per engine. Operations (linear(), combine(), ...) take it by reference; each worker has
// scratch of its own, so that no operation allocates.
class KernelContext {
 public:
  static constexpr size_t kScratchBytes = size_t{4} << 20;

  KernelContext(const KernelSet& kernels, ThreadPool& pool) : kernels_(&kernels), pool_(&pool) {
    for (int i = 0; i < pool.threads(); ++i) scratch_.emplace_back(kScratchBytes);
  }
  const KernelSet& kernels() const { return *kernels_; }
  ThreadPool& pool() const { return *pool_; }
  std::byte* scratch(int worker) const { return scratch_[static_cast<size_t>(worker)].data(); }

 private:
  const KernelSet* kernels_;
  ThreadPool* pool_;
  std::vector<Buffer> scratch_;
};

}  // namespace fathom
