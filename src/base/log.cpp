#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <memory>

#include "base/progress.h"

namespace fathom::log {
namespace {

// "warning: " before a warning; nothing before what a person asked to know.
class Prefix : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    std::string_view prefix;
    if (message.level == spdlog::level::debug) prefix = "debug: ";
    if (message.level == spdlog::level::warn) prefix = "warning: ";
    if (message.level == spdlog::level::err) prefix = "error: ";
    out.append(prefix.data(), prefix.data() + prefix.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return spdlog::details::make_unique<Prefix>();
  }
};

spdlog::level::level_enum level_of(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
    case Level::off:
      break;
  }
  return spdlog::level::off;
}

spdlog::logger& logger() {
  // Never destroyed: a thread may still have something to say while the program ends.
  static spdlog::logger* const instance = [] {
    auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();  // colour on a terminal
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<Prefix>('*').set_pattern("%^%*%$%v");  // only the prefix is coloured
    auto* created = new spdlog::logger("fathom", std::move(sink));
    created->set_formatter(std::move(formatter));
    created->set_level(spdlog::level::info);
    return created;
  }();
  return *instance;
}

}  // namespace

void set_level(Level level) { logger().set_level(level_of(level)); }

void never_colour() {
  auto& sink = static_cast<spdlog::sinks::stderr_color_sink_mt&>(*logger().sinks().front());
  sink.set_color_mode(spdlog::color_mode::never);
}

void write(Level level, const std::string& message) {
  if (level == Level::off || !logger().should_log(level_of(level))) return;
  Progress::clear_line();
  logger().log(level_of(level), message);
}

}  // namespace fathom::log
