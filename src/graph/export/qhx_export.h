// A Qwen2 or Llama checkpoint as a QHexRT bundle whose contexts are ONNX files instead of QNN
// binaries, so that the whole way from the manifest to tokens runs on any machine.
#pragma once

#include <string>

#include "checkpoint/hf_config.h"
#include "graph/export/four_graph_export.h"

namespace fathom {

struct QhxExport {
  std::string out_folder;  // receives vNN/ with the manifest and the files
  int dsp_arch = 81;       // that the manifest names
  int64_t max_ctx = 1024;
  int64_t shards = 1;         // of the decode graph
  int64_t prefill_rows = 64;  // 0: no prefill graph
  const CancelToken* cancel = nullptr;
};

// Weights become float16; Error(input) names a value that does not fit.
ExportResult export_qhx_bundle(const Checkpoint& checkpoint, const DecoderShape& shape,
                               const GenerationConfig& generation, const QhxExport& options);

}  // namespace fathom
