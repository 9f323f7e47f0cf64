#include "engine/prefix_cache.h"

#include <algorithm>
#include <map>

namespace fathom {
namespace {

constexpr size_t kMostEntries = 256;
// Copying a page for less is not worth it.
constexpr int64_t kLeastShared = 16;

bool begins_with(std::span<const int32_t> ids, std::span<const int32_t> beginning) {
  return ids.size() >= beginning.size() &&
         std::equal(beginning.begin(), beginning.end(), ids.begin());
}

}  // namespace

int64_t usable_tokens(const SharedPrefix& prefix, std::span<const int32_t> known) {
  if (known.empty()) return 0;
  const size_t most = std::min(prefix.ids.size(), known.size() - 1);
  const auto end = known.begin() + static_cast<std::ptrdiff_t>(most);
  const int64_t same = std::mismatch(known.begin(), end, prefix.ids.begin()).first - known.begin();
  // A cache that cannot be cut is taken whole or not at all.
  if (!prefix.cache->layout().rollback && same < std::ssize(prefix.ids)) return 0;
  return same < kLeastShared ? 0 : same;
}

// What a longer sequence begins with is not kept beside it.
void PrefixCache::keep(const SharedPrefix& finished) {
  if (std::ssize(finished.ids) < kLeastShared) return;
  const bool cut = finished.cache->layout().rollback;
  for (auto at = entries_.begin(); at != entries_.end();) {
    if (begins_with(at->ids, finished.ids) && (cut || at->ids.size() == finished.ids.size())) {
      entries_.splice(entries_.begin(), entries_, at);
      return;
    }
    at = cut && begins_with(finished.ids, at->ids) ? entries_.erase(at) : std::next(at);
  }
  entries_.push_front(
      {{finished.ids.begin(), finished.ids.end()}, *finished.cache, finished.mtp_length});
  if (entries_.size() > kMostEntries) entries_.pop_back();
}

std::optional<SharedPrefix> PrefixCache::find(std::span<const int32_t> known) {
  auto best = entries_.end();
  int64_t most = 0;
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    const int64_t same = usable_tokens(at->prefix(), known);
    if (same <= most) continue;
    best = at;
    most = same;
  }
  if (best == entries_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, best);
  SharedPrefix found = best->prefix();
  found.same = most;
  return found;
}

bool PrefixCache::drop_oldest() {
  if (entries_.empty()) return false;
  entries_.pop_back();
  return true;
}

int64_t PrefixCache::pages() const {
  std::map<const Buffer*, std::pair<int64_t, int64_t>> held;  // here, and by anybody
  for (const Entry& entry : entries_) {
    for (const auto& page : entry.cache.pages()) {
      auto& [here, all] = held[page.get()];
      ++here;
      all = page.use_count();
    }
  }
  return std::count_if(held.begin(), held.end(),
                       [](const auto& page) { return page.second.first == page.second.second; });
}

}  // namespace fathom
