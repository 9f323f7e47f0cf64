// Writing the protocol-buffer wire format: as much of it as ONNX files take.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace fathom::onnx {

// One message, field by field. Fields of a number may be repeated.
class Message {
 public:
  Message& integer(int field, int64_t value) {
    tag(field, 0);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message& real(int field, float value) {
    tag(field, 5);
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes_ += static_cast<char>(bits >> shift);
    return *this;
  }
  Message& text(int field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, int wire) {
    varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire));
  }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

}  // namespace fathom::onnx
