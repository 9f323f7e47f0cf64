// The public Session over snapshot files.
#include "fathom/session.h"

#include <algorithm>
#include <optional>

#include "cache/snapshot.h"
#include "engine/engine.h"
#include "engine/model_impl.h"

namespace fathom {

std::span<const int32_t> Cache::ids() const { return state_->ids; }

namespace {

SnapshotTag tag_of(Engine& engine) {
  SnapshotTag tag;
  // What is cached depends on the precision of the layers and of the embedding, and not on the
  // head's.
  tag.identity = engine.info().identity;
  if (engine.info().embed == WeightPrecision::int8) tag.identity += " with --embed int8";
  if (engine.info().weights == WeightPrecision::int8) tag.identity += " with --weights int8";
  if (engine.info().weights == WeightPrecision::int4) tag.identity += " with --weights int4";
  tag.layout = engine.pages()->layout();
  tag.main_layers = engine.shape().num_hidden_layers;
  tag.most_rows = engine.info().context.tokens;
  return tag;
}

// Takes over what was loaded; the ids of cached tokens are copied.
void fill(Cache& cache, const std::shared_ptr<KvPagePool>& pages, LoadedSnapshot& loaded) {
  CacheState& state = CacheAccess::of(cache);
  state.pool = pages;
  const auto rows = static_cast<std::ptrdiff_t>(loaded.sequence.length());
  state.sequence.emplace(std::move(loaded.sequence));
  state.ids.assign(loaded.ids.begin(), loaded.ids.begin() + rows);
  state.mtp_length = loaded.mtp_length;
}

SnapshotContents contents_of(Cache& cache, const std::shared_ptr<KvPagePool>& pages,
                             std::span<const int32_t> ids, std::string_view note) {
  CacheState& state = CacheAccess::of(cache);
  SnapshotContents contents;
  contents.sequence = &state.in(pages);
  const size_t most =
      std::min({state.ids.size(), ids.size(), static_cast<size_t>(contents.sequence->length())});
  const auto end = state.ids.begin() + static_cast<std::ptrdiff_t>(most);
  contents.rows = std::mismatch(state.ids.begin(), end, ids.begin()).first - state.ids.begin();
  contents.ids = ids;
  contents.mtp_length = state.mtp_length;
  contents.note = note;
  return contents;
}

}  // namespace

struct Session::Impl {
  Impl(Engine& engine, const std::string& path)
      : pages(engine.pages()), file(path, tag_of(engine)) {}

  std::shared_ptr<KvPagePool> pages;  // outlives the cache's pages
  SnapshotFile file;
  bool is_new = true;
  std::vector<int32_t> ids;
  std::string note;
  uint64_t dropped_bytes = 0;
  Cache cache;
};

Session Session::open(Model& model, const std::string& path) {
  auto impl = std::make_unique<Impl>(model.impl_->engine, path);
  if (std::optional<LoadedSnapshot> loaded = impl->file.load(*impl->pages)) {
    impl->is_new = false;
    fill(impl->cache, impl->pages, *loaded);
    impl->ids = std::move(loaded->ids);
    impl->note = std::move(loaded->note);
    impl->dropped_bytes = loaded->dropped_bytes;
  }
  return Session(std::move(impl));
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

const std::string& Session::path() const { return impl_->file.path(); }
uint64_t Session::bytes() const { return impl_->file.bytes(); }
bool Session::is_new() const { return impl_->is_new; }
const std::vector<int32_t>& Session::ids() const { return impl_->ids; }
const std::string& Session::note() const { return impl_->note; }
uint64_t Session::dropped_bytes() const { return impl_->dropped_bytes; }
Cache& Session::cache() { return impl_->cache; }

uint64_t Session::save(std::span<const int32_t> ids, std::string_view note) {
  return impl_->file.save(contents_of(impl_->cache, impl_->pages, ids, note));
}

Cache Session::load_cache(Model& model, const std::string& path) {
  Engine& engine = model.impl_->engine;
  Cache cache;
  auto loaded = load_snapshot(path, tag_of(engine), *engine.pages());
  if (loaded) fill(cache, engine.pages(), *loaded);
  return cache;
}

uint64_t Session::save_cache(Model& model, Cache& cache, const std::string& path) {
  Engine& engine = model.impl_->engine;
  SnapshotFile file(path, tag_of(engine));
  file.start_anew();
  return file.save(contents_of(cache, engine.pages(), CacheAccess::of(cache).ids, ""));
}

}  // namespace fathom
