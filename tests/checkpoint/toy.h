// Small checkpoints for tests, written by hand so that every byte can be wrong.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/join.h"
#include "checkpoint/safetensors.h"
#include "tests/temporary_folder.h"

namespace fathom {

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  ASSERT_TRUE(file.good()) << path;
}

inline std::string length_field(uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i));
  return bytes;
}

// A safetensors file around any header text.
inline std::string container(const std::string& header, const std::string& payload = "") {
  return length_field(header.size()) + header + payload;
}

struct ToyTensor {
  std::string name;
  std::string dtype = "F32";
  std::vector<int64_t> shape;
  std::string bytes;
};

inline ToyTensor toy(const std::string& name, const std::string& bytes) {
  return {name, "U8", {static_cast<int64_t>(bytes.size())}, bytes};
}

// A whole file, tensors in the given order.
inline std::string safetensors_of(const std::vector<ToyTensor>& tensors) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  std::string payload;
  for (const ToyTensor& tensor : tensors) {
    const size_t begin = payload.size();
    payload += tensor.bytes;
    header += ",\"" + tensor.name + R"(":{"dtype":")" + tensor.dtype + R"(","shape":)" +
              shape_text(tensor.shape) + R"(,"data_offsets":[)" + std::to_string(begin) + "," +
              std::to_string(payload.size()) + "]}";
  }
  return container(header + "}", payload);
}

// The tensors of `layout`, all bytes zero.
inline std::string zeros_of(const std::vector<TensorInfo>& layout) {
  std::vector<ToyTensor> tensors;
  for (const TensorInfo& tensor : layout) {
    tensors.push_back({tensor.name, std::string(dtype_name(tensor.dtype)), tensor.shape,
                       std::string(tensor.bytes, '\0')});
  }
  return safetensors_of(tensors);
}

inline std::string index_of(const std::vector<std::pair<std::string, std::string>>& files,
                            const std::string& metadata = "{}") {
  std::string text = R"({"metadata":)" + metadata + R"(,"weight_map":{)";
  for (size_t i = 0; i < files.size(); ++i) {
    text += (i ? ",\"" : "\"") + files[i].first + "\":\"" + files[i].second + "\"";
  }
  return text + "}}";
}

// The message of the Error that `work` throws.
template <typename Work>
std::string error_of(const Work& work, ErrorKind kind = ErrorKind::input) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

inline void expect_contains(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
  }
}

}  // namespace fathom
