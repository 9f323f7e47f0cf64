// Is a downloaded checkpoint whole? Everything is looked at, whatever is found on the way, and
// nothing is ever written into its folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_config.h"

namespace fathom {

enum class VerifyCheck : uint8_t {
  files,     // what the index names, or the names themselves count, is there
  headers,   // can be read
  extents,   // inside of the file, and nothing behind the last one
  overlaps,  // of tensors in a file
  gaps,      // bytes between tensors that belong to none
  index,     // against headers, both ways
  config,    // can be read
  tensors,   // those that config.json calls for are there
  shapes,    // and dtypes, as config.json says
  scales,    // of FP8 weights
  experts,   // complete
  hashes,
  values,
  count
};
std::string_view check_name(VerifyCheck check);

// Something that is wrong. Fields are empty where they do not apply.
struct Finding {
  VerifyCheck check = VerifyCheck::files;
  std::string file;
  std::string tensor;
  std::optional<uint64_t> offset;  // in the file
  std::string problem;
  bool damaged = false;  // the file's content is not what it should be: download it again
};

struct CheckCount {
  VerifyCheck check = VerifyCheck::files;
  uint64_t checked = 0;
  std::string unit;  // of what was counted: "files", "tensors"
  uint64_t problems = 0;
};

struct VerifyOptions {
  std::string folder;
  bool hashes = false;
  std::string sums;         // a file of sha256sum; "": what the hub client left behind
  std::string resume_file;  // "": none
  bool values = false;
  int threads = 0;  // 0: as many as processors, and at least four, which disks answer best
  const CancelToken* cancel = nullptr;
};

struct VerifyReport {
  std::string folder;
  std::vector<CheckCount> checks;  // in the order in which they were made
  std::vector<Finding> findings;
  std::vector<std::string> notes;  // what was not looked at, and why
  uint64_t bytes_hashed = 0;
  uint64_t hashes_resumed = 0;  // files whose hash was known from before
  uint64_t bytes_scanned = 0;   // for values
  bool good() const { return findings.empty(); }
  // Files to download again, sorted, each once.
  std::vector<std::string> to_download() const;
};

// Error where the folder cannot be looked at at all (it is absent, the options contradict it).
VerifyReport verify_checkpoint(const VerifyOptions& options);

// The steps. Each adds its counts, findings and notes to the report.

// What structure left to go on with: files and tensors that can be read at all.
struct VerifySubject {
  Checkpoint checkpoint;
  std::vector<std::string> shard_names;  // all that belong to it, absent and damaged ones too
  std::vector<std::string> unreadable;   // of them
  std::optional<ModelConfig> config;
};
VerifySubject verify_structure(const std::string& folder, VerifyReport* report);
void verify_hashes(const VerifyOptions& options, const VerifySubject& subject,
                   VerifyReport* report);
void verify_values(const VerifyOptions& options, const VerifySubject& subject,
                   VerifyReport* report);

}  // namespace fathom
