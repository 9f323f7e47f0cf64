#include "checkpoint/synth.h"

#include <fmt/core.h>

#include <chrono>
#include <filesystem>

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
  synth.cancel = &interrupt_token();
  const auto began = std::chrono::steady_clock::now();
  synthesise_checkpoint(synth, options.threads > 0 ? options.threads : system::processor_count());
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();

  uint64_t bytes = 0;
  int64_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(options.out)) {
    if (!entry.is_regular_file()) continue;
    bytes += entry.file_size();
    ++files;
  }
  if (options.output.json) {
    output.write(JsonObject()
                     .text("out", options.out)
                     .integer("files", files)
                     .natural("bytes", bytes)
                     .number("seconds", seconds)
                     .natural("seed", options.seed)
                     .str() +
                 "\n");
    return kExitOk;
  }
  const double rate = seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
  output.write(fmt::format("{}: {} files, {} in {} ({}/s)\n", options.out, files,
                           format_size(bytes), format_duration(seconds),
                           format_size(static_cast<uint64_t>(rate))));
  return kExitOk;
}

}  // namespace fathom::cli
