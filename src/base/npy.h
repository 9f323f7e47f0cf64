// Arrays of float32 in numpy's .npy files (version 1.0, little-endian, C order).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"

namespace fathom {

// Writes an array from its first value to its last; the file appears when commit() succeeds.
class NpyWriter {
 public:
  NpyWriter(const std::string& path, const std::vector<int64_t>& shape);
  // The next values in C order, for example one row. More than the shape holds is an Error(usage).
  void write(std::span<const float> values);
  // Error(usage) where values are still missing.
  void commit();

 private:
  std::string path_;
  OutputFile file_;
  uint64_t missing_ = 0;  // values not written yet
};

struct NpyArray {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

// Error(input) naming the file where it is not such an array or not of the size its header says.
NpyArray read_npy(const std::string& path);

}  // namespace fathom
