// Commands and their options, without the library that reads the command line: option_set.cpp is
// the only place that meets CLI11.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "cli/options.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace fathom::cli {

// What one command takes. All values are text at first: they are parsed where the errors can say
// what is expected.
class OptionSet {
 public:
  using Setter = std::function<void(const std::string&)>;
  explicit OptionSet(CLI::App* app) : app_(app) {}

  // Options that follow stand under this heading in the help.
  OptionSet& group(const std::string& heading);
  // An option with one value ("--name", or "-n,--name"), or an argument without a name of its own
  // ("messages").
  OptionSet& value(const std::string& names, const std::string& type, const std::string& help,
                   Setter set);
  OptionSet& value(const std::string& names, const std::string& type, const std::string& help,
                   std::string* text);
  // An option that may be given several times, one value each.
  OptionSet& repeated(const std::string& names, const std::string& type, const std::string& help,
                      Setter set);
  OptionSet& flag(const std::string& names, const std::string& help, bool* on);
  OptionSet& flag(const std::string& names, const std::string& help, std::function<void()> set);
  // The option added last must be given; it cannot be given together with that other one.
  OptionSet& required();
  OptionSet& excludes(const std::string& name);

 private:
  CLI::App* app_;
  CLI::Option* last_ = nullptr;
  std::string heading_;
};

// One command of the program. `add` says what it takes and returns what makes a command of it, once
// everything is read; both throw Error(usage).
struct CommandEntry {
  const char* name;  // "generate"; "bench kernels" is kernels below bench
  const char* description;
  const char* footer;  // an example, and what else there is to say
  std::function<Command()> (*add)(OptionSet& set);
};

// Headings of names that have commands below them and are none themselves.
struct CommandGroup {
  const char* name;
  const char* description;
  const char* footer;
};

ParsedLine parse_with(const std::vector<CommandGroup>& groups,
                      const std::vector<CommandEntry>& commands, int argc, const char* const* argv);

}  // namespace fathom::cli
