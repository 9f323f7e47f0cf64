#include "experts/cache_policy.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "base/error.h"

namespace fathom {
namespace {

constexpr std::array kKinds = {CachePolicyKind::forecast, CachePolicyKind::lru,
                               CachePolicyKind::lfu, CachePolicyKind::layers};

// The evictable slot of least worth; the lowest index among equals, so that runs repeat.
template <typename Worth>
int64_t least(std::span<const CacheSlot> slots, const Worth& worth) {
  int64_t best = -1;
  double least_worth = 0;
  for (size_t s = 0; s < slots.size(); ++s) {
    if (!slots[s].evictable()) continue;
    const double w = worth(slots[s].id);
    if (best >= 0 && w >= least_worth) continue;
    best = static_cast<int64_t>(s);
    least_worth = w;
  }
  return best;
}

// When each expert was last asked for, counted in layers visited.
class LastUse {
 public:
  explicit LastUse(const CacheShape& shape)
      : when_(static_cast<size_t>(shape.moe_layers * shape.experts_per_layer)) {}
  void reach() { ++now_; }
  void ask(ExpertId id) { when_[static_cast<size_t>(id)] = now_; }
  uint64_t when(ExpertId id) const { return when_[static_cast<size_t>(id)]; }

 private:
  std::vector<uint64_t> when_;
  uint64_t now_ = 0;
};

// How often a row asks for an expert, as an average over the rows of its layer that forgets: each
// row counts `1 - keep`, all before it together `keep`. A sweep of n rows counts as n rows, so that
// a long prompt teaches as much as decoding it would.
class Frequency {
 public:
  Frequency(const CacheShape& shape, double keep)
      : shape_(shape),
        clock_(static_cast<size_t>(shape.moe_layers)),
        experts_(static_cast<size_t>(shape.moe_layers * shape.experts_per_layer)) {
    double power = 1;
    for (float& value : decay_) {
      value = static_cast<float>(power);
      power *= keep;
    }
  }

  void reach(int64_t layer, int64_t rows) {
    rows_ = rows;
    // Beyond the table everything is forgotten, however long the sweep.
    clock_[static_cast<size_t>(layer)] +=
        static_cast<uint32_t>(std::min<int64_t>(rows, static_cast<int64_t>(decay_.size())));
  }
  void ask(ExpertId id, int64_t rows) {
    const float kept = decay(static_cast<uint64_t>(rows_));
    const float value = of(id) + (1 - kept) * static_cast<float>(rows) / static_cast<float>(rows_);
    experts_[static_cast<size_t>(id)] = {value, clock_of(id)};
  }
  // Per row, as of now.
  float of(ExpertId id) const {
    const Entry& entry = experts_[static_cast<size_t>(id)];
    return entry.value * decay(clock_of(id) - entry.clock);
  }

 private:
  struct Entry {
    float value = 0;
    uint32_t clock = 0;
  };
  uint32_t clock_of(ExpertId id) const { return clock_[static_cast<size_t>(shape_.layer_of(id))]; }
  float decay(uint64_t rows) const {
    return rows < decay_.size() ? decay_[static_cast<size_t>(rows)] : 0;
  }

  CacheShape shape_;
  int64_t rows_ = 1;
  std::array<float, 1024> decay_;
  std::vector<uint32_t> clock_;  // [layer]: rows that it has seen
  std::vector<Entry> experts_;
};

class LruPolicy : public CachePolicy {
 public:
  explicit LruPolicy(const CacheShape& shape) : last_use_(shape) {}
  void reach(int64_t, int64_t) override { last_use_.reach(); }
  void ask(ExpertId id, int64_t) override { last_use_.ask(id); }
  int64_t victim(std::span<const CacheSlot> slots, ExpertId) override {
    return least(slots, [this](ExpertId id) { return static_cast<double>(last_use_.when(id)); });
  }

