#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/system.h"
#include "base/units.h"
#include "cli/answer.h"
#include "cli/chat_input.h"
#include "cli/commands.h"
#include "cli/conversation.h"
#include "cli/interrupt.h"
#include "cli/line_reader.h"
#include "cli/session.h"
#include "text/utf8_stream.h"

namespace fathom::cli {
namespace {

// Everything that happened since the start, for /stats.
struct ChatStats {
  int64_t answers = 0;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t generated = 0;
  int64_t reasoning = 0;
  double prefill_seconds = 0;
  double decode_seconds = 0;

  void add(const GenerateResult& result) {
    ++answers;
    prompt_tokens += result.prompt_tokens;
    cached_tokens += result.cached_tokens;
    generated += static_cast<int64_t>(result.ids.size());
    reasoning += result.reasoning_tokens;
    prefill_seconds += result.prefill_seconds;
    decode_seconds += result.decode_seconds;
  }
};

class Chat {
 public:
  Chat(const ChatOptions& options, Model model, Output& output)
      : options_(options),
        model_(std::move(model)),
        output_(output),
        reader_(default_history_file()),
        conversation_(options.system),
        think_(options.think) {}

  int run();

 private:
  // The next message or command, continued lines joined; false at the end.
  bool read(std::string* line);
  // False where the chat should end.
  bool handle(const std::string& line);
  // Answers the last message.
  void answer();
  GenerateResult generate(const Prompt& prompt);
  void after_answer(const GenerateResult& result);
  void print_stats();
  void save(const std::string& path);
  void say(const std::string& text);

