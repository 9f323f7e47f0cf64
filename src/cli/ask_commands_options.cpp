// What chat and generate take.
#include <memory>

#include "base/error.h"
#include "cli/command_options.h"

namespace fathom::cli {

FinishCommand add_chat_options(OptionSet& set) {
  auto chat = std::make_shared<ChatOptions>();
  add_output(set, &chat->output, "One JSON object per answer");
  set.value("--system", "TEXT", "System message",
            [o = chat.get()](const std::string& value) { o->system = value; });
  set.value("--think", "MODE",
            "on: show the thought; hide: make it, but do not show it; off: open and close it at "
            "once",
            [o = chat.get()](const std::string& value) { o->think = parse_think(value); });
  set.value("--session", "FILE",
            "Keep the chat in this file, and go on with what it holds; an answer that was "
            "interrupted goes on where it stood",
            &chat->session);
  set.value("--autosave", "N", "Save every N tokens of an answer too (default 32)",
            [o = chat.get()](const std::string& value) {
              o->autosave = parse_integer(value, "--autosave", 1, int64_t{1} << 40);
            });
  add_ask(set, &chat->ask);
  add_model(set, &chat->model, kContextHelp);
  return [chat] {
    check_sampling(chat->ask.sampling);
    return *chat;
  };
}

namespace {

GenerateOptions finish_generate(GenerateOptions options, int prompts) {
  if (prompts != 1) {
    fail_usage("give exactly one of --prompt, --prompt-file, --chat and --tokens ({} are given)",
               prompts);
  }
  if (options.system && options.kind != PromptKind::chat) {
    fail_usage("--system: only --chat has a system message");
  }
  if (options.kind == PromptKind::tokens) {
    options.tokens = parse_some_ids(options.prompt, "--tokens");
  } else if (options.prompt.empty()) {
    const char* names[] = {"--prompt", "--prompt-file", "--chat"};
    fail_usage("{}: the text is empty", names[static_cast<size_t>(options.kind)]);
  }
  check_sampling(options.ask.sampling);
  return options;
}

}  // namespace

FinishCommand add_generate_options(OptionSet& set) {
  struct State {
    GenerateOptions options;
    int prompts = 0;
  };
  auto state = std::make_shared<State>();
  GenerateOptions* o = &state->options;
  add_output(set, &o->output, "One JSON object at the end instead of text as it comes");
  const auto prompt = [&set, s = state.get()](const char* names, const char* type, const char* help,
                                              PromptKind kind) {
    set.value(names, type, help, [s, kind](const std::string& value) {
      s->options.kind = kind;
      s->options.prompt = value;
      ++s->prompts;
    });
  };
  set.group("Prompt (exactly one)");
  prompt("--prompt", "TEXT", "Raw text to continue", PromptKind::text);
  prompt("--prompt-file", "FILE", "The same from a file; - is standard input", PromptKind::file);
  prompt("--chat", "TEXT", "One user message, rendered by the model's template", PromptKind::chat);
  prompt("--tokens", "IDS", "Token ids, such as 0,5,9; no tokenizer is needed", PromptKind::tokens);
  set.value("--system", "TEXT", "System message, with --chat",
            [o](const std::string& value) { o->system = value; });
  set.group("");
  add_ask(set, &o->ask);
  add_model(set, &o->model, kContextHelp);
  return [state] { return finish_generate(state->options, state->prompts); };
}

}  // namespace fathom::cli
