#include "cli/prompt_cache.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "fathom/session.h"

namespace fathom::cli {

PromptCache::PromptCache(Model& model, const std::string& path, std::span<const int32_t> prompt)
    : model_(model), path_(path), done_(path.empty()) {
  std::error_code ignored;
  if (done_ || !std::filesystem::exists(path_, ignored)) return;
  cache_ = Session::load_cache(model, path_);
  const std::span<const int32_t> held = cache_.ids();
  const size_t most = std::min(held.size(), prompt.size());
  // A longer prompt that begins with this one goes on serving both.
  done_ = most == prompt.size() && std::equal(prompt.begin(), prompt.end(), held.begin());
}

void PromptCache::save_once() {
  if (done_) return;
  done_ = true;
  try {
    Session::save_cache(model_, cache_, path_);
  } catch (const Error& error) {
    log::warning("{}; the prompt is not saved", error.what());
  }
}

}  // namespace fathom::cli
