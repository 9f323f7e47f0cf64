#include "base/buffer.h"

#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/system.h"

namespace fathom {
namespace {

// Below this a block comes from the allocator; above it whole huge pages pay.
constexpr size_t kMapFrom = size_t{4} << 20;

}  // namespace

Buffer::Buffer(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  const size_t wanted = (bytes + kReadableTail + kAlignment - 1) / kAlignment * kAlignment;
  if (wanted < bytes)
    fail(ErrorKind::io, "a block of {} bytes is more than can be addressed", bytes);
  if (wanted >= kMapFrom) {
    data_ = static_cast<std::byte*>(system::map_memory(wanted));
    mapped_ = wanted;
  } else {
    data_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, wanted));
    if (data_ != nullptr) std::memset(data_, 0, wanted);
  }
  if (data_ == nullptr) fail(ErrorKind::io, "no memory for a block of {} bytes", bytes);
}

Buffer::~Buffer() {
  if (mapped_ != 0) {
    system::unmap_memory(data_, mapped_);
  } else {
    std::free(data_);
  }
}

}  // namespace fathom
