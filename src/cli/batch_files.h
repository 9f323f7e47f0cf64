// The two files of a batch: requests, read where they are needed, and answers, appended so that a
// killed batch can go on.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/locked_file.h"
#include "server/openai/request.h"

namespace fathom::cli {

// What an answer depends on besides the request itself.
struct BatchDefaults {
  uint64_t seed = 0;       // seeds of requests without one follow from it and their custom_id
  int64_t max_tokens = 0;  // of requests that do not say; 0: what the context takes
};

// One line of the requests file.
struct BatchLine {
  uint64_t number = 0;  // counted from 1
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::string custom_id;  // "" where it has none
  std::string id;         // of the answer: a fingerprint of everything that the answer depends on
  std::string problem;    // why it cannot be asked; "" where it can
  bool answered = false;
};

class BatchRequests {
 public:
  // Reads all lines once, keeping only what BatchLine has.
  BatchRequests(const std::string& path, const BatchDefaults& defaults);

  std::vector<BatchLine>& lines() { return lines_; }
  struct Content {
    server::Endpoint endpoint;
    std::string body;  // JSON
  };
  // Error(input) where the line has changed since.
  Content read(const BatchLine& line) const;

 private:
  BatchLine examine(uint64_t number, uint64_t offset, const std::string& text) const;

  File file_;
  BatchDefaults defaults_;
  std::vector<BatchLine> lines_;
};

// The seed of a request that has none.
uint64_t batch_seed(uint64_t seed, const std::string& custom_id);

class BatchAnswers {
 public:
  // Opens or creates the file, which no other batch may use meanwhile. A torn last line is cut
  // off, answers of requests that failed because of the machine are taken out, and lines that are
  // answered are marked. Error(input) where the file holds something else: answers to another
  // request with the same custom_id, or of another model.
  BatchAnswers(const std::string& path, const std::string& model, std::vector<BatchLine>& lines);

  // Appends a line; returns when it is on the device.
  void append(const std::string& line);
  int64_t taken_out() const { return taken_out_; }
  bool cut_off() const { return cut_off_; }

 private:
  LockedFile file_;
  uint64_t end_ = 0;
  int64_t taken_out_ = 0;
  bool cut_off_ = false;
};

}  // namespace fathom::cli
