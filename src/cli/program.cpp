#include "cli/program.h"

#include <cstring>
#include <new>
#include <variant>

#include "base/log.h"
#include "base/progress.h"
#include "base/system.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"

namespace fathom::cli {
namespace {

// Errors in the command line itself come before its options are known.
bool asks_for_json(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) return true;
  }
  return false;
}

int report(ErrorKind kind, const std::string& message, bool json, Output& output) {
  if (kind == ErrorKind::cancelled) {
    log::write(log::Level::info, "stopped");
  } else {
    log::write(log::Level::error, without_controls(message));
  }
  if (json) {
    try {
      output.write(json_error(kind, message) + "\n");
      output.flush();
    } catch (const Error&) {
      // Standard output may be what failed; the message on stderr has to do.
    }
  }
  switch (kind) {
    case ErrorKind::usage:
      return kExitUsage;
    case ErrorKind::cancelled:
      return interrupt_exit_code();
    case ErrorKind::input:
    case ErrorKind::io:
      break;
  }
  return kExitFailed;
}

}  // namespace

int run_main(bool json, const std::function<int(Output&)>& work) {
  system::ignore_write_signals();
  system::keep_one_heap();
  if (!wants_style(system::stderr_is_terminal())) log::never_colour();
  Output output;
  try {
    const int code = work(output);
    output.flush();
    return code;
  } catch (const Error& error) {
    return report(error.kind(), error.what(), json, output);
  } catch (const std::bad_alloc&) {
    return report(ErrorKind::io, "out of memory", json, output);
  } catch (const std::exception& error) {
    return report(ErrorKind::io, error.what(), json, output);
  }
}

int run_program(int argc, const char* const* argv) {
  return run_main(asks_for_json(argc, argv), [&](Output& output) {
    const ParsedLine line = parse_command_line(argc, argv);
    if (!line.command) {
      output.write(line.text);
      return kExitOk;
    }
    watch_interrupts();
    return std::visit(
        [&output](const auto& options) {
          if (options.output.quiet || options.output.json) {
            Progress::enable(false);
            log::set_level(log::Level::warning);
          }
          return run_command(options, output);
        },
        *line.command);
  });
}

}  // namespace fathom::cli
