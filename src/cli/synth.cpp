#include "checkpoint/synth.h"

#include <fmt/core.h>

#include <chrono>

#include "base/system.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"

namespace fathom::cli {

int run_command(const SynthCommandOptions& options, Output& output) {
  SynthOptions synth;
  synth.config_path = options.config;
  synth.out_folder = options.out;
  synth.seed = options.seed;
  synth.shards = options.shards;
  synth.shard_table = options.shard_table;
  synth.skeleton = options.skeleton;
  synth.live = options.live;
  if (options.live_rows) synth.live_rows = *options.live_rows;
  synth.cancel = &interrupt_token();
  const auto began = std::chrono::steady_clock::now();
  const SynthResult result = synthesise_checkpoint(
      synth, options.threads > 0 ? options.threads : system::processor_count());
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();

  if (options.output.json) {
    output.write(JsonObject()
                     .text("out", options.out)
                     .integer("files", result.files)
                     .natural("bytes", result.bytes)
                     .natural("written_bytes", result.written_bytes)
                     .number("seconds", seconds)
                     .natural("seed", options.seed)
                     .str() +
                 "\n");
    return kExitOk;
  }
  const uint64_t written = result.written_bytes;
  const double rate = seconds > 0 ? static_cast<double>(written) / seconds : 0;
  const std::string holes =
      options.skeleton ? fmt::format(" ({} without the holes)", format_size(written)) : "";
  output.write(fmt::format("{}: {} files, {}{} in {} ({}/s)\n", options.out, result.files,
                           format_size(result.bytes), holes, format_duration(seconds),
                           format_size(static_cast<uint64_t>(rate))));
  return kExitOk;
}

}  // namespace fathom::cli