 private:
  LastUse last_use_;
};

class LfuPolicy : public CachePolicy {
 public:
  explicit LfuPolicy(const CacheShape& shape) : frequency_(shape, kKeep) {}
  void reach(int64_t layer, int64_t rows) override { frequency_.reach(layer, rows); }
  void ask(ExpertId id, int64_t rows) override { frequency_.ask(id, rows); }
  int64_t victim(std::span<const CacheSlot> slots, ExpertId) override {
    return least(slots, [this](ExpertId id) { return static_cast<double>(frequency_.of(id)); });
  }

 private:
  static constexpr double kKeep = 1 - 1.0 / 32;
  Frequency frequency_;
};

// The chance p that the next visit of its layer asks for an expert; t, the layers to go until then.
// A slot that holds the expert earns p hits in t steps, so the one with the least p / t goes. Just
// after its visit a layer is farthest away: experts of small p pass through at once, and the slots
// stay with what they have until something better comes.
//
// p is learned from what happens: experts are put into classes by how many visits ago they were
// asked for last and how often in the longer run, and it is counted how many of each class the next
// visit asks for. So a model that repeats itself from token to token is served as well as one with
// a few popular experts.
class ForecastPolicy : public CachePolicy {
 public:
  explicit ForecastPolicy(const CacheShape& shape)
      : shape_(shape),
        uniform_(static_cast<float>(shape.experts_per_token) /
                 static_cast<float>(std::max<int64_t>(shape.experts_per_layer, 1))),
        frequency_(shape, kKeep),
        visits_(static_cast<size_t>(shape.moe_layers)),
        last_visit_(static_cast<size_t>(shape.moe_layers * shape.experts_per_layer)),
        class_now_(static_cast<size_t>(shape.experts_per_layer)) {
    // Before anything is known: as often as in the longer run, and more often lately.
    for (size_t a = 0; a < kAges; ++a) {
      for (size_t f = 0; f < kFrequencies; ++f) {
        const float often = uniform_ * kFrequencyLimit[f] / 2;
        const float lately = a < kAges - 1 ? 0.2f / static_cast<float>(a + 1) : 0;
        classes_[a * kFrequencies + f] = {16 * std::min(1.0f, often + lately), 16};
      }
    }
  }

  void reach(int64_t layer, int64_t rows) override {
    layer_ = layer;
    // A long prompt asks for nearly all and teaches nothing about single tokens.
    learning_ = rows <= kMostRowsToLearn;
    const uint32_t visit = ++visits_[static_cast<size_t>(layer)];
    if (learning_) {
      const auto first = static_cast<ExpertId>(layer * shape_.experts_per_layer);
      for (size_t e = 0; e < class_now_.size(); ++e) {
        class_now_[e] = class_of(first + static_cast<ExpertId>(e), visit);
        Class& c = classes_[class_now_[e]];
        c.seen += 1;
        if (c.seen > kMostSeen) c = {c.asked / 2, c.seen / 2};
      }
    }
    frequency_.reach(layer, rows);
  }
  void ask(ExpertId id, int64_t rows) override {
    if (learning_) {
      classes_[class_now_[static_cast<size_t>(id % shape_.experts_per_layer)]].asked += 1;
    }
    frequency_.ask(id, rows);
    last_visit_[static_cast<size_t>(id)] = visits_[static_cast<size_t>(shape_.layer_of(id))];
  }

  int64_t victim(std::span<const CacheSlot> slots, ExpertId) override {
    return least(slots, [this](ExpertId id) {
      const int64_t layer = shape_.layer_of(id);
      const int64_t steps = layer - layer_;
      const Class& c = classes_[class_of(id, visits_[static_cast<size_t>(layer)] + 1)];
      return static_cast<double>(c.asked / c.seen) /
             static_cast<double>(steps > 0 ? steps : steps + shape_.moe_layers);
    });
  }

