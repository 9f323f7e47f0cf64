// safetensors headers: the first four bytes are the payload's size, the rest is the header.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "checkpoint/safetensors.h"

namespace {

// What every accepted header must fulfil, or readers would leave the file.
void require(bool condition) {
  if (!condition) std::abort();
}

void check(const fathom::SafetensorsHeader& header, uint64_t file_size) {
  for (const fathom::TensorInfo& tensor : header.tensors) {
    require(tensor.offset >= 8 + header.header_bytes && tensor.offset <= file_size);
    require(tensor.bytes <= file_size - tensor.offset);
    uint64_t elements = 1;
    for (const int64_t size : tensor.shape) {
      require(size >= 0);
      elements *= static_cast<uint64_t>(size);
    }
    require(tensor.bytes == 0 ||
            tensor.bytes == elements * static_cast<uint64_t>(fathom::dtype_bytes(tensor.dtype)));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint32_t payload = 0;
  if (size < sizeof payload) return 0;
  std::memcpy(&payload, data, sizeof payload);
  const std::string_view header(reinterpret_cast<const char*>(data) + sizeof payload,
                                size - sizeof payload);
  const uint64_t file_size = 8 + header.size() + payload;
  try {
    check(fathom::parse_safetensors_header(header, file_size, "fuzz.safetensors"), file_size);
  } catch (const fathom::Error& error) {
    require(error.kind() == fathom::ErrorKind::input);
  }
  return 0;
}
