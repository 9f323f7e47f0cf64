#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/join.h"
#include "base/json_sax.h"

namespace fathom {
namespace {

struct DtypeEntry {
  Dtype dtype;
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<DtypeEntry, 17> kDtypes = {{
    {Dtype::f8_e4m3, "F8_E4M3", 1},
    {Dtype::bf16, "BF16", 2},
    {Dtype::f16, "F16", 2},
    {Dtype::f32, "F32", 4},
    {Dtype::f64, "F64", 8},
    {Dtype::i64, "I64", 8},
    {Dtype::i32, "I32", 4},
    {Dtype::i16, "I16", 2},
    {Dtype::i8, "I8", 1},
    {Dtype::u8, "U8", 1},
    {Dtype::boolean, "BOOL", 1},
    {Dtype::f8_e5m2, "F8_E5M2", 1},
    {Dtype::f8_e8m0, "F8_E8M0", 1},
    {Dtype::u64, "U64", 8},
    {Dtype::u32, "U32", 4},
    {Dtype::u16, "U16", 2},
    {Dtype::c64, "C64", 8},
}};

const DtypeEntry& entry_of(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)]; }

std::optional<Dtype> dtype_of(std::string_view name) {
  for (const DtypeEntry& entry : kDtypes) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMostHeaderBytes = 100'000'000;
constexpr size_t kMostDimensions = 32;
constexpr int kMostNesting = 64;  // inside __metadata__ and fields of other versions

// Takes the header's JSON as events, so that nothing but the tensors themselves is ever stored.
class HeaderHandler {
 public:
  using Json = nlohmann::json;

  // Where `problems` is not null, wrong places go there instead of being thrown.
  HeaderHandler(std::string_view text, uint64_t file_size, const std::string& path,
                std::vector<ExtentProblem>* problems)
      : text_(text), path_(path), where_(path + " header"), problems_(problems) {
    header_.header_bytes = text.size();
    data_begin_ = kLengthBytes + text.size();
    data_bytes_ = file_size - data_begin_;
  }

  SafetensorsHeader take() {
    sax_parse_json<Json>(text_, where_, &reached_, this);
    check_names();
    check_overlaps();
    check_end();
    return std::move(header_);
  }

  bool null() { return other("null"); }
  bool boolean(bool) { return other("true or false"); }
  bool number_integer(Json::number_integer_t) { return other("a negative number"); }
  bool number_float(Json::number_float_t, const std::string&) { return other("a fraction"); }
  bool binary(Json::binary_t&) { return false; }

  bool number_unsigned(Json::number_unsigned_t value) {
    if (at_ == At::shape_items) {
      if (value > static_cast<uint64_t>(INT64_MAX)) refuse("a dimension is too large");
      if (tensor_.shape.size() == kMostDimensions) {
        refuse(fmt::format("more than {} dimensions", kMostDimensions));
      }
      tensor_.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (at_ == At::offset_items) {
      if (offset_count_ == 2) refuse("data_offsets has more than two numbers");
      offsets_[offset_count_++] = value;
      return true;
    }
    return other("a number");
  }

  bool string(std::string& value) {
    if (at_ != At::dtype) return other("a string");
    dtype_ = std::move(value);
    at_ = At::fields;
    return true;
  }

  bool start_object(size_t) {
    if (at_ == At::document) {
      at_ = At::names;
    } else if (at_ == At::tensor) {
      at_ = At::fields;
    } else {
      return open("an object");
    }
    return true;
  }
  bool end_object() {
    if (at_ == At::skipped) return close();
    if (at_ == At::fields) {
      finish_tensor();
      at_ = At::names;
    } else {
      at_ = At::document;
    }
    return true;
  }

  bool start_array(size_t) {
    if (at_ == At::shape) {
      at_ = At::shape_items;
    } else if (at_ == At::offsets) {
      at_ = At::offset_items;
    } else {
      return open("a list");
    }
    return true;
  }
  bool end_array() {
    if (at_ == At::skipped) return close();
    if (at_ == At::offset_items && offset_count_ != 2) refuse("data_offsets needs two numbers");
    at_ = At::fields;
    return true;
  }

  bool key(std::string& name) {
    if (at_ == At::names) {
      begin_entry(name);
    } else if (at_ == At::fields) {
      begin_field(name);
    }
    return true;  // keys inside of what is skipped mean nothing here
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) {
    fail_json(text_, position, where_, json_syntax_problem(error.what()));
  }

 private:
  // What the parser stands before or in.
  enum class At {
    document,
    names,
    tensor,
    fields,
    dtype,
    shape,
    shape_items,
    offsets,
    offset_items,
    skipped,
  };
  enum Field { kDtype = 1, kShape = 2, kOffsets = 4 };

  [[noreturn]] void refuse(std::string_view problem) const {
    const auto offset = static_cast<size_t>(reached_ - text_.data());
    if (at_ == At::document || at_ == At::names) fail_json(text_, offset, where_, problem);
    fail_json(text_, offset, where_,
              fmt::format("tensor {}: {}", quoted_for_message(tensor_.name), problem));
  }

  void begin_entry(std::string& name) {
    if (name == "__metadata__") {
      if (has_metadata_) refuse("'__metadata__' is given twice");
      has_metadata_ = true;
      skip();
      return;
    }
    tensor_ = TensorInfo();
    tensor_.name = std::move(name);
    fields_ = 0;
    offset_count_ = 0;
    at_ = At::tensor;
  }

  void begin_field(const std::string& name) {
    const int field = name == "dtype"          ? kDtype
                      : name == "shape"        ? kShape
                      : name == "data_offsets" ? kOffsets
                                               : 0;
    if (field == 0) return skip();
    if (fields_ & field) refuse(fmt::format("'{}' is given twice", name));
    fields_ |= field;
    at_ = field == kDtype ? At::dtype : field == kShape ? At::shape : At::offsets;
  }

  void finish_tensor() {
    if (fields_ != (kDtype | kShape | kOffsets)) {
      refuse("it needs 'dtype', 'shape' and 'data_offsets'");
    }
    const std::optional<Dtype> dtype = dtype_of(dtype_);
    if (!dtype) refuse(fmt::format("unknown dtype {}", quoted_for_message(dtype_, 40)));
    tensor_.dtype = *dtype;
    const auto [begin, end] = offsets_;
    if (end < begin)
      refuse(fmt::format("data_offsets end at {} before they begin at {}", end, begin));
    uint64_t wanted = static_cast<uint64_t>(dtype_bytes(*dtype));
    bool overflow = false;
    for (const int64_t size : tensor_.shape) {
      overflow |= __builtin_mul_overflow(wanted, static_cast<uint64_t>(size), &wanted);
    }
    const bool empty =
        std::find(tensor_.shape.begin(), tensor_.shape.end(), 0) != tensor_.shape.end();
    if (empty) {
      wanted = 0;  // whatever the other dimensions multiply to
    } else if (overflow) {
      refuse(
          fmt::format("shape {} has more bytes than 64 bits can count", shape_text(tensor_.shape)));
    }
    if (wanted != end - begin) {
      refuse(fmt::format("{} {} takes {} bytes, but data_offsets [{},{}] give it {}", dtype_,
                         shape_text(tensor_.shape), wanted, begin, end, end - begin));
    }
    if (end > data_bytes_) {
      const std::string what =
          fmt::format("its data end at byte {} of {}; the file is cut short or the header is wrong",
                      end, data_bytes_);
      // Numbers so large would not survive being added up.
      if (problems_ == nullptr || end > uint64_t{1} << 62) refuse(what);
      problems_->push_back({ExtentProblem::Kind::beyond_file, tensor_.name,
                            data_begin_ + std::max(begin, data_bytes_), what});
    }
    tensor_.offset = data_begin_ + begin;
    tensor_.bytes = wanted;
    header_.tensors.push_back(std::move(tensor_));
  }

  // A value of a kind that cannot stand here, unless it is skipped anyway.
  bool other(std::string_view kind) {
    if (at_ != At::skipped) refuse_kind(kind);
    if (skip_depth_ == 0) at_ = after_skipped_;
    return true;
  }
  bool open(std::string_view kind) {
    if (at_ != At::skipped) refuse_kind(kind);
    if (++skip_depth_ > kMostNesting)
      refuse(fmt::format("more than {} nested levels", kMostNesting));
    return true;
  }
  bool close() {
    if (--skip_depth_ == 0) at_ = after_skipped_;
    return true;
  }
  void skip() {
    after_skipped_ = at_;
    skip_depth_ = 0;
    at_ = At::skipped;
  }

  [[noreturn]] void refuse_kind(std::string_view kind) const {
    switch (at_) {
      case At::document:
        refuse(fmt::format("the header is {} and not an object", kind));
      case At::tensor:
        refuse(fmt::format("{} where an object is expected", kind));
      case At::dtype:
        refuse(fmt::format("dtype is {} and not a string", kind));
      case At::shape:
      case At::shape_items:
        refuse(fmt::format("{} in shape; whole numbers are expected", kind));
      default:
        refuse(fmt::format("{} in data_offsets; two whole numbers are expected", kind));
    }
  }

  void check_names() const {
    std::unordered_set<std::string_view> names;
    names.reserve(header_.tensors.size());
    for (const TensorInfo& tensor : header_.tensors) {
      if (!names.insert(tensor.name).second) {
        fail_input("{}: tensor {} is given twice", where_, quoted_for_message(tensor.name));
      }
    }
  }

  void check_overlaps() const {
    const std::vector<TensorInfo>& tensors = header_.tensors;
    std::vector<size_t> order(tensors.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::erase_if(order, [&](size_t i) { return tensors[i].bytes == 0; });
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return tensors[a].offset < tensors[b].offset; });
    for (size_t i = 1; i < order.size(); ++i) {
      const TensorInfo& before = tensors[order[i - 1]];
      const TensorInfo& after = tensors[order[i]];
      if (before.offset + before.bytes <= after.offset) continue;
      const std::string what =
          fmt::format("tensors {} and {} overlap at offset {}", quoted_for_message(before.name),
                      quoted_for_message(after.name), after.offset);
      if (problems_ == nullptr) fail_input("{}: {}", path_, what);
      problems_->push_back({ExtentProblem::Kind::overlap, after.name, after.offset,
                            fmt::format("it overlaps tensor {}", quoted_for_message(before.name))});
    }
  }

  // Gaps may align tensors; bytes behind the last one are of another file or another version of it.
  void check_end() const {
    uint64_t end = data_begin_;
    const TensorInfo* last = nullptr;
    for (const TensorInfo& tensor : header_.tensors) {
      if (tensor.offset + tensor.bytes > end) last = &tensor;
      end = std::max(end, tensor.offset + tensor.bytes);
    }
    const uint64_t file_end = data_begin_ + data_bytes_;
    if (end >= file_end) return;
    const std::string what = fmt::format(
        "{} bytes follow the last tensor, which ends at offset {}: the file is not the one that "
        "its header describes",
        file_end - end, end);
    if (problems_ == nullptr) fail_input("{}: {}", path_, what);
    problems_->push_back(
        {ExtentProblem::Kind::trailing_bytes, last != nullptr ? last->name : "", end, what});
  }

  std::string_view text_;
  const std::string& path_;
  std::string where_;
  std::vector<ExtentProblem>* problems_;
  uint64_t data_begin_ = 0;
  uint64_t data_bytes_ = 0;
  const char* reached_ = nullptr;
  SafetensorsHeader header_;

  At at_ = At::document;
  At after_skipped_ = At::document;
  int skip_depth_ = 0;
  bool has_metadata_ = false;
  TensorInfo tensor_;
  std::string dtype_;
  int fields_ = 0;
  size_t offset_count_ = 0;
  std::array<uint64_t, 2> offsets_{};
};

// What a file that is no safetensors file seems to be; empty where nothing is recognised.
std::string_view recognise(std::string_view beginning) {
  const size_t first = beginning.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return "";
  beginning.remove_prefix(first);
  const auto begins = [&](std::string_view with) {
    return beginning.size() >= with.size() &&
           std::equal(with.begin(), with.end(), beginning.begin(), [](char a, char b) {
             return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b + 32) : b);
           });
  };
  if (begins("version https://git-lfs")) return "a Git LFS pointer, not the file itself";
  if (begins("<!doctype") || begins("<html") || begins("<head")) return "an HTML page";
  if (begins("<?xml")) return "an XML page";
  if (begins("gguf")) return "a GGUF file";
  if (begins("pk\x03\x04")) return "a zip archive (perhaps a PyTorch file)";
  if (begins("{")) return "JSON text";
  return "";
}