 private:
  static constexpr double kKeep = 1 - 1.0 / 64;
  static constexpr int64_t kMostRowsToLearn = 32;
  static constexpr float kMostSeen = 65536;
  // Visits ago: 1, 2, 3, 4, up to 6, 9, 16, more or never.
  static constexpr std::array<uint32_t, 7> kAgeLimit = {1, 2, 3, 4, 6, 9, 16};
  static constexpr size_t kAges = kAgeLimit.size() + 1;
  // Multiples of what every expert would have if all were equally popular.
  static constexpr std::array<float, 10> kFrequencyLimit = {0.1f, 0.25f, 0.5f, 1, 1.5f,
                                                            2,    3,     5,    8, 1000};
  static constexpr size_t kFrequencies = kFrequencyLimit.size();

  struct Class {
    float asked;
    float seen;
  };

  // For the visit number `visit` of its layer.
  uint8_t class_of(ExpertId id, uint32_t visit) const {
    const uint32_t last = last_visit_[static_cast<size_t>(id)];
    size_t age = kAges - 1;
    if (last != 0) {
      age = static_cast<size_t>(std::lower_bound(kAgeLimit.begin(), kAgeLimit.end(), visit - last) -
                                kAgeLimit.begin());
    }
    const float often = frequency_.of(id) / uniform_;
    size_t f = 0;
    while (f + 1 < kFrequencies && often > kFrequencyLimit[f]) ++f;
    return static_cast<uint8_t>(age * kFrequencies + f);
  }

  CacheShape shape_;
  float uniform_;
  int64_t layer_ = 0;
  bool learning_ = false;
  Frequency frequency_;
  std::array<Class, kAges * kFrequencies> classes_;
  std::vector<uint32_t> visits_;      // [layer]
  std::vector<uint32_t> last_visit_;  // [id]: of its layer, that asked for it; 0 for none
  std::vector<uint8_t> class_now_;    // [expert of the current layer], before this visit
};

// A few slots are for passing through; the others are dealt out in portions of what a token asks
// of a layer, to as many layers as that serves. Which layers: those where the next token asks for
// most of the same experts again.
class LayersPolicy : public CachePolicy {
 public:
  explicit LayersPolicy(const CacheShape& shape)
      : shape_(shape),
        last_use_(shape),
        visits_(static_cast<size_t>(shape.moe_layers)),
        repeats_(static_cast<size_t>(shape.moe_layers)),
        kept_(static_cast<size_t>(shape.moe_layers)),
        held_(static_cast<size_t>(shape.moe_layers)),
        asked_visit_(static_cast<size_t>(shape.moe_layers * shape.experts_per_layer)) {
    const int64_t transient = std::min(shape.experts_per_token, (shape.slots + 1) / 2);
    const int64_t lasting = shape.slots - transient;
    const int64_t portion = std::max<int64_t>(shape.experts_per_token, 1);
    keepers_ = std::min(lasting / portion, shape.moe_layers);
    quota_ = keepers_ > 0 ? lasting / keepers_ : 0;
    for (int64_t i = 0; i < keepers_; ++i) kept_[static_cast<size_t>(i)] = 1;
  }

  void reach(int64_t layer, int64_t) override {
    last_use_.reach();
    close_visit();
    layer_ = layer;
    ++visits_[static_cast<size_t>(layer)];
    asked_ = again_ = 0;
    if (layer == 0 && visits_[0] % kRechoose == 0) choose_keepers();
  }
  void ask(ExpertId id, int64_t) override {
    last_use_.ask(id);
    uint32_t& visit = asked_visit_[static_cast<size_t>(id)];
    const uint32_t now = visits_[static_cast<size_t>(layer_)];
    ++asked_;
    again_ += visit != 0 && visit + 1 == now;
    visit = now;
  }

