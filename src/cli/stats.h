// What a model took so far, for people (--stats, /stats) and for machines.
#pragma once

#include <string>

#include "cli/json_output.h"
#include "fathom/model.h"

namespace fathom::cli {

// Lines without the last line's end.
std::string stats_text(const ModelStats& stats);
JsonObject stats_json(const ModelStats& stats);

}  // namespace fathom::cli
