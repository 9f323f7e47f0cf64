// A Qwen2 or Llama checkpoint as four ONNX graphs: embedding, context (prefill), iteration, head.
#pragma once

#include <string>

#include "base/cancel.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/hf_config.h"
#include "graph/export/decoder_shape.h"

namespace fathom {

struct FourGraphExport {
  std::string out_folder;  // made where it is missing; must hold no other files of these names
  int64_t max_len = 2048;  // rows of the key and value buffers: prompt and answer together
  int64_t window = 64;     // rows of one prefill pass
  const CancelToken* cancel = nullptr;
};

struct ExportResult {
  int files = 0;
  uint64_t bytes = 0;
};

// Weights become float32 and are written as they are read, one tensor in memory at a time. Copies
// the tokenizer's files too, and writes genai_config.json last: a folder that has it is complete.
ExportResult export_four_graphs(const Checkpoint& checkpoint, const DecoderShape& shape,
                                const GenerationConfig& generation, const FourGraphExport& options);

// Copies tokenizer.json, tokenizer_config.json, generation_config.json, ... where they are there.
int copy_text_files(const std::string& from, const std::string& to);

}  // namespace fathom
