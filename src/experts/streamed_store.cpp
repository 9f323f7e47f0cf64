#include "experts/streamed_store.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/units.h"
#include "experts/expert_check.h"

namespace fathom {
namespace {

// Tickets name the slot and which of its parts.
constexpr uint64_t kTicketParts = 8;
static_assert(ExpertLayout::kTensors <= kTicketParts);

// How long a wait for the disk sleeps before it looks at the cancel token again. An expert takes
// ten milliseconds and more to read.
constexpr std::chrono::microseconds kNap{100};

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

CacheShape cache_shape(const ExpertLayout& layout, uint64_t cache_bytes) {
  if (layout.expert_count() == 0) fail_usage("the model has no routed experts to be streamed");
  const uint64_t slots = cache_bytes / layout.slot_bytes();
  const auto least = static_cast<uint64_t>(StreamedExpertStore::kLeastSlots);
  if (slots < least) {
    fail_usage("a cache of {} holds {} expert{} of {} each; at least {} must fit, which is {}",
               format_size(cache_bytes), slots, slots == 1 ? "" : "s",
               format_size(layout.slot_bytes()), least, format_size(least * layout.slot_bytes()));
  }
  // One slot per expert is all that can be used.
  const auto most = std::max<uint64_t>(least, static_cast<uint64_t>(layout.expert_count()));
  return {static_cast<int64_t>(std::min(slots, most)), layout.moe_layers(),
          layout.experts_per_layer(), layout.experts_per_token()};
}

}  // namespace

StreamedExpertStore::StreamedExpertStore(const KernelContext& context, ExpertLayout layout,
                                         std::unique_ptr<ExtentReader> reader,
                                         const StreamedStoreOptions& options)
    : context_(&context),
      layout_(std::move(layout)),
      reader_(std::move(reader)),
      cache_(cache_shape(layout_, options.cache_bytes),
             make_cache_policy(options.policy, cache_shape(layout_, options.cache_bytes))),
      lookahead_(options.lookahead),
      landings_(cache_.slots().size()),
      groups_(static_cast<size_t>(layout_.experts_per_layer())),
      verified_(static_cast<size_t>(layout_.expert_count())),
      x_(options.row_chunk, layout_.hidden_size()),
      gate_(options.row_chunk, layout_.intermediate_size()),
      up_(options.row_chunk, layout_.intermediate_size()),
      y_(options.row_chunk, layout_.hidden_size()),
      held_(options.held_rows, layout_.hidden_size()) {
  const uint64_t bytes = cache_.slots().size() * layout_.slot_bytes();
  memory_ = Buffer(bytes + ExtentReader::kBlock);
  const uint64_t misaligned = reinterpret_cast<uintptr_t>(memory_.data()) % ExtentReader::kBlock;
  slots_ =
      memory_.bytes().subspan((ExtentReader::kBlock - misaligned) % ExtentReader::kBlock, bytes);
  reader_->register_memory(slots_);
  hint_.reserve(static_cast<size_t>(layout_.experts_per_layer()));
  stats_.place = "disk: " + reader_->description();
  stats_.slots = cache_.slots().size();
  stats_.slot_bytes = bytes;
  stats_.policy = cache_policy_name(options.policy);
}

StreamedExpertStore::~StreamedExpertStore() {
  reader_->drop_background();
  while (reader_->outstanding() > 0) reader_->next(true);
}

uint64_t StreamedExpertStore::scratch_bytes(const ExpertLayout& layout,
                                            const StreamedStoreOptions& options) {
  const auto rows = static_cast<uint64_t>(options.row_chunk);
  const auto hidden = static_cast<uint64_t>(layout.hidden_size());
  const auto intermediate = static_cast<uint64_t>(layout.intermediate_size());
  const auto experts = static_cast<uint64_t>(layout.expert_count());
  const uint64_t slots = options.cache_bytes / layout.slot_bytes();
  constexpr uint64_t kPerExpert = 40;  // the cache's and the policy's tables
  return (rows * 2 * (hidden + intermediate) + static_cast<uint64_t>(options.held_rows) * hidden) *
             sizeof(float) +
         layout.memory_bytes() + experts * kPerExpert +
         std::min(slots, experts) * (sizeof(Landing) + sizeof(CacheSlot)) + ExtentReader::kBlock;
}

void StreamedExpertStore::run(int64_t layer, std::span<const ExpertGroup> groups,
                              Span2d<const float> x, const Deliver& deliver,
                              const CancelToken* cancel) {
  Run run{layer, groups, x, deliver, cancel};
  try {
    begin(run);
    while (run.turn < groups.size()) advance(run);
  } catch (...) {
    abandon(run, failed_slot_ >= 0);
    throw;
  }
  start_hinted();
  lookahead_.layer_done();
}

// What is there is pinned, what is on its way is waited for, and what was hinted in vain is left.
void StreamedExpertStore::begin(Run& run) {
  collect(nullptr);
  std::fill(groups_.begin(), groups_.end(), Group{});
  held_.give_back_all();
  if (run.groups.empty()) return;
  const int64_t place = cache_.shape().layer_of(id(run, 0));
  cache_.reach(place, run.x.rows);
  for (size_t g = 0; g < run.groups.size(); ++g) {
    const ExpertId expert = id(run, g);
    cache_.ask(expert, static_cast<int64_t>(run.groups[g].rows.size()));
    const int64_t slot = cache_.find(expert);
    if (slot < 0) continue;
    Landing& landing = landings_[static_cast<size_t>(slot)];
    const bool is_there = landing.parts == 0;
    cache_.pin(slot);
    groups_[g] = {is_there ? State::ready : State::reading, !is_there, slot, -1};
    if (landing.hint != Hint::none) {
      lookahead_.used(is_there);
      forget_hint(slot);
    }
    if (is_there) continue;
    ++run.streaming;
    landing.demanded = true;
    for (uint64_t part = 0; part < kTicketParts; ++part) {
      if (landing.parts >> part & 1) {
        reader_->promote(static_cast<uint64_t>(slot) * kTicketParts + part);
      }
    }
  }
  // What was hinted for this layer and not asked for was a wrong guess.
  if (hint_layer_ == run.layer) hint_layer_ = -1;
  if (hinted_slots_ == 0) return;
  for (size_t s = 0; s < landings_.size(); ++s) {
    Landing& landing = landings_[s];
    if (landing.hint != Hint::open || layout_.layer_of(cache_.slots()[s].id) != run.layer) {
      continue;
    }
    forget_hint(static_cast<int64_t>(s));
    if (landing.parts == 0) {
      lookahead_.wasted();
    } else {
      landing.hint = Hint::passed;
    }
  }
  reader_->drop_background();
}

void StreamedExpertStore::advance(Run& run) {
  if (run.cancel != nullptr) run.cancel->throw_if_cancelled();
  collect(&run);
  start_missing(run);
  if (!compute_one(run)) wait(run);
  deliver_held(run);
}

// After an error: the slots that were to be computed with are only a cache again.
void StreamedExpertStore::abandon(Run& run, bool settle) {
  for (size_t g = 0; g < run.groups.size(); ++g) {
    if (groups_[g].state == State::ready || groups_[g].state == State::reading) {
      cache_.unpin(groups_[g].slot);
    }
  }
  for (Landing& landing : landings_) landing.demanded = false;
  hint_layer_ = -1;
  reader_->drop_background();
  failed_slot_ = -1;
  for (size_t s = 0; s < landings_.size(); ++s) {
    if (landings_[s].failure && landings_[s].parts == 0) landed(static_cast<int64_t>(s), nullptr);
  }
  if (!settle) return;
  while (const std::optional<ExtentReader::Finished> finished = reader_->next(true)) {
    take_in(*finished, nullptr);
  }
}

// Reads of the missing experts, in the order in which they are needed.
void StreamedExpertStore::start_missing(Run& run) {
  for (size_t g = run.turn; g < run.groups.size(); ++g) {
    if (groups_[g].state != State::missing) continue;
    if (run.streaming >= kMostReadAhead && g != run.turn) return;
    const int64_t slot = win_slot(run, g);
    if (slot < 0) return;
    start(slot, id(run, g), ReadPriority::demand);
    landings_[static_cast<size_t>(slot)].demanded = true;
    cache_.pin(slot);  // for the group; the first pin is the read's
    groups_[g] = {State::reading, true, slot, -1};
    ++run.streaming;
  }
  start_hinted();
}

// A slot for a missing expert. Where all are taken by experts that wait to be computed, the one
// whose turn is farthest off gives way, so that the next in turn can always be read, and one more
// meanwhile.
int64_t StreamedExpertStore::win_slot(Run& run, size_t group) {
  const int64_t slot = cache_.take(id(run, group));
  if (slot >= 0) return slot;
  if (run.streaming >= kLeastSlots && group != run.turn) return -1;
  for (size_t g = run.groups.size() - 1; g > group; --g) {
    if (groups_[g].state != State::ready) continue;
    cache_.unpin(groups_[g].slot);
    run.streaming -= groups_[g].missed;
    groups_[g] = {};
    return cache_.take(id(run, group));
  }
  return -1;
}

// Reads of what the next layer may ask for, into slots that nobody needs at the moment.
void StreamedExpertStore::start_hinted() {
  if (hint_layer_ < 0) return;
  const int64_t most = cache_.shape().slots / 2;
  const auto each_there = [this](auto&& act) {
    for (const ExpertId expert : hint_) {
      if (const int64_t slot = cache_.find(expert); slot >= 0) act(slot);
    }
  };
  for (; hint_next_ < hint_.size(); ++hint_next_) {
    const ExpertId expert = hint_[hint_next_];
    if (cache_.find(expert) >= 0) continue;
    if (hinted_slots_ >= most) return;
    // None of the guesses may push out another one.
    each_there([this](int64_t slot) { cache_.pin(slot); });
    const int64_t slot = cache_.take(expert);
    if (slot >= 0) start(slot, expert, ReadPriority::background);
    each_there([this, expert](int64_t slot) {
      if (cache_.slots()[static_cast<size_t>(slot)].id != expert) cache_.unpin(slot);
    });
    if (slot < 0) return;
    landings_[static_cast<size_t>(slot)].hint = Hint::open;
    ++hinted_slots_;
  }
  hint_layer_ = -1;
}

void StreamedExpertStore::start(int64_t slot, ExpertId id, ReadPriority priority) {
  Landing& landing = landings_[static_cast<size_t>(slot)];
  if (landing.hint == Hint::open) {  // pushed out before its layer came
    forget_hint(slot);
    lookahead_.wasted();
  }
  landing = {};
  const ExpertLayout::Parts parts = layout_.parts(id);
  landing.parts = static_cast<uint8_t>((1u << parts.count) - 1);
  for (size_t i = 0; i < parts.count; ++i) {
    reader_->start(static_cast<uint64_t>(slot) * kTicketParts + i, parts.part[i].extent,
                   slot_memory(slot) + parts.part[i].slot_offset, priority);
  }
}

void StreamedExpertStore::forget_hint(int64_t slot) {
  Landing& landing = landings_[static_cast<size_t>(slot)];
  if (landing.hint == Hint::open) --hinted_slots_;
  landing.hint = Hint::none;
}

// Takes in what has finished by now; true where something had. `run` is null where nobody waits.
bool StreamedExpertStore::collect(Run* run) {
  bool any = false;
  while (const std::optional<ExtentReader::Finished> finished = reader_->next(false)) {
    take_in(*finished, run);
    any = true;
  }
  if (failed_slot_ >= 0) fail_read(failed_slot_);
  return any;
}

void StreamedExpertStore::take_in(const ExtentReader::Finished& finished, Run* run) {
  const auto slot = static_cast<int64_t>(finished.ticket / kTicketParts);
  const auto part = static_cast<uint8_t>(finished.ticket % kTicketParts);
  Landing& landing = landings_[static_cast<size_t>(slot)];
  landing.parts &= static_cast<uint8_t>(~(1u << part));
  landing.dropped |= finished.dropped;
  if (finished.failure && !landing.failure) {
    landing.failure = finished.failure;
    landing.failed_part = part;
  }
  if (landing.parts == 0) landed(slot, run);
}

// All parts of a slot have come to an end.
void StreamedExpertStore::landed(int64_t slot, Run* run) {
  Landing& landing = landings_[static_cast<size_t>(slot)];
  if (landing.failure && landing.demanded) {
    if (failed_slot_ < 0) failed_slot_ = slot;
    return;
  }
  const bool gone = landing.dropped || landing.failure;
  if (landing.hint == Hint::passed || (gone && landing.hint == Hint::open)) {
    forget_hint(slot);
    if (landing.dropped) {
      lookahead_.dropped();
    } else {
      lookahead_.wasted();
    }
  }
  if (run != nullptr && landing.demanded) {
    for (size_t g = run->turn; g < run->groups.size(); ++g) {
      Group& group = groups_[g];
      if (group.slot != slot || group.state != State::reading) continue;
      group.state = State::ready;
      if (gone) {  // given up before the run asked for it: read it anew
        group = {};
        --run->streaming;
      }
    }
  }
  landing.demanded = false;
  if (gone) {
    landing.failure.reset();
    cache_.release(slot);
  } else {
    cache_.unpin(slot);
  }
}

void StreamedExpertStore::wait(Run& run) {
  const Clock::time_point began = Clock::now();
  assert(reader_->outstanding() > 0);
  while (!collect(&run)) {
    if (run.cancel != nullptr) run.cancel->throw_if_cancelled();
    std::this_thread::sleep_for(kNap);
  }
  stats_.wait_seconds += seconds_since(began);
}

// One group that is ready: the next in turn, or one whose rows can be held until then.
bool StreamedExpertStore::compute_one(Run& run) {
  if (groups_[run.turn].state == State::ready) {
    compute(run, run.turn, {});
    ++run.turn;
    return true;
  }
  for (size_t g = run.turn + 1; g < run.groups.size(); ++g) {
    if (groups_[g].state != State::ready) continue;
    const auto count = static_cast<int64_t>(run.groups[g].rows.size());
    const int64_t row = held_.take(count);
    if (row < 0) continue;
    compute(run, g, held_.rows(row, count));
    groups_[g].state = State::held;
    groups_[g].held_row = row;
    return true;
  }
  return false;
}

// Into `held`, or where that is empty delivered chunk by chunk.
void StreamedExpertStore::compute(Run& run, size_t group, Span2d<float> held) {
  const ExpertId expert = id(run, group);
  const int64_t slot = groups_[group].slot;
  const std::byte* const bytes = slot_memory(slot);
  Clock::time_point began = Clock::now();
  if (!verified_[static_cast<size_t>(expert)]) {
    check_expert_values(layout_, expert, bytes, context_->pool());
    verified_[static_cast<size_t>(expert)] = true;
  }
  const GatedMlp mlp = layout_.weights(expert, bytes);
  const std::span<const int32_t> rows = run.groups[group].rows;
  const auto total = static_cast<int64_t>(rows.size());
  for (int64_t first = 0; first < total; first += x_.rows()) {
    const int64_t count = std::min(x_.rows(), total - first);
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(x_.row(i), run.x.row(rows[static_cast<size_t>(first + i)]),
                  static_cast<size_t>(run.x.cols) * sizeof(float));
    }
    const Span2d<float> y =
        held.rows > 0 ? held.middle_rows(first, count) : y_.view().middle_rows(0, count);
    gated_mlp(*context_, x_.view().middle_rows(0, count), mlp, gate_, up_, y);
    stats_.compute_seconds += seconds_since(began);
    if (held.rows == 0) run.deliver(static_cast<int64_t>(group), first, y);
    collect(&run);  // keeps the disk busy through long groups
    began = Clock::now();
  }
  ++(groups_[group].missed ? stats_.misses : stats_.hits);
  run.streaming -= groups_[group].missed;
  groups_[group].state = State::done;
  cache_.unpin(slot);
}

