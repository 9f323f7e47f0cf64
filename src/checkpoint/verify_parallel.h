// Long work on many files at once, with a line that says how far it has come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/cancel.h"

namespace fathom {

struct FileWork {
  std::string label;
  size_t files = 0;
  int threads = 1;
  uint64_t bytes = 0;  // in all
  const CancelToken* cancel = nullptr;
  // Works on one file. `advance` is called with the bytes done since; it throws where all is to
  // stop. The first exception of any file stops the others and is rethrown.
  std::function<void(size_t file, const std::function<void(uint64_t)>& advance)> task;
};
void run_file_work(const FileWork& work);

// `asked`, or as many as processors and at least four: disks answer several readers best.
int file_threads(int asked);

}  // namespace fathom
