// The key-value cache: pages of positions, shared between sequences and copied on write.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "kernels/attention/attention.h"

namespace fathom {

// A page holds kPagePositions positions of every layer; it is one block of the softmax, so that
// pages can be shared, copied and dropped without changing the order of summation.
constexpr int64_t kPagePositions = kAttentionBlock;

struct KvCacheLayout {
  int64_t layers = 0;  // the MTP layer counts as one more
  KvRowLayout row;
  bool rollback = true;  // false: truncate() keeps all positions or none
  int64_t layer_bytes() const { return kPagePositions * row.bytes(); }
  int64_t page_bytes() const { return layers * layer_bytes(); }
};

// Hands out pages and takes them back; at most `max_pages` exist at once. Used by one thread.
class KvPagePool {
 public:
  KvPagePool(const KvCacheLayout& layout, int64_t max_pages)
      : layout_(layout), max_pages_(max_pages) {}
  KvPagePool(const KvPagePool&) = delete;
  KvPagePool& operator=(const KvPagePool&) = delete;

  const KvCacheLayout& layout() const { return layout_; }
  int64_t pages_in_use() const { return in_use_; }
  int64_t max_pages() const { return max_pages_; }

  // A page with unspecified contents; Error(input) when max_pages are in use. The pool must outlive
  // its pages.
  std::shared_ptr<Buffer> allocate();

 private:
  KvCacheLayout layout_;
  int64_t max_pages_;
  int64_t in_use_ = 0;
  std::vector<Buffer> free_;
};

// What one sequence has cached: positions 0 .. length() - 1. Copying shares every page (fork,
// prefix sharing); writing copies a shared page first. Used by one thread, except that rows of
// different positions may be written by different threads between prepare() and commit().
class KvSequence {
 public:
  explicit KvSequence(KvPagePool& pool) : pool_(&pool) {}

  const KvCacheLayout& layout() const { return pool_->layout(); }
  int64_t length() const { return length_; }

  // Makes positions length() .. length() + count - 1 writable: pages exist and belong to this
  // sequence alone. The only call that allocates.
  void prepare(int64_t count);
  // Pages that prepare(count) would take from the pool.
  int64_t pages_to_prepare(int64_t count) const;
  // The prepared positions now count as cached.
  void commit(int64_t count);
  // Makes cached positions from `first` on writable again, as prepare() does for new ones.
  void prepare_again(int64_t first);
  // Forgets all positions from `length` on (rejected drafts, a cut turn), or every position where
  // the layout has no rollback.
  void truncate(int64_t length);

  std::byte* row(int64_t layer, int64_t position) const;
  // Where each page's rows of that layer begin, one pointer per page, for LatentAttention::blocks.
  // `into` must hold page_count() pointers.
  void block_pointers(int64_t layer, std::span<const std::byte*> into) const;
  int64_t page_count() const { return static_cast<int64_t>(pages_.size()); }
  std::span<const std::shared_ptr<Buffer>> pages() const { return pages_; }
  int64_t shared_pages() const;

 private:
  KvPagePool* pool_;
  std::vector<std::shared_ptr<Buffer>> pages_;
  int64_t length_ = 0;
};

}  // namespace fathom
