// Generations that outlive the program: a sequence's cache and ids in a file, with a note of the
// caller's, saved in little pieces while they grow.
//
//   fathom::Session session = fathom::Session::open(model, "long-thought.session");
//   request.cache = &session.cache();
//   request.resume = ...;                      // from session.ids() and session.note()
//   request.on_step = [&](const fathom::GenerateStep& step) {
//     ids.push_back(step.id);
//     if (ids.size() % 32 == 0) session.save(ids, note);
//     return true;
//   };
//
// A kill or a power failure at any moment costs what was not saved, and nothing else. A file that
// is damaged, or that another model, another precision of the cache or another version has written,
// is refused with an Error that names the offset and the reason. What is resumed is what would have
// come without the interruption, to the bit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fathom/model.h"

namespace fathom {

class Session {
 public:
  // Opens `path`, or creates it. Nobody else can open it while the session lives: Error(io). The
  // model must outlive the session.
  static Session open(Model& model, const std::string& path);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  const std::string& path() const;
  uint64_t bytes() const;  // of the file

  // What the file held when it was opened.
  bool is_new() const;                      // nothing
  const std::vector<int32_t>& ids() const;  // the cached tokens, and any saved after them
  const std::string& note() const;
  uint64_t dropped_bytes() const;  // of a save that was interrupted

  // The tokens cached; go on with it.
  Cache& cache();

  // Saves `ids`, the note, and the cache as far as it belongs to `ids`; only what the file lacks is
  // written. Returns the number of bytes written, flushed to the device. May be called from
  // on_step. Error(io) leaves the last save in force, and a later one may succeed.
  uint64_t save(std::span<const int32_t> ids, std::string_view note);

  // A cache in a file that many programs read at once, such as that of a long prompt they share.
  // Written whole, or not at all. An empty file gives an empty cache.
  static Cache load_cache(Model& model, const std::string& path);
  static uint64_t save_cache(Model& model, Cache& cache, const std::string& path);

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