  int64_t victim(std::span<const CacheSlot> slots, ExpertId incoming) override {
    std::fill(held_.begin(), held_.end(), 0);
    for (const CacheSlot& slot : slots) {
      if (slot.id >= 0) ++held_[static_cast<size_t>(shape_.layer_of(slot.id))];
    }
    const int64_t layer = shape_.layer_of(incoming);
    const bool full =
        kept_[static_cast<size_t>(layer)] && held_[static_cast<size_t>(layer)] >= quota_;
    // Its own layer's oldest where the layer has its portion; else what belongs to no keeper, or
    // is beyond a keeper's portion; else the oldest of all.
    constexpr double kFar = 1e18;
    return least(slots, [&](ExpertId id) {
      const auto of = static_cast<size_t>(shape_.layer_of(id));
      const bool first = full ? shape_.layer_of(id) == layer : !kept_[of] || held_[of] > quota_;
      return static_cast<double>(last_use_.when(id)) + (first ? 0 : kFar);
    });
  }

 private:
  static constexpr uint32_t kRechoose = 32;  // tokens

  void close_visit() {
    if (asked_ == 0) return;
    float& repeats = repeats_[static_cast<size_t>(layer_)];
    repeats += (static_cast<float>(again_) / static_cast<float>(asked_) - repeats) / 16;
  }
  // Moves a portion only where it pays clearly: what it held is lost.
  void choose_keepers() {
    while (true) {
      int64_t worst = -1;
      int64_t best = -1;
      for (int64_t l = 0; l < shape_.moe_layers; ++l) {
        int64_t& side = kept_[static_cast<size_t>(l)] ? worst : best;
        const float value = repeats_[static_cast<size_t>(l)];
        if (side < 0 ||
            (kept_[static_cast<size_t>(l)] ? value < repeats_[static_cast<size_t>(side)]
                                           : value > repeats_[static_cast<size_t>(side)])) {
          side = l;
        }
      }
      if (worst < 0 || best < 0) return;
      if (repeats_[static_cast<size_t>(best)] <= 1.25f * repeats_[static_cast<size_t>(worst)]) {
        return;
      }
      std::swap(kept_[static_cast<size_t>(best)], kept_[static_cast<size_t>(worst)]);
    }
  }

  CacheShape shape_;
  LastUse last_use_;
  int64_t keepers_ = 0;
  int64_t quota_ = 0;  // slots of a keeper
  int64_t layer_ = 0;
  int64_t asked_ =
      0;  // experts of the current visit, and those of them that the last one asked too
  int64_t again_ = 0;
  std::vector<uint32_t> visits_;       // [layer]
  std::vector<float> repeats_;         // [layer]: share that is asked for again, forgetting
  std::vector<char> kept_;             // [layer]: is a keeper
  std::vector<int64_t> held_;          // [layer]: slots that it has now
  std::vector<uint32_t> asked_visit_;  // [id]: its layer's visit that asked for it last
};

}  // namespace

const char* cache_policy_name(CachePolicyKind kind) {
  switch (kind) {
    case CachePolicyKind::forecast:
      return "forecast";
    case CachePolicyKind::lru:
      return "lru";
    case CachePolicyKind::lfu:
      return "lfu";
    case CachePolicyKind::layers:
      break;
  }
  return "layers";
}

CachePolicyKind cache_policy_named(std::string_view name) {
  for (const CachePolicyKind kind : kKinds) {
    if (name == cache_policy_name(kind)) return kind;
  }
  fail_usage("no cache policy '{}': forecast, lru, lfu or layers", name);
}

std::span<const CachePolicyKind> all_cache_policies() { return kKinds; }

std::unique_ptr<CachePolicy> make_cache_policy(CachePolicyKind kind, const CacheShape& shape) {
  switch (kind) {
    case CachePolicyKind::forecast:
      return std::make_unique<ForecastPolicy>(shape);
    case CachePolicyKind::lru:
      return std::make_unique<LruPolicy>(shape);
    case CachePolicyKind::lfu:
      return std::make_unique<LfuPolicy>(shape);
    case CachePolicyKind::layers:
      break;
  }
  return std::make_unique<LayersPolicy>(shape);
}

}  // namespace fathom
