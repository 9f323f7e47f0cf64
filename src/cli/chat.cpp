#include <cstdio>
#include <type_traits>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/system.h"
#include "base/units.h"
#include "cli/answer.h"
#include "cli/chat_input.h"
#include "cli/chat_session.h"
#include "cli/commands.h"
#include "cli/conversation.h"
#include "cli/interrupt.h"
#include "cli/line_reader.h"
#include "cli/session.h"
#include "cli/stats.h"
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
  Chat(const ChatOptions& options, Model& model, Output& output)
      : options_(options),
        model_(model),
        output_(output),
        reader_(default_history_file()),
        conversation_(options.system),
        think_(options.think.value_or(ThinkMode::on)) {}

  // From here on everything is kept in `session`; `state` is what was in it.
  void keep_in(Session& session, std::optional<ChatState> state);
  int run();

 private:
  // The next message or command, continued lines joined; false at the end.
  bool read(std::string* line);
  // False where the chat should end.
  bool handle(const std::string& line);
  // Runs work(); what it throws is told, and the chat goes on where it can.
  template <typename Work>
  bool attempt(const Work& work);
  // Answers the last message.
  void answer();
  // Goes on with the open answer, from its beginning or where it stood.
  void finish_open();
  GenerateResult generate();
  void on_step(const GenerateStep& step);
  void after_answer(const GenerateResult& result);
  // An answer that was stopped is left as it is.
  void close_open();
  void tell_where_it_stood();
  void print_stats();
  void print_session();
  void save(const std::string& path);
  void save_session();
  Cache& cache() { return session_ != nullptr ? session_->cache() : cache_; }
  void say(const std::string& text);

  const ChatOptions& options_;
  Model& model_;
  Output& output_;
  LineReader reader_;
  Conversation conversation_;
  ThinkMode think_;
  Cache cache_;
  ChatStats stats_;
  uint64_t choice_ = 0;  // counts answers to one message, so that /again gives another
  bool failed_ = false;

  std::optional<OpenAnswer> open_;
  Session* session_ = nullptr;
  std::vector<int32_t> ids_;  // what was run last: a prompt and its answer
  int64_t unsaved_ = 0;       // tokens of the open answer since the last save
  bool prefill_saved_ = false;
};

int Chat::run() {
  if (reader_.interactive() && !options_.output.json) {
    log::info("/help lists the commands; Ctrl-C stops an answer, Ctrl-D quits");
  }
  if (open_ && !open_->stopped) {
    attempt([this] { finish_open(); });
    if (asked_to_terminate()) return interrupt_exit_code();
  }
  std::string line;
  while (read(&line)) {
    const bool more = attempt([&] { return handle(line); });
    save_session();
    if (asked_to_terminate()) return interrupt_exit_code();
    if (!more) break;
  }
  if (asked_to_terminate()) return interrupt_exit_code();
  // A person has seen what failed; a program needs the exit code.
  if (options_.model.stats && !options_.output.json) log::info("{}", stats_text(model_.stats()));
  return failed_ && !reader_.interactive() ? kExitFailed : kExitOk;
}

template <typename Work>
bool Chat::attempt(const Work& work) {
  try {
    if constexpr (std::is_void_v<decltype(work())>) {
      work();
      return true;
    } else {
      return work();
    }
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
    return true;
  }
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
      open_.reset();
      conversation_.reset();
      cache() = Cache();
      ids_.clear();
      say("a new conversation\n");
      return true;
    case ChatAction::system:
      open_.reset();
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
    case ChatAction::session:
      print_session();
      return true;
    case ChatAction::save:
      save(input.text);
      return true;
    case ChatAction::resume:
      if (!open_) fail_usage("/continue: no answer was stopped");
      finish_open();
      return true;
    case ChatAction::again:
      open_.reset();
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
  close_open();
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
    open_ = OpenAnswer{prompt, {}, "", options_.ask, choice_, false};
  } catch (...) {
    conversation_.drop_user();  // or every later message would fail with it
    throw;
  }
  save_session();  // the message is not lost
  finish_open();
}

void Chat::finish_open() {
  open_->stopped = false;
  try {
    after_answer(generate());
  } catch (...) {
    // Hours of work may be in it: what there is can still be gone on with.
    if (open_ && !open_->ids.empty()) {
      open_->stopped = true;
    } else {
      open_.reset();
      conversation_.drop_user();
    }
    throw;
  }
}

void Chat::close_open() {
  if (!open_) return;
  if (open_->content.empty()) {
    conversation_.drop_user();
  } else {
    conversation_.add_assistant(open_->content);
  }
  open_.reset();
}

GenerateResult Chat::generate() {
  GenerateRequest request;
  request.prompt = open_->prompt;
  request.resume = open_->ids;
  request.sampling = open_->ask.sampling;
  request.sampling.choice = open_->choice;
  request.max_tokens = open_->ask.max_tokens;
  request.stop = open_->ask.stop;
  request.stop_ids = open_->ask.stop_ids;
  request.ignore_eos = open_->ask.ignore_eos;
  request.reasoning_budget = open_->ask.reasoning_budget;
  request.format = open_->ask.format;
  request.cancel = &interrupt_token();
  request.cache = &cache();
  open_->content.clear();  // comes again
  ids_ = open_->prompt.ids;
  ids_.insert(ids_.end(), open_->ids.begin(), open_->ids.end());
  unsaved_ = 0;
  prefill_saved_ = false;
  AnswerPrinter printer(output_, think_ != ThinkMode::hide);
  PrefillBar bar(request.prompt.ids.size());
  request.on_prefill = [&bar](double share) { bar.set(share); };
  AnswerPace pace(output_, request.max_tokens, options_.output.quiet);
  request.on_step = [&](const GenerateStep& step) {
    if (!step.resumed) pace.token();
    if (!options_.output.json) printer.step(step);
    on_step(step);
    return true;
  };
  GenerateResult result = model_.generate(request);
  if (!options_.output.json) printer.finish();
  return result;
}

