// The HTTP server from its options to its exit code.
#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/system.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/session.h"
#include "cli/stats.h"

#ifdef FATHOM_WITH_SERVER
#include "server/server.h"
#endif

namespace fathom::cli {

#ifdef FATHOM_WITH_SERVER

namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(50);

server::ServerOptions server_options(const ServeOptions& options) {
  server::ServerOptions result;
  result.host = options.host;
  result.port = options.port;
  result.api_keys = options.api_keys;
  result.aliases = options.aliases;
  result.origins = options.origins;
  result.connections = options.connections;
  result.max_tokens = options.max_tokens;
  result.limits.body_bytes = options.body_bytes;
  result.limits.bodies_bytes = std::max(result.limits.bodies_bytes, options.body_bytes);
  result.runner = {options.max_sequences, options.queue};
  result.drain = std::chrono::milliseconds(static_cast<int64_t>(options.drain_seconds * 1000));
  result.access_log = options.access_log;
  result.log_prompts = options.log_prompts;
  return result;
}

std::string url_of(const ServeOptions& options, uint16_t port) {
  const bool v6 = options.host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", v6 ? "[" : "", options.host, v6 ? "]" : "", port);
}

void tell(const ServeOptions& options, const server::Server& server, Output& output) {
  const std::string url = url_of(options, server.port());
  log::info("listening on {} (the API at {}/v1); loading the model", url, url);
  if (!server.loopback() && options.api_keys.empty()) {
    log::warning("everybody who reaches {} may use the model: give --api-key-file", options.host);
  }
  if (!options.output.json) return;
  output.write(JsonObject().text("url", url).integer("port", server.port()).str() + "\n");
  output.flush();
}

}  // namespace

int run_command(const ServeOptions& given, Output& output) {
  ServeOptions options = given;
  options.model.folder = model_folder(options.model.folder);
  require_tokenizer(options.model, "serve");
  // Two full contexts: sequences of usual length share them, and what does not fit goes later.
  options.model.sequences = std::min<int64_t>(options.max_sequences, 2);
  server::Server server(server_options(options), [&options] {
    return load_model(options.model, options.output, TextNeeds::tokenizer);
  });
  tell(options, server, output);

  // The third signal that nobody has answered ends the program; here the second one does.
  bool told = false;
  while (interrupts() == 0) {
    const server::RunnerStatus status = server.runner().status();
    if (status.state == server::RunnerStatus::State::failed) {
      if (interrupts() > 0) break;
      fail_input("{}", status.problem);
    }
    if (!told && status.state == server::RunnerStatus::State::ready) {
      told = true;
      log::info("ready");
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
  log::info("going down: {} answers are unfinished and have {} left; again to end at once",
            server.runner().in_work(), format_duration(options.drain_seconds));
  server.drain([] {
    if (interrupts() > 1) std::_Exit(interrupt_exit_code());
    return false;
  });
  if (options.model.stats) log::info("{}", stats_text(server.runner().status().model));
  return kExitOk;
}

#else

int run_command(const ServeOptions&, Output&) {
  fail_usage("serve: this program was built without its server (FATHOM_SERVER)");
}

#endif

}  // namespace fathom::cli
