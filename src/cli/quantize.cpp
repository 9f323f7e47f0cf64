#include "checkpoint/quantise.h"

#include <fmt/core.h>

#include <chrono>

#include "base/system.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"

namespace fathom::cli {

int run_command(const QuantizeOptions& options, Output& output) {
  QuantiseOptions quantise;
  quantise.folder = options.folder;
  quantise.out_folder = options.out;
  quantise.bits = options.bits;
  quantise.ram = options.ram;
  quantise.threads = options.threads > 0 ? options.threads : system::processor_count();
  quantise.cancel = &interrupt_token();
  const auto began = std::chrono::steady_clock::now();
  const QuantiseResult result = quantise_checkpoint(quantise);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (options.output.json) {
    output.write(JsonObject()
                     .text("out", options.out)
                     .text("format", fmt::format("int{}", options.bits))
                     .integer("matrices", result.matrices)
                     .natural("matrix_bytes", result.matrix_bytes)
                     .natural("packed_bytes", result.packed_bytes)
                     .natural("bytes", result.bytes)
                     .integer("shards", result.shards)
                     .integer("earlier_shards", result.earlier_shards)
                     .number("seconds", seconds)
                     .str() +
                 "\n");
    return kExitOk;
  }
  output.write(fmt::format("{}: {} matrices of {} in {} (int{}), {} in all, {}\n", options.out,
                           result.matrices, format_size(result.matrix_bytes),
                           format_size(result.packed_bytes), options.bits,
                           format_size(result.bytes), format_duration(seconds)));
  if (result.earlier_shards > 0) {
    output.write(
        fmt::format("{} of {} shards were there already\n", result.earlier_shards, result.shards));
  }
  return kExitOk;
}

}  // namespace fathom::cli
