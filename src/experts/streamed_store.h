// Experts on disk, as many of them in memory as fit.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/extent_reader.h"
#include "experts/expert_cache.h"
#include "experts/expert_layout.h"
#include "experts/expert_store.h"
#include "experts/lookahead.h"
#include "experts/row_pool.h"
#include "kernels/context.h"

namespace fathom {

struct StreamedStoreOptions {
  uint64_t cache_bytes = 0;  // memory of the slots
  CachePolicyKind policy = CachePolicyKind::forecast;
  LookaheadMode lookahead = LookaheadMode::automatic;
  int64_t row_chunk = 64;   // rows that are worked on at once
  int64_t held_rows = 256;  // rows that may be computed ahead of their turn
};

// A layer's missing experts are all read at once, as far as there are slots; what is in memory is
// computed meanwhile, then each expert as it lands. Results that are ahead of their turn are held
// in a bounded scratch, an expert that does not fit there waits in its slot. Bytes are searched for
// values that are no number when they land for the first time.
//
// After any Error the store can be used again. Reads in flight belong to their slots and not to a
// run: a cancelled run leaves them, and the next one takes what has landed.
//
// One thread at a time may call it.
class StreamedExpertStore : public ExpertStore {
 public:
  static constexpr int64_t kLeastSlots = 2;

  // The reader's files are the layout's, by index. The context must outlive the store.
  // Error(usage) where cache_bytes holds fewer than kLeastSlots experts.
  StreamedExpertStore(const KernelContext& context, ExpertLayout layout,
                      std::unique_ptr<ExtentReader> reader, const StreamedStoreOptions& options);
  ~StreamedExpertStore() override;  // waits for reads in flight

  // Memory that a store takes besides its slots.
  static uint64_t scratch_bytes(const ExpertLayout& layout, const StreamedStoreOptions& options);

  void run(int64_t layer, std::span<const ExpertGroup> groups, Span2d<const float> x,
           const Deliver& deliver, const CancelToken* cancel) override;
  bool wants_lookahead() const override;
  // Reads begin once nothing that the current layer needs is left to be read; at once where the
  // layer before has no experts.
  void look_ahead(int64_t layer, std::span<const int32_t> experts) override;
  ExpertStats stats() const override;

  const ExpertLayout& layout() const { return layout_; }

 private:
  // What is being read into a slot.
  enum class Hint : uint8_t { none, open, passed };  // read ahead; `passed`: its layer went by
  struct Landing {
    uint8_t parts = 0;      // bits of the reads in flight
    bool demanded = false;  // the current run waits for it
    bool dropped = false;
    Hint hint = Hint::none;
    std::optional<ReadFailure> failure;
    size_t failed_part = 0;
  };
  enum class State : uint8_t { missing, reading, ready, held, done };
  struct Group {
    State state = State::missing;
    bool missed = false;  // read by this run
    int64_t slot = -1;
    int64_t held_row = -1;
  };
  struct Run {
    int64_t layer;
    std::span<const ExpertGroup> groups;
    Span2d<const float> x;
    const Deliver& deliver;
    const CancelToken* cancel;
    size_t turn = 0;        // the group to be delivered next
    int64_t streaming = 0;  // groups that hold a slot since they were read by this run
  };

  ExpertId id(const Run& run, size_t group) const {
    return layout_.id(run.layer, run.groups[group].expert);
  }
  std::byte* slot_memory(int64_t slot) const {
    return slots_.data() + static_cast<uint64_t>(slot) * layout_.slot_bytes();
  }
  void begin(Run& run);
  void advance(Run& run);
  void abandon(Run& run, bool settle);
  void start_missing(Run& run);
  int64_t win_slot(Run& run, size_t group);
  void start_hinted();
  void start(int64_t slot, ExpertId id, ReadPriority priority);
  bool collect(Run* run);
  void take_in(const ExtentReader::Finished& finished, Run* run);
  void landed(int64_t slot, Run* run);
  void wait(Run& run);
  bool compute_one(Run& run);
  void compute(Run& run, size_t group, Span2d<float> held);
  void deliver_held(Run& run);
  void forget_hint(int64_t slot);
  [[noreturn]] void fail_read(int64_t slot);

  const KernelContext* context_;
  ExpertLayout layout_;
  std::unique_ptr<ExtentReader> reader_;
  ExpertCache cache_;
  LookaheadControl lookahead_;
  Buffer memory_;
  std::span<std::byte> slots_;     // of memory_, aligned to blocks
  std::vector<Landing> landings_;  // [slot]
  std::vector<Group> groups_;      // [group], of the current run
  std::vector<bool> verified_;     // [expert id]
  std::vector<ExpertId> hint_;     // likeliest first, what is not yet begun from hint_next_ on
  size_t hint_next_ = 0;
  int64_t hint_layer_ = -1;
  int64_t hinted_slots_ = 0;  // with an open hint
  int64_t failed_slot_ = -1;  // of a read that a run waits for

  Matrix x_;     // [row_chunk, hidden]: gathered rows
  Matrix gate_;  // [row_chunk, intermediate]
  Matrix up_;
  Matrix y_;  // [row_chunk, hidden]
  RowPool held_;
  ExpertStats stats_;
};

}  // namespace fathom
