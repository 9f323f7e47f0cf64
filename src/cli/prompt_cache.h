// --prompt-cache: a prompt's computation in a file, for the next run that begins with it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "fathom/model.h"

namespace fathom::cli {

class PromptCache {
 public:
  // Loads `path` where there is such a file ("" for none): Error where it does not fit the model.
  PromptCache(Model& model, const std::string& path, std::span<const int32_t> prompt);

  // For GenerateRequest::cache; nullptr without a file.
  Cache* cache() { return path_.empty() ? nullptr : &cache_; }
  // To be called after each token. Saves after the first one where the file did not hold all of the
  // prompt; a failure is a warning.
  void save_once();

 private:
  Model& model_;
  std::string path_;
  Cache cache_;
  bool done_;
};

}  // namespace fathom::cli
