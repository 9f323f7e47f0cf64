// The subcommands. Each returns the program's exit code, or throws Error.
#pragma once

#include "cli/options.h"
#include "cli/terminal.h"

namespace fathom::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

int run_command(const ChatOptions& options, Output& output);
int run_command(const GenerateOptions& options, Output& output);
int run_command(const BatchOptions& options, Output& output);
int run_command(const ServeOptions& options, Output& output);
int run_command(const LogitsOptions& options, Output& output);
int run_command(const TokenizeOptions& options, Output& output);
int run_command(const DetokenizeOptions& options, Output& output);
int run_command(const RenderCommandOptions& options, Output& output);
int run_command(const PerplexityOptions& options, Output& output);
int run_command(const SynthCommandOptions& options, Output& output);
int run_command(const QuantizeOptions& options, Output& output);
int run_command(const CompareOptions& options, Output& output);
int run_command(const VerifyCommandOptions& options, Output& output);
int run_command(const PlanOptions& options, Output& output);
int run_command(const InspectOptions& options, Output& output);
int run_command(const ExportOnnxOptions& options, Output& output);
int run_command(const ExportQhxOptions& options, Output& output);
int run_command(const NpuCheckOptions& options, Output& output);
int run_command(const BenchKernelsOptions& options, Output& output);
int run_command(const BenchCacheOptions& options, Output& output);
int run_command(const BenchDiskOptions& options, Output& output);
int run_command(const BenchDecodeOptions& options, Output& output);
int run_command(const BenchPrefillOptions& options, Output& output);

}  // namespace fathom::cli