SafetensorsHeader parse_header(std::string_view json, uint64_t file_size, const std::string& path,
                               std::vector<ExtentProblem>* problems) {
  if (file_size < kLengthBytes || json.size() > file_size - kLengthBytes) {
    fail_input("{}: a header of {} bytes does not fit a file of {}", path, json.size(), file_size);
  }
  return HeaderHandler(json, file_size, path, problems).take();
}

}  // namespace

std::string_view dtype_name(Dtype dtype) { return entry_of(dtype).name; }
int64_t dtype_bytes(Dtype dtype) { return entry_of(dtype).bytes; }

SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t file_size,
                                           const std::string& path) {
  return parse_header(json, file_size, path, nullptr);
}

SafetensorsHeader read_safetensors_header(const File& file) {
  return read_safetensors_header(file, nullptr);
}

SafetensorsHeader read_safetensors_header(const File& file, std::vector<ExtentProblem>* problems) {
  const std::string& path = file.path();
  if (file.size() == 0) fail_input("{}: the file is empty", path);
  std::string beginning(static_cast<size_t>(std::min<uint64_t>(file.size(), 64)), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(beginning)));
  if (file.size() < kLengthBytes) {
    fail_input("{}: {} bytes are too few for a safetensors file", path, file.size());
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= uint64_t{static_cast<unsigned char>(beginning[i])} << (8 * i);
  }
  if (length > file.size() - kLengthBytes || length > kMostHeaderBytes) {
    if (const std::string_view kind = recognise(beginning); !kind.empty()) {
      fail_input("{}: this is {}; download the safetensors file again", path, kind);
    }
    if (length > kMostHeaderBytes) {
      fail_input(
          "{}: a header of {} bytes is more than the format's {}: not a safetensors file, or "
          "a damaged one",
          path, length, kMostHeaderBytes);
    }
    fail_input("{}: the header should be {} bytes long, but the file has only {}: it is cut short",
               path, length, file.size());
  }
  std::string json(static_cast<size_t>(length), '\0');
  file.read_at(kLengthBytes, std::as_writable_bytes(std::span(json)));
  return parse_header(json, file.size(), path, problems);
}

}  // namespace fathom