  const ChatOptions& options_;
  Model model_;
  Output& output_;
  LineReader reader_;
  Conversation conversation_;
  ThinkMode think_;
  Cache cache_;
  ChatStats stats_;
  uint64_t choice_ = 0;  // counts answers to one message, so that /again gives another
  bool failed_ = false;
};

int Chat::run() {
  if (reader_.interactive() && !options_.output.json) {
    log::info("/help lists the commands; Ctrl-C stops an answer, Ctrl-D quits");
  }
  std::string line;
  while (read(&line)) {
    try {
      if (!handle(line)) break;
    } catch (const Error& error) {
      // A full disk or a closed pipe will not get better; anything else concerns this line alone.
      if (error.kind() == ErrorKind::io && !reader_.interactive()) throw;
      output_.flush();
      failed_ = true;
      log::write(log::Level::error, without_controls(error.what()));
      if (options_.output.json) {
        output_.write(json_error(error.kind(), error.what()) + "\n");
        output_.flush();
      }
    }
    if (asked_to_terminate()) return interrupt_exit_code();
  }
  // A person has seen what failed; a program needs the exit code.
  return failed_ && !reader_.interactive() ? kExitFailed : kExitOk;
}

bool Chat::read(std::string* line) {
  line->clear();
  std::string part;
  bool warned = false;
  while (true) {
    answer_interrupt();
    switch (reader_.read(line->empty() ? "> " : ". ", &part)) {
      case LineReader::Event::line:
        break;
      case LineReader::Event::interrupted:
        if (asked_to_terminate()) return false;
        // The first Ctrl-C throws away what was typed, the second one in a row quits.
        if (warned) return false;
        warned = true;
        line->clear();
        log::info("once more to quit");
        continue;
      case LineReader::Event::end:
        if (!line->empty()) return true;
        if (reader_.interactive()) log::info("");
        return false;
    }
    if (part.ends_with('\\')) {
      part.back() = '\n';
      *line += part;
      continue;
    }
    *line += part;
    return true;
  }
}

bool Chat::handle(const std::string& line) {
  const ChatInput input = options_.output.json ? parse_chat_json_line(line) : parse_chat_line(line);
  if (input.action != ChatAction::nothing) reader_.remember(line);
  switch (input.action) {
    case ChatAction::nothing:
      return true;
    case ChatAction::quit:
      return false;
    case ChatAction::help:
      say(kChatHelp);
      return true;
    case ChatAction::reset:
      conversation_.reset();
      cache_ = Cache();
      say("a new conversation\n");
      return true;
    case ChatAction::system:
      conversation_.set_system(input.text.empty() ? std::nullopt : std::optional(input.text));
      say(input.text.empty() ? "a new conversation without system message\n"
                             : "a new conversation with this system message\n");
      return true;
    case ChatAction::think:
      think_ = input.think;
      say(think_ == ThinkMode::on     ? "thoughts are shown\n"
          : think_ == ThinkMode::hide ? "thoughts are made, but not shown\n"
                                      : "thoughts are closed at once\n");
      return true;
    case ChatAction::stats:
      print_stats();
      return true;
    case ChatAction::save:
      save(input.text);
      return true;
    case ChatAction::again:
      conversation_.drop_assistant();
      if (!conversation_.ends_with_user()) fail_usage("/again: there is no message to answer");
      ++choice_;
      answer();
      return true;
    case ChatAction::message:
      break;
  }
  if (const size_t bad = find_invalid_utf8(input.text); bad != std::string::npos) {
    fail_input("message: byte {} is not valid UTF-8", bad);
  }
  conversation_.add_user(input.text);
  choice_ = 0;
  answer();
  return true;
}

void Chat::answer() {
  try {
    const Prompt prompt = conversation_.prompt(model_, think_ != ThinkMode::off);
    const int64_t context = model_.info().context.tokens;
    if (static_cast<int64_t>(prompt.ids.size()) >= context) {
      fail_input(
          "the conversation has {} tokens, and the context of {} must also hold the answer: /reset "
          "begins a new one, --ctx may allow more",
          prompt.ids.size(), context);
    }
    after_answer(generate(prompt));
  } catch (...) {
    conversation_.drop_user();  // or every later message would fail with it
    throw;
  }
}

GenerateResult Chat::generate(const Prompt& prompt) {
  GenerateRequest request;
  request.prompt = prompt;
  request.sampling = options_.ask.sampling;
  request.sampling.choice = choice_;
  request.max_tokens = options_.ask.max_tokens;
  request.stop = options_.ask.stop;
  request.stop_ids = options_.ask.stop_ids;
  request.ignore_eos = options_.ask.ignore_eos;
  request.cancel = &interrupt_token();
  request.cache = &cache_;
  AnswerPrinter printer(output_, think_ != ThinkMode::hide);
  PrefillBar bar(prompt.ids.size());
  request.on_prefill = [&bar](double share) { bar.set(share); };
  if (!options_.output.json) {
    request.on_step = [&printer](const GenerateStep& step) {
      printer.step(step);
      return true;
    };
  }
  GenerateResult result = model_.generate(request);
  if (!options_.output.json) printer.finish();
  return result;
}

void Chat::after_answer(const GenerateResult& result) {
  stats_.add(result);
  const bool kept = !result.content.empty();
  if (kept) {
    conversation_.add_assistant(result.content);
  } else {
    conversation_.drop_user();
  }
  if (options_.output.json) {
    output_.write(JsonObject()
                      .text("reasoning", result.reasoning)
                      .text("content", result.content)
                      .text("finish_reason", finish_reason_name(result.finish_reason))
                      .object("usage", usage_json(result))
                      .object("timings", timings_json(result, model_.info().load_seconds))
                      .natural("seed", options_.ask.sampling.seed)
                      .str() +
                  "\n");
    output_.flush();
    return;
  }
  const char* note = kept ? "" : "; no answer came, so the message is forgotten";
  const bool dim = wants_style(system::stderr_is_terminal());
  log::info("{}[{}{}]{}", dim ? "\x1b[2m" : "", summary(result), note, dim ? "\x1b[0m" : "");
}

void Chat::print_stats() {
  const ModelInfo& info = model_.info();
  std::string text = fmt::format(
      "answers: {}; messages in the conversation: {}\n"
      "{} tokens generated ({} of thought)",
      stats_.answers, conversation_.messages(), stats_.generated, stats_.reasoning);
  if (stats_.decode_seconds > 0 && stats_.generated > stats_.answers) {
    text +=
        fmt::format(", {:.1f} tokens/s",
                    static_cast<double>(stats_.generated - stats_.answers) / stats_.decode_seconds);
  }
  const int64_t read = stats_.prompt_tokens - stats_.cached_tokens;
  text += fmt::format("\n{} tokens of prompts read, {} more taken from the cache", read,
                      stats_.cached_tokens);
  if (stats_.prefill_seconds > 0) {
    text += fmt::format(", {:.1f} tokens/s", static_cast<double>(read) / stats_.prefill_seconds);
  }
  text += fmt::format("\n{} of {} tokens of context cached ({}); --seed {}\n", cache_.length(),
                      info.context.tokens,
                      format_size(static_cast<uint64_t>(cache_.length()) * info.kv_bytes_per_token),
                      options_.ask.sampling.seed);
  say(text);
}

void Chat::save(const std::string& path) {
  try {
    OutputFile file(path);
    file.write(conversation_.json() + "\n");
    file.commit();
  } catch (const Error& error) {
    // Unlike a standard output that fails, another file may do: the chat goes on.
    throw Error(ErrorKind::input, error.what());
  }
  say(fmt::format("{} messages written to {}\n", conversation_.messages(), path));
}

// What a command of the chat has to say, also with --quiet; standard output is for answers.
void Chat::say(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace

int run_command(const ChatOptions& given, Output& output) {
  ChatOptions options = given;
  options.model.folder = model_folder(options.model.folder);
  if (options.system && find_invalid_utf8(*options.system) != std::string::npos) {
    fail_input("--system: the text is not valid UTF-8");
  }
  Model model = load_model(options.model, options.output, TextNeeds::chat);
  settle_sampling(options.ask, options.model.folder, options.output);
  return Chat(options, std::move(model), output).run();
}

}  // namespace fathom::cli
