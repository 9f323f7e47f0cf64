// How an inspection is shown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/inspection.h"
#include "graph/inspection.h"

namespace fathom::cli {

// For people, in 100 columns; everything, or the tensors of one layer.
std::string inspection_text(const Inspection& inspection);
std::string layer_text(const Inspection& inspection, int64_t layer);
// All of it; with `layer` its manifest as well.
std::string inspection_json(const Inspection& inspection, std::optional<int64_t> layer);
// A page that needs no other file and no network.
std::string inspection_html(const Inspection& inspection);

// Models that are graphs.
std::string graph_inspection_text(const GraphInspection& inspection);
std::string graph_inspection_json(const GraphInspection& inspection);

// "688,574,839,360".
std::string grouped(uint64_t number);
// "671.03 B", "41.6 M", "12": as parameters are counted.
std::string counted(uint64_t number);
// "641.294" of bytes.
std::string gib(uint64_t bytes);
// "gate_proj.weight, up_proj.weight": where the scales of every weight follow it, that is said
// once.
std::string order_text(const ExpertOrder& order);
// "2-4, 7": a layer's shards, counted from 1.
std::string shard_numbers(const LayerRow& row);
// "3 (12) 4 (300) lm_head.weight": layers with the number of their tensors, then globals.
std::string shard_contents(const ShardRow& row);
// "31/92: 79 to gate_proj.weight | 80".
std::string straddler_text(const Straddler& straddler);

}  // namespace fathom::cli
