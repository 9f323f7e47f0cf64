#include "cli/option_set.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace fathom::cli {
namespace {

// Single letters inserted, removed or exchanged on the way from one word to another.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t exchanged = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({exchanged, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

// "; did you mean --temp?" where one of the names is close to what was written, else "".
std::string suggestion(const std::string& written, const std::vector<std::string>& names) {
  const std::string word = written.substr(0, written.find('='));
  size_t least = std::min<size_t>(3, word.size() / 2 + 1);
  std::string best;
  for (const std::string& name : names) {
    const size_t distance = edit_distance(word, name);
    if (distance >= least) continue;
    least = distance;
    best = name;
  }
  return best.empty() ? "" : "; did you mean " + best + "?";
}

class CommandLine {
 public:
  CommandLine(const std::vector<CommandGroup>& groups, const std::vector<CommandEntry>& commands)
      : app_("Runs DeepSeek-R1 from its Hugging Face folder.", "fathom") {
    app_.set_version_flag("--version", "fathom " FATHOM_VERSION, "Print the version");
    app_.require_subcommand(1);
    app_.footer(
        "fathom COMMAND --help says more, with an example.\n"
        "Exit codes: 0 done, 1 failed, 2 wrong use, 130 stopped by Ctrl-C.");
    for (const CommandGroup& group : groups) {
      CLI::App* app = app_.add_subcommand(group.name, group.description);
      app->footer(group.footer);
      app->require_subcommand(1);
    }
    for (const CommandEntry& command : commands) {
      CLI::App* parent = &app_;
      std::string name = command.name;
      if (const size_t space = name.find(' '); space != std::string::npos) {
        parent = app_.get_subcommand(name.substr(0, space));
        name.erase(0, space + 1);
      }
      CLI::App* app = parent->add_subcommand(name, command.description);
      app->footer(command.footer);
      OptionSet set(app);
      finish_.emplace_back(app, command.add(set));
    }
  }

  ParsedLine parse(int argc, const char* const* argv) {
    // "fathom help chat" is what many type first.
    std::vector<const char*> arguments(argv, argv + argc);
    if (argc >= 2 && std::string_view(argv[1]) == "help") {
      arguments.erase(arguments.begin() + 1);
      arguments.push_back("--help");
    }
    try {
      app_.parse(static_cast<int>(arguments.size()), arguments.data());
    } catch (const CLI::CallForVersion&) {
      return {std::nullopt, "fathom " FATHOM_VERSION "\n"};
    } catch (const CLI::Success&) {
      return {std::nullopt, app_.help()};
    } catch (const CLI::RequiredError& error) {
      // A word that is no command is left over, and says more than that a command is missing.
      const std::vector<std::string> rest = app_.remaining(true);
      if (rest.empty()) fail_usage("{} ({} --help)", error.what(), used_command());
      fail_unexpected(rest.front());
    } catch (const CLI::ExtrasError& error) {
      // Backwards as they were written; an unknown option explains the words that follow it.
      const std::vector<std::string> rest = app_.remaining(true);
      if (rest.empty()) fail_usage("{} ({} --help)", error.what(), used_command());
      const auto option = std::find_if(rest.rbegin(), rest.rend(), [](const std::string& word) {
        return word.starts_with("-");
      });
      fail_unexpected(option != rest.rend() ? *option : rest.back());
    } catch (const CLI::ParseError& error) {
      fail_usage("{} ({} --help)", error.what(), used_command());
    }
    for (const auto& [app, finish] : finish_) {
      if (app->parsed()) return {finish(), ""};
    }
    fail_usage("a command is missing (fathom --help)");
  }

 private:
  // The command that was called, as far as the line was understood.
  const CLI::App* used() const {
    const CLI::App* at = &app_;
    while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
    return at;
  }

  std::string used_command() const {
    std::string name;
    for (const CLI::App* at = used(); at != nullptr; at = at->get_parent()) {
      name = name.empty() ? at->get_name() : at->get_name() + " " + name;
    }
    return name;
  }

  [[noreturn]] void fail_unexpected(const std::string& word) const {
    std::vector<std::string> names;
    for (const CLI::App* command : used()->get_subcommands([](const CLI::App*) { return true; })) {
      names.push_back(command->get_name());
    }
    if (word.starts_with("-")) {
      names.clear();
      for (const CLI::Option* option : used()->get_options()) {
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
      }
    }
    fail_usage("'{}' was not expected{} ({} --help)", word, suggestion(word, names),
               used_command());
  }

  CLI::App app_;
  std::vector<std::pair<CLI::App*, std::function<Command()>>> finish_;
};

}  // namespace

OptionSet& OptionSet::group(const std::string& heading) {
  heading_ = heading;
  return *this;
}

OptionSet& OptionSet::value(const std::string& names, const std::string& type,
                            const std::string& help, Setter set) {
  last_ = app_->add_option_function<std::string>(names, set, help)->type_name(type);
  if (!heading_.empty()) last_->group(heading_);
  return *this;
}

OptionSet& OptionSet::value(const std::string& names, const std::string& type,
                            const std::string& help, std::string* text) {
  return value(names, type, help, [text](const std::string& given) { *text = given; });
}

OptionSet& OptionSet::repeated(const std::string& names, const std::string& type,
                               const std::string& help, Setter set) {
  last_ = app_->add_option_function<std::vector<std::string>>(
                  names,
                  [set = std::move(set)](const std::vector<std::string>& values) {
                    for (const std::string& given : values) set(given);
                  },
                  help)
              ->type_name(type)
              ->allow_extra_args(false);
  if (!heading_.empty()) last_->group(heading_);
  return *this;
}

OptionSet& OptionSet::flag(const std::string& names, const std::string& help, bool* on) {
  return flag(names, help, [on] { *on = true; });
}

OptionSet& OptionSet::flag(const std::string& names, const std::string& help,
                           std::function<void()> set) {
  last_ = app_->add_flag_callback(names, std::move(set), help);
  if (!heading_.empty()) last_->group(heading_);
  return *this;
}

OptionSet& OptionSet::required() {
  last_->required();
  return *this;
}

OptionSet& OptionSet::excludes(const std::string& name) {
  last_->excludes(app_->get_option(name));
  return *this;
}

ParsedLine parse_with(const std::vector<CommandGroup>& groups,
                      const std::vector<CommandEntry>& commands, int argc,
                      const char* const* argv) {
  return CommandLine(groups, commands).parse(argc, argv);
}

}  // namespace fathom::cli
