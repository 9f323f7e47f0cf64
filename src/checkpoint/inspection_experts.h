// How the routed experts lie in their files, by the headers alone; any architecture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/census.h"
#include "checkpoint/inspection_scan.h"

namespace fathom {

// An expert that lies in more than one shard.
struct Straddler {
  int64_t layer = 0;
  int64_t expert = 0;
  // Its tensors in the order of the files, cut where the shard changes.
  struct Piece {
    int shard = 0;
    std::vector<std::string> tensors;  // "gate_proj.weight", ...
    uint64_t bytes = 0;
  };
  std::vector<Piece> pieces;
};

struct ExpertOrder {
  std::vector<std::string> tensors;  // as they lie in the files
  size_t experts = 0;
};

struct ExpertPlaces {
  size_t experts = 0;
  std::vector<int64_t> layers;  // that have any; ascending
  uint64_t least_bytes = 0;     // of one expert
  uint64_t most_bytes = 0;
  size_t contiguous = 0;              // in one shard, nothing between its tensors
  size_t scattered = 0;               // other tensors lie between them in a shard
  size_t layers_in_order = 0;         // layers whose experts follow each other by number
  std::vector<ExpertOrder> orders;    // most frequent first
  std::vector<Straddler> straddlers;  // by layer and expert; a scattered one counts here as well
  // Layers whose numbers of experts or of bytes per expert differ from the most usual.
  std::vector<std::string> irregular;
};

ExpertPlaces place_experts(const HeaderScan& scan, const NameReader& names);

}  // namespace fathom
