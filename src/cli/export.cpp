// export-onnx and export-qhx.
#include <fmt/core.h>

#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_folder.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "cli/session.h"
#include "engine/text_folder.h"
#include "graph/export/four_graph_export.h"
#include "graph/export/qhx_export.h"

namespace fathom::cli {
namespace {

// A checkpoint on its way into another form.
struct Source {
  explicit Source(const std::string& given)
      : folder(model_folder(given)),
        shape(read_decoder_shape(folder)),
        checkpoint(Checkpoint::open(folder)),
        generation(read_generation_config(folder)) {}
  std::string folder;
  DecoderShape shape;
  Checkpoint checkpoint;
  GenerationConfig generation;
};

int tell(const ExportResult& result, const std::string& out, const OutputOptions& options,
         Output& output) {
  if (options.json) {
    output.write(JsonObject()
                     .text("out", out)
                     .integer("files", result.files)
                     .natural("bytes", result.bytes)
                     .str() +
                 "\n");
  } else {
    output.write(fmt::format("{}: {} files, {}\n", out, result.files, format_size(result.bytes)));
  }
  return kExitOk;
}

}  // namespace

int run_command(const ExportOnnxOptions& options, Output& output) {
  const Source source(options.folder);
  FourGraphExport request;
  request.out_folder = options.out;
  request.max_len = options.max_len;
  request.window = options.window;
  request.cancel = &interrupt_token();
  return tell(export_four_graphs(source.checkpoint, source.shape, source.generation, request),
              options.out, options.output, output);
}

int run_command(const ExportQhxOptions& options, Output& output) {
  const Source source(options.folder);
  QhxExport request;
  request.out_folder = options.out;
  request.dsp_arch = options.dsp_arch;
  request.max_ctx = options.max_ctx;
  request.shards = options.shards;
  request.prefill_rows = options.prefill_rows;
  request.cancel = &interrupt_token();
  return tell(export_qhx_bundle(source.checkpoint, source.shape, source.generation, request),
              options.out, options.output, output);
}

}  // namespace fathom::cli
