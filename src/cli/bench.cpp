#include "kernels/bench.h"

#include <fmt/core.h>

#include "base/log.h"
#include "base/system.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "kernels/dispatch.h"

namespace fathom::cli {

int run_command(const BenchKernelsOptions& options, Output& output) {
  const KernelSet& kernels =
      options.kernels.empty() ? best_kernels() : kernels_named(options.kernels);
  const int threads = options.threads > 0 ? options.threads : system::processor_count();
  log::info("measuring the {} kernels with {} thread{} for about {:g} s", kernels.name, threads,
            threads == 1 ? "" : "s", options.seconds);
  // The measurement has no way to stop between two shapes: Ctrl-C ends the program.
  system::on_interrupt(nullptr);
  const std::vector<KernelBenchResult> results =
      bench_kernels(kernels, threads, options.seconds, options.only);
  if (options.output.json) {
    std::string rows = "[";
    for (const KernelBenchResult& r : results) {
      if (rows.size() > 1) rows += ",";
      rows += JsonObject()
                  .text("kernel", r.kernel)
                  .text("shape", r.shape)
                  .integer("rows", r.n)
                  .number("value", r.value)
                  .text("unit", r.unit)
                  .number("limit", r.limit)
                  .text("limit_name", r.limit_name)
                  .number("ratio", r.ratio)
                  .number("busy", r.busy)
                  .str();
    }
    output.write(JsonObject()
                     .text("kernels", kernels.name)
                     .integer("threads", threads)
                     .raw("results", rows + "]")
                     .str() +
                 "\n");
    return kExitOk;
  }
  output.write(fmt::format("{:<18} {:>12} {:>5} {:>9} {:<8} {:>9} {:>6} {:>6}  {}\n", "kernel",
                           "shape", "rows", "reached", "", "limit", "ratio", "busy", "limit is"));
  for (const KernelBenchResult& r : results) {
    output.write(fmt::format(
        "{:<18} {:>12} {:>5} {:>9.1f} {:<8} {:>9.1f} {:>5.0f}% {:>5.0f}%  {}\n", r.kernel, r.shape,
        r.n, r.value, r.unit, r.limit, r.ratio * 100, r.busy * 100, r.limit_name));
  }
  return kExitOk;
}

}  // namespace fathom::cli
