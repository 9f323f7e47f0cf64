// Which files the four graphs are, what their tensors are called, how they are driven: from
// genai_config.json, or by the walkthrough's names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/four_graph_names.h"
#include "graph/runtime.h"

namespace fathom {

enum class StageRole { embedding, context, iteration, head };
inline constexpr int kStages = 4;
const char* stage_name(StageRole role);

struct FourGraphStage {
  StageRole role = StageRole::embedding;
  std::string name;                 // as the pipeline calls it
  std::string file;                 // inside the folder
  std::vector<std::string> inputs;  // as configured; empty: not said
  std::vector<std::string> outputs;
  GraphOptions qnn_options;
  bool wants_qnn = false;
  GraphOptions session_options;
  // The stage whose session is closed before this one runs, to make room.
  std::optional<StageRole> reset;
};

struct FourGraphConfig {
  FourGraphNames names;
  FourGraphStage stages[kStages];  // by role
  int64_t window = 64;
  int64_t pad_value = 0;
  // Empty or 0: not said.
  int64_t context_length = 0;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_size = 0;
  std::vector<int64_t> eos_ids;
  std::string source;  // the file, or "the walkthrough's layout"

  const FourGraphStage& stage(StageRole role) const { return stages[static_cast<int>(role)]; }
  FourGraphStage& stage(StageRole role) { return stages[static_cast<int>(role)]; }
};

// Error(input) that lists everything that is wrong with the file.
FourGraphConfig parse_genai_config(const std::string& text, const std::string& path);

// The four .onnx files of a folder without genai_config.json, told apart by their names (embed,
// context or prompt or prefill, iter or decode or token, head). Error(input) names what is missing.
FourGraphConfig walkthrough_config(const std::string& folder);

// The config of a folder; and every file that its graphs need is there: the graphs themselves and
// the data files (weights, context binaries) that they name. Error(input) lists all that are
// missing.
FourGraphConfig read_four_graph_config(const std::string& folder, const std::string& layout);

}  // namespace fathom