void StreamedExpertStore::deliver_held(Run& run) {
  for (; run.turn < run.groups.size() && groups_[run.turn].state == State::held; ++run.turn) {
    const auto count = static_cast<int64_t>(run.groups[run.turn].rows.size());
    const int64_t row = groups_[run.turn].held_row;
    run.deliver(static_cast<int64_t>(run.turn), 0, held_.rows(row, count));
    held_.give_back(row, count);
    groups_[run.turn].state = State::done;
  }
}

void StreamedExpertStore::fail_read(int64_t slot) {
  const Landing& landing = landings_[static_cast<size_t>(slot)];
  const ExpertId expert = cache_.slots()[static_cast<size_t>(slot)].id;
  const ReadFailure& failure = *landing.failure;
  const Extent extent = layout_.parts(expert).part[landing.failed_part].extent;
  fail(ErrorKind::io, "{}: offset {}: cannot read tensor {}: {}", failure.path, failure.offset,
       layout_.tensor_at(expert, extent.file, failure.offset), failure.problem);
}

bool StreamedExpertStore::wants_lookahead() const {
  // The least cache has no slot to spare, and where all experts fit there is soon nothing to read.
  return lookahead_.on() && cache_.shape().slots > kLeastSlots &&
         cache_.shape().slots < layout_.expert_count();
}

void StreamedExpertStore::look_ahead(int64_t layer, std::span<const int32_t> experts) {
  if (!wants_lookahead() || !layout_.has_experts(layer)) return;
  hint_.clear();
  for (const int32_t expert : experts) {
    if (hint_.size() < hint_.capacity()) hint_.push_back(layout_.id(layer, expert));
  }
  hint_layer_ = layer;
  hint_next_ = 0;
  // The layer before needs no disk of its own.
  if (!layout_.has_experts(layer - 1)) start_hinted();
}

ExpertStats StreamedExpertStore::stats() const {
  ExpertStats stats = stats_;
  const ReaderCounters counters = reader_->counters();
  stats.bytes_read = counters.demand_bytes + counters.background_bytes;
  stats.retries = counters.retries;
  stats.disk_seconds = counters.demand_seconds;
  stats.lookahead_reads = lookahead_.reads();
  stats.lookahead_used = lookahead_.used();
  stats.lookahead = wants_lookahead();
  return stats;
}

}  // namespace fathom
