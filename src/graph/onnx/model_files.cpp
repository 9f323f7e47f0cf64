#include "graph/onnx/model_files.h"

#include <algorithm>
#include <functional>
#include <span>

#include "base/error.h"
#include "base/file.h"
#include "graph/onnx/element_types.h"

namespace fathom::onnx {
namespace {

// Bytes [begin, end) of the file: one message, or one text.
struct Extent {
  uint64_t begin = 0;
  uint64_t end = 0;
};

class Reader {
 public:
  explicit Reader(const std::string& path) : file_(path) {}
  Extent all() const { return {0, file_.size()}; }

  // Calls `take(field, extent)` for every text or message directly inside, `number(field, value)`
  // for every integer; skips the rest.
  void each(const Extent& message, const std::function<void(uint64_t, const Extent&)>& take,
            const std::function<void(uint64_t, uint64_t)>& number = nullptr) {
    uint64_t at = message.begin;
    while (at < message.end) {
      const uint64_t tag = varint(&at, message.end);
      switch (tag & 7) {
        case 0: {
          const uint64_t value = varint(&at, message.end);
          if (number) number(tag >> 3, value);
          break;
        }
        case 1:
          at += 8;
          break;
        case 2: {
          const uint64_t size = varint(&at, message.end);
          if (size > message.end - at) broken(at);
          take(tag >> 3, {at, at + size});
          at += size;
          break;
        }
        case 5:
          at += 4;
          break;
        default:
          broken(at);
      }
      if (at > message.end) broken(at);
    }
  }

  std::string text(const Extent& extent) {
    constexpr uint64_t kMost = 4096;  // names and paths
    std::string text(std::min(extent.end - extent.begin, kMost), '\0');
    file_.read_at(extent.begin, std::as_writable_bytes(std::span(text)));
    return text;
  }

 private:
  [[noreturn]] void broken(uint64_t at) const {
    fail_input("{}: offset {}: this is no ONNX model, or it is damaged", file_.path(), at);
  }

  uint64_t varint(uint64_t* at, uint64_t end) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (*at >= end) broken(*at);
      const auto byte = static_cast<uint8_t>(next((*at)++));
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    broken(*at);
  }

  std::byte next(uint64_t at) {
    if (at < window_ || at >= window_ + buffer_.size()) {
      window_ = at;
      buffer_.resize(std::min<uint64_t>(4096, file_.size() - at));
      file_.read_at(at, buffer_);
    }
    return buffer_[at - window_];
  }

  File file_;
  std::vector<std::byte> buffer_;
  uint64_t window_ = 0;
};

// Numbers of fields, as in graph_writer.cpp.
enum Field : uint64_t {
  kModelGraph = 7,
  kGraphNode = 1,
  kGraphInitializer = 5,
  kGraphInput = 11,
  kGraphOutput = 12,
  kNodeName = 3,
  kNodeOp = 4,
  kNodeAttribute = 5,
  kAttributeName = 1,
  kAttributeText = 4,
  kTensorExternal = 13,
  kEntryKey = 1,
  kEntryValue = 2,
  kInfoName = 1,
  kInfoType = 2,
  kTypeTensor = 1,
  kTensorElement = 1,
  kTensorShape = 2,
  kShapeDim = 1,
  kDimValue = 1
};

ElementType element_type(uint64_t number) {
  for (const auto type :
       {ElementType::f32, ElementType::u8, ElementType::i32, ElementType::i64, ElementType::f16}) {
    if (static_cast<uint64_t>(onnx_type(type)) == number) return type;
  }
  return ElementType::other;
}

void add_once(std::vector<std::string>* names, const std::string& name) {
  if (std::find(names->begin(), names->end(), name) == names->end()) names->push_back(name);
}

void read_node(Reader& reader, const Extent& extent, ModelFiles* files) {
  ContextNode node;
  bool is_context = false;
  reader.each(extent, [&](uint64_t field, const Extent& part) {
    if (field == kNodeName) node.name = reader.text(part);
    if (field == kNodeOp) is_context = reader.text(part) == "EPContext";
  });
  if (!is_context) return;
  bool embedded = false;
  reader.each(extent, [&](uint64_t field, const Extent& part) {
    if (field != kNodeAttribute) return;
    std::string name;
    Extent text;
    reader.each(part, [&](uint64_t inner, const Extent& value) {
      if (inner == kAttributeName) name = reader.text(value);
      if (inner == kAttributeText) text = value;
    });
    if (name == "source") node.source = reader.text(text);
    // A path is short; a whole binary is not.
    if (name == "ep_cache_context") {
      embedded = text.end - text.begin > 1024;
      if (!embedded) node.file = reader.text(text);
    }
  });
  files->contexts.push_back(node);
}

void read_tensor(Reader& reader, const Extent& extent, ModelFiles* files) {
  reader.each(extent, [&](uint64_t field, const Extent& entry) {
    if (field != kTensorExternal) return;
    std::string key;
    std::string value;
    reader.each(entry, [&](uint64_t inner, const Extent& text) {
      if (inner == kEntryKey) key = reader.text(text);
      if (inner == kEntryValue) value = reader.text(text);
    });
    if (key == "location") add_once(&files->data_files, value);
  });
}

TensorSpec read_spec(Reader& reader, const Extent& extent) {
  TensorSpec spec;
  const auto read_dim = [&](uint64_t field, const Extent& dim) {
    if (field != kShapeDim) return;
    int64_t size = -1;  // a name, or nothing
    reader.each(
        dim, [](uint64_t, const Extent&) {},
        [&size](uint64_t inner, uint64_t value) {
          if (inner == kDimValue) size = static_cast<int64_t>(value);
        });
    spec.shape.push_back(size);
  };
  const auto read_tensor_type = [&](uint64_t field, const Extent& tensor) {
    if (field != kTypeTensor) return;
    reader.each(
        tensor,
        [&](uint64_t inner, const Extent& shape) {
          if (inner == kTensorShape) reader.each(shape, read_dim);
        },
        [&spec](uint64_t inner, uint64_t value) {
          if (inner == kTensorElement) spec.type = element_type(value);
        });
  };
  reader.each(extent, [&](uint64_t field, const Extent& part) {
    if (field == kInfoName) spec.name = reader.text(part);
    if (field == kInfoType) reader.each(part, read_tensor_type);
  });
  return spec;
}

}  // namespace

ModelFiles read_model_files(const std::string& path) {
  Reader reader(path);
  ModelFiles files;
  bool has_graph = false;
  reader.each(reader.all(), [&](uint64_t field, const Extent& graph) {
    if (field != kModelGraph) return;
    has_graph = true;
    reader.each(graph, [&](uint64_t inner, const Extent& part) {
      if (inner == kGraphNode) read_node(reader, part, &files);
      if (inner == kGraphInitializer) read_tensor(reader, part, &files);
      if (inner == kGraphInput) files.inputs.push_back(read_spec(reader, part));
      if (inner == kGraphOutput) files.outputs.push_back(read_spec(reader, part));
    });
  });
  if (!has_graph) fail_input("{}: there is no graph in this file", path);
  return files;
}

}  // namespace fathom::onnx
