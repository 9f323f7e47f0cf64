// What chat and generate take.
#include <memory>

#include "base/error.h"
#include "cli/command_options.h"

namespace fathom::cli {

namespace {

constexpr int64_t kMostSamples = 10'000;
constexpr int64_t kMostLogprobs = 1000;
constexpr int64_t kMostParallel = 1024;
constexpr int64_t kMostTokens = int64_t{1} << 40;

}  // namespace

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
  add_chat_template(set, &chat->model);
  add_speculation(set, &chat->model);
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
  if (options.kind != PromptKind::chat) {
    const auto needs_chat = [](bool given, const char* option) {
      if (given) fail_usage("{}: only --chat has thought and answer", option);
    };
    needs_chat(!options.tools.empty(), "--tools");
    needs_chat(options.ask.reasoning_budget.has_value(), "--reasoning-budget");
    needs_chat(options.ask.format.kind != OutputFormat::Kind::text, "--json-object, --json-schema");
  }
  if (options.logprobs && !options.output.json) fail_usage("--logprobs: they come with --json");
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
  set.value("--tools", "FILE",
            "Functions that the answer may call, as OpenAI's array of tools, with --chat",
            &o->tools);
  set.group("");
  set.value("--logprobs", "N",
            "With --json: every token's log probability, and the N likeliest tokens",
            [o](const std::string& value) {
              o->logprobs = parse_integer(value, "--logprobs", 0, kMostLogprobs);
            });
  set.value("--prompt-cache", "FILE",
            "Take the prompt's computation from this file as far as it matches, and save it there",
            &o->prompt_cache);
  set.value("--samples", "K",
            "K samples of the prompt, which is computed once; printed one after another",
            [o](const std::string& value) {
              o->samples = parse_integer(value, "--samples", 1, kMostSamples);
            });
  add_chat_template(set, &o->model);
  add_speculation(set, &o->model);
  add_ask(set, &o->ask);
  add_model(set, &o->model, kContextHelp);
  return [state] { return finish_generate(state->options, state->prompts); };
}

FinishCommand add_batch_options(OptionSet& set) {
  auto options = std::make_shared<BatchOptions>();
  BatchOptions* o = options.get();
  add_output(set, &o->output, "A summary at the end: {requests, answered, refused, ...}");
  set.value("requests", "FILE", "One OpenAI batch request per line", &o->requests).required();
  set.value("--out", "FILE", "Answers, appended; with the same file a stopped batch goes on",
            [o](const std::string& value) {
              if (value.empty()) fail_usage("--out: the file's name is empty");
              o->out = value;
            })
      .required();
  set.value("--parallel", "N", "Requests worked on at once, which share every read (default: 8)",
            [o](const std::string& value) {
              o->parallel = parse_integer(value, "--parallel", 1, kMostParallel);
            });
  set.value("-n,--max-tokens", "N",
            "Most tokens of an answer where the request does not say (default: what the context "
            "takes)",
            [o](const std::string& value) {
              o->max_tokens = parse_integer(value, "-n (--max-tokens)", 1, kMostTokens);
            });
  set.value("--seed", "N",
            "Where a request has no seed, one is made of this and its custom_id (default: 0)",
            [o](const std::string& value) { o->seed = parse_seed(value, "--seed"); });
  add_chat_template(set, &o->model);
  add_speculation(set, &o->model);
  add_model(set, &o->model, kContextHelp);
  return [options] { return *options; };
}

}  // namespace fathom::cli
