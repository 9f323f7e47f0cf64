// The safetensors container: where every tensor of one file lies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace fathom {

// Formats after boolean are only ever listed, never computed with.
enum class Dtype : uint8_t {
  f8_e4m3,
  bf16,
  f16,
  f32,
  f64,
  i64,
  i32,
  i16,
  i8,
  u8,
  boolean,
  f8_e5m2,
  f8_e8m0,
  u64,
  u32,
  u16,
  c64
};

std::string_view dtype_name(Dtype dtype);  // as safetensors spells it: "F8_E4M3", "BF16", ...
int64_t dtype_bytes(Dtype dtype);

// One tensor as the header of its file describes it. The header is the authority on dtype, shape
// and place.
struct TensorInfo {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<int64_t> shape;
  uint64_t offset = 0;  // of its first byte, from the beginning of the file; any alignment
  uint64_t bytes = 0;
  int shard = 0;  // index into Checkpoint::shards()
};

struct SafetensorsHeader {
  uint64_t header_bytes = 0;        // N: the JSON's length
  std::vector<TensorInfo> tensors;  // in the order of the header
};

// Reads and checks one header: its length against the file and the format's cap of 100,000,000
// bytes, JSON depth, duplicate names, shapes times dtype against extents, extents against the file,
// overlaps, bytes behind the last tensor. Errors name the file and the tensor. Memory stays in
// proportion to the header.
SafetensorsHeader read_safetensors_header(const File& file);
// The same for a header's bytes alone (fuzzing, tests): `file_size` is the whole file's.
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t file_size,
                                           const std::string& path);

// What is wrong with the place of a tensor in a file whose header can be read.
struct ExtentProblem {
  enum class Kind : uint8_t { beyond_file, overlap, trailing_bytes };
  Kind kind = Kind::beyond_file;
  std::string tensor;   // the later one of two that overlap, the last one before trailing bytes
  uint64_t offset = 0;  // in the file, where it begins to be wrong
  std::string what;
};
// The same for files that are examined and not used: wrong places are collected, and tensors may
// reach beyond the file's end.
SafetensorsHeader read_safetensors_header(const File& file, std::vector<ExtentProblem>* problems);

}  // namespace fathom
