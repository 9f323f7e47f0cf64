#include "base/npy.h"

#include <bit>
#include <charconv>
#include <string_view>

#include "base/error.h"

namespace fathom {
namespace {

static_assert(std::endian::native == std::endian::little, "floats are written as they lie");

constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);
constexpr size_t kPreamble = 10;  // magic, version and the header's length in two bytes
constexpr size_t kAlignment = 64;

uint64_t element_count(const std::vector<int64_t>& shape, const std::string& path) {
  // So that bytes, too, stay below 2^63.
  constexpr uint64_t kMost = uint64_t{1} << 60;
  uint64_t count = 1;
  for (const int64_t size : shape) {
    const auto factor = static_cast<uint64_t>(size);
    if (size < 0 || (factor != 0 && count > kMost / factor)) {
      fail_input("{}: the array's shape is impossible", path);
    }
    count *= factor;
  }
  return count;
}

std::string header_of(const std::vector<int64_t>& shape) {
  std::string tuple = "(";
  for (size_t i = 0; i < shape.size(); ++i) tuple += (i ? ", " : "") + std::to_string(shape[i]);
  tuple += shape.size() == 1 ? ",)" : ")";
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': " + tuple + ", }";
  text.append(kAlignment - 1 - (kPreamble + text.size()) % kAlignment, ' ');
  return text + "\n";
}

// Reads the header's dictionary: three known keys in any order.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  std::vector<int64_t> shape() {
    expect('{');
    int seen = 0;
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") {
        const std::string_view dtype = quoted();
        if (dtype != "<f4") fail_input("{}: its values are '{}'; only '<f4' is read", path_, dtype);
      } else if (key == "fortran_order") {
        const std::string_view order = word();
        if (order != "False") fail_input("{}: only arrays in C order are read", path_);
      } else if (key == "shape") {
        read_tuple();
      } else {
        refuse();
      }
      ++seen;
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (seen != 3 || !text_.empty()) refuse();
    return shape_;
  }

 private:
  [[noreturn]] void refuse() const { fail_input("{}: the array's header is damaged", path_); }
  void skip_space() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
  }
  bool accept(char wanted) {
    skip_space();
    if (!text_.starts_with(wanted)) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) refuse();
  }
  std::string_view quoted() {
    expect('\'');
    const size_t end = text_.find('\'');
    if (end == std::string_view::npos) refuse();
    const std::string_view value = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return value;
  }
  std::string_view word() {
    skip_space();
    const size_t end = text_.find_first_of(",} ");
    if (end == std::string_view::npos) refuse();
    const std::string_view value = text_.substr(0, end);
    text_.remove_prefix(end);
    return value;
  }
  void read_tuple() {
    expect('(');
    while (!accept(')')) {
      skip_space();
      int64_t size = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) refuse();
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      shape_.push_back(size);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
  }

  std::string_view text_;
  const std::string& path_;
  std::vector<int64_t> shape_;
};

}  // namespace

NpyWriter::NpyWriter(const std::string& path, const std::vector<int64_t>& shape)
    : path_(path), file_(path), missing_(element_count(shape, path)) {
  const std::string header = header_of(shape);
  if (header.size() > 0xffff) fail_usage("{}: an array of {} dimensions", path, shape.size());
  std::string preamble(kMagic);
  preamble += static_cast<char>(header.size() & 0xff);
  preamble += static_cast<char>(header.size() >> 8);
  file_.write(preamble + header);
}

void NpyWriter::write(std::span<const float> values) {
  if (values.size() > missing_) {
    fail_usage("{}: {} values for the last {} places of the array", path_, values.size(), missing_);
  }
  file_.write(std::as_bytes(values));
  missing_ -= values.size();
}

void NpyWriter::commit() {
  if (missing_ != 0) fail_usage("{}: the array still lacks {} values", path_, missing_);
  file_.commit();
}

NpyArray read_npy(const std::string& path) {
  const File file(path);
  std::string preamble(kPreamble, '\0');
  if (file.size() < kPreamble) fail_input("{}: too short for a .npy file", path);
  file.read_at(0, std::as_writable_bytes(std::span(preamble)));
  if (!preamble.starts_with(kMagic)) fail_input("{}: not a .npy file of version 1.0", path);
  const auto low = static_cast<unsigned char>(preamble[8]);
  const auto high = static_cast<unsigned char>(preamble[9]);
  std::string header(static_cast<size_t>(low | high << 8), '\0');
  if (file.size() - kPreamble < header.size()) fail_input("{}: the file is cut short", path);
  file.read_at(kPreamble, std::as_writable_bytes(std::span(header)));

  NpyArray array;
  array.shape = HeaderReader(header, path).shape();
  const uint64_t wanted = element_count(array.shape, path) * sizeof(float);
  const uint64_t begin = kPreamble + header.size();
  if (file.size() - begin != wanted) {
    fail_input("{}: {} bytes follow the header where its shape takes {}", path, file.size() - begin,
               wanted);
  }
  array.values.resize(wanted / sizeof(float));
  file.read_at(begin, std::as_writable_bytes(std::span(array.values)));
  return array;
}

}  // namespace fathom
