#include "cache/kv_cache.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/error.h"

namespace fathom {

std::shared_ptr<Buffer> KvPagePool::allocate() {
  if (in_use_ >= max_pages_) {
    fail_input("the key-value cache is full: {} pages of {} positions are in use", in_use_,
               kPagePositions);
  }
  Buffer page;
  if (free_.empty()) {
    page = Buffer(static_cast<size_t>(layout_.page_bytes()));
  } else {
    page = std::move(free_.back());
    free_.pop_back();
  }
  ++in_use_;
  return {new Buffer(std::move(page)), [this](Buffer* returned) {
            free_.push_back(std::move(*returned));
            delete returned;
            --in_use_;
          }};
}

void KvSequence::prepare(int64_t count) {
  if (count <= 0) return;
  const int64_t last_page = (length_ + count - 1) / kPagePositions;
  // A partly filled page that others share too is copied before it is written.
  prepare_again(length_);
  while (page_count() <= last_page) pages_.push_back(pool_->allocate());
}

int64_t KvSequence::pages_to_prepare(int64_t count) const {
  if (count <= 0) return 0;
  const int64_t first_page = length_ / kPagePositions;
  const int64_t last_page = (length_ + count - 1) / kPagePositions;
  const bool copied =
      first_page < page_count() && pages_[static_cast<size_t>(first_page)].use_count() > 1;
  return std::max<int64_t>(0, last_page + 1 - page_count()) + (copied ? 1 : 0);
}

void KvSequence::prepare_again(int64_t first) {
  for (auto page = static_cast<size_t>(first / kPagePositions); page < pages_.size(); ++page) {
    if (pages_[page].use_count() == 1) continue;
    std::shared_ptr<Buffer> own = pool_->allocate();
    std::memcpy(own->data(), pages_[page]->data(), own->size());
    pages_[page] = std::move(own);
  }
}

void KvSequence::commit(int64_t count) {
  length_ += count;
  assert(length_ <= page_count() * kPagePositions);
}

void KvSequence::truncate(int64_t length) {
  assert(length >= 0 && length <= length_);
  if (!layout().rollback && length < length_) length = 0;
  length_ = length;
  pages_.resize(static_cast<size_t>((length + kPagePositions - 1) / kPagePositions));
}

std::byte* KvSequence::row(int64_t layer, int64_t position) const {
  const auto page = static_cast<size_t>(position / kPagePositions);
  const KvCacheLayout& layout = pool_->layout();
  return pages_[page]->data() + layer * layout.layer_bytes() +
         (position % kPagePositions) * layout.row.bytes();
}

void KvSequence::block_pointers(int64_t layer, std::span<const std::byte*> into) const {
  const int64_t offset = layer * pool_->layout().layer_bytes();
  for (size_t page = 0; page < pages_.size(); ++page) into[page] = pages_[page]->data() + offset;
}

int64_t KvSequence::shared_pages() const {
  int64_t shared = 0;
  for (const auto& page : pages_) shared += page.use_count() > 1;
  return shared;
}

}  // namespace fathom