void Chat::on_step(const GenerateStep& step) {
  open_->content += step.content;
  if (step.resumed || step.id < 0) return;
  open_->ids.push_back(step.id);
  ids_.push_back(step.id);
  // The prompt's cache is worth a save of its own.
  if (++unsaved_ >= options_.autosave || !prefill_saved_) save_session();
}

void Chat::after_answer(const GenerateResult& result) {
  stats_.add(result);
  const bool stopped = result.finish_reason == FinishReason::cancelled;
  const bool kept = stopped || !result.content.empty();
  if (stopped) {
    // Whoever ends the program wants the answer to go on when it is started again.
    open_->stopped = !asked_to_terminate();
  } else {
    open_->content = result.content;
    close_open();
  }
  save_session();
  if (options_.output.json) {
    output_.write(JsonObject()
                      .text("reasoning", result.reasoning)
                      .text("content", result.content)
                      .text("finish_reason", finish_reason_name(result.finish_reason))
                      .object("usage", usage_json(result))
                      .object("timings", timings_json(result, model_.info().load_seconds))
                      .integer("resumed_tokens", result.resumed_tokens)
                      .natural("seed", options_.ask.sampling.seed)
                      .str() +
                  "\n");
    output_.flush();
    return;
  }
  const char* note = !kept                       ? "; no answer came, so the message is forgotten"
                     : stopped && open_->stopped ? ", /continue goes on"
                                                 : "";
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
  text +=
      fmt::format("\n{} of {} tokens of context cached ({}); --seed {}\n", cache().length(),
                  info.context.tokens,
                  format_size(static_cast<uint64_t>(cache().length()) * info.kv_bytes_per_token),
                  options_.ask.sampling.seed);
  text += stats_text(model_.stats()) + "\n";
  say(text);
}

void Chat::keep_in(Session& session, std::optional<ChatState> state) {
  session_ = &session;
  ids_ = session.ids();
  if (!state) return;
  conversation_ = Conversation(state->system);
  conversation_.set_turns(state->messages);
  if (!options_.think) think_ = state->think;
  choice_ = state->choice;
  open_ = std::move(state->open);
  tell_where_it_stood();
}

void Chat::tell_where_it_stood() {
  if (options_.output.quiet || options_.output.json) return;
  log::info("session  {}: {} messages, {} tokens cached", session_->path(),
            conversation_.messages(), cache().length());
  if (session_->dropped_bytes() > 0) {
    log::info("         its last save was interrupted; the one before it is used");
  }
  if (!open_) return;
  say("> " + without_controls(conversation_.last_message()) + "\n");
  log::info("the answer {} after {} tokens{}", open_->stopped ? "was stopped" : "goes on",
            open_->ids.size(), open_->stopped ? "; /continue goes on with it" : "");
}

void Chat::save_session() {
  if (session_ == nullptr) return;
  unsaved_ = 0;
  if (open_ && !open_->ids.empty()) prefill_saved_ = true;
  ChatState state;
  state.system = conversation_.system();
  state.messages = conversation_.turns_json();
  state.think = think_;
  state.ask = options_.ask;
  state.choice = choice_;
  state.open = open_;
  if (open_ && open_->ids.empty()) ids_ = open_->prompt.ids;
  try {
    session_->save(ids_, chat_note(state));
  } catch (const Error& error) {
    // The state before is still there, and the next save may find room.
    log::warning("{}; the chat goes on, saved is what was saved before", error.what());
  }
}

void Chat::print_session() {
  if (session_ == nullptr) {
    say("nothing is saved: --session FILE keeps the chat\n");
    return;
  }
  say(fmt::format(
      "{}: {}; {} messages, {} tokens cached{}; saved at the end of an answer and every "
      "{} tokens\n",
      session_->path(), format_size(session_->bytes()), conversation_.messages(), cache().length(),
      open_ ? fmt::format(", an unfinished answer of {} tokens", open_->ids.size()) : "",
      options_.autosave));
}

void Chat::save(const std::string& path) {
  Conversation all = conversation_;
  if (open_ && !open_->content.empty()) all.add_assistant(open_->content);
  try {
    OutputFile file(path);
    file.write(all.json() + "\n");
    file.commit();
  } catch (const Error& error) {
    // Unlike a standard output that fails, another file may do: the chat goes on.
    throw Error(ErrorKind::input, error.what());
  }
  say(fmt::format("{} messages written to {}\n", all.messages(), path));
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
  require_parent_folder(options.session, "--session");
  read_format(&options.ask.format);
  Model model = load_model(options.model, options.output, TextNeeds::chat);
  std::optional<Session> session;
  std::optional<ChatState> state;
  if (!options.session.empty()) {
    session = Session::open(model, options.session);
    if (!session->is_new()) {
      state = parse_chat_note(*session);
      if (options.system && options.system != state->system) {
        fail_usage("--system: {} has another system message; /system begins a new conversation",
                   options.session);
      }
      take_over(&options.ask, state->ask);
    }
  }
  settle_sampling(options.ask, model.info().text_folder, options.output);
  Chat chat(options, model, output);
  if (session) chat.keep_in(*session, std::move(state));
  return chat.run();
}

}  // namespace fathom::cli
