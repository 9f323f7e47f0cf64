// Many requests from a file, answered in shared passes, and what is needed to go on after a kill.
#include <chrono>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/system.h"
#include "base/units.h"
#include "cli/answer.h"
#include "cli/batch_files.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/session.h"
#include "fathom/scheduler.h"
#include "server/openai/api_error.h"
#include "server/openai/response.h"

namespace fathom::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Where nobody looks at a bar, a line says so often how far it has come.
constexpr double kSecondsBetweenLines = 30;
// The machine has failed for so many requests in a row that going on would fail for the rest.
constexpr int kMostFailures = 16;

constexpr int kOk = 200;
constexpr int kBadRequest = 400;
constexpr int kServerError = 500;

class Batch {
 public:
  Batch(const BatchOptions& options, Model& model, BatchRequests& requests, BatchAnswers& answers);
  int run(Output& output);

 private:
  // A request that is being answered.
  struct Asked {
    const BatchLine* line;
    server::Endpoint endpoint;
    uint64_t seed;
    bool logprobs;
    std::optional<server::Echo> echo;
    std::vector<GenerateResult> results;
    int64_t left;  // samples
  };

  void feed();
  void ask(const BatchLine& line);
  void finish(Asked& asked);
  void write_answer(const BatchLine& line, int status, const std::string& body,
                    const std::string& error);
  void refuse(const BatchLine& line, int status, const std::string& message);
  std::string body_of(const Asked& asked) const;
  void show_progress();
  JsonObject summary_json(double seconds) const;

  const BatchOptions& options_;
  Model& model_;
  BatchRequests& requests_;
  BatchAnswers& answers_;
  Scheduler scheduler_;
  Progress bar_;
  size_t next_ = 0;        // of requests_.lines()
  int64_t in_work_ = 0;    // samples
  bool stopping_ = false;  // results that come now are of cancelled requests
  int64_t to_do_ = 0;
  int64_t done_ = 0;     // in this run, refused ones included
  int64_t refused_ = 0;  // of them, for what was asked
  int64_t failed_ = 0;   // of them, because of the machine
  int failures_in_row_ = 0;
  std::string last_failure_;
  Clock::time_point began_ = Clock::now();
  double next_line_at_ = kSecondsBetweenLines;
};

int64_t open_lines(const std::vector<BatchLine>& lines) {
  int64_t open = 0;
  for (const BatchLine& line : lines) open += !line.answered;
  return open;
}

Batch::Batch(const BatchOptions& options, Model& model, BatchRequests& requests,
             BatchAnswers& answers)
    : options_(options),
      model_(model),
      requests_(requests),
      answers_(answers),
      scheduler_(model, {.parallel = options.parallel,
                         .sweep_rows = 0,
                         .between_layers = [this] { show_progress(); }}),
      bar_("batch", static_cast<uint64_t>(open_lines(requests.lines())), ProgressUnit::items),
      to_do_(open_lines(requests.lines())) {}

int Batch::run(Output& output) {
  while (true) {
    feed();
    if (interrupt_token().cancelled()) {
      stopping_ = true;
      scheduler_.cancel_all();
      break;
    }
    const bool more = scheduler_.step(&interrupt_token());
    show_progress();
    if (failures_in_row_ >= kMostFailures) {
      fail(ErrorKind::io, "{} requests in a row have failed, the last one so: {}", failures_in_row_,
           last_failure_);
    }
    if (!more && next_ == requests_.lines().size()) break;
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  const SchedulerStatus status = scheduler_.status();
  if (options_.output.json) {
    output.write(summary_json(seconds).str() + "\n");
    output.flush();
  }
  log::info("{} of {} requests answered in {}: {} tokens, {:.1f} tokens/s, {} passes{}{}{}",
            done_ - refused_ - failed_, to_do_, format_duration(seconds), status.generated,
            static_cast<double>(status.generated) / std::max(seconds, 1e-9), status.passes,
            refused_ > 0 ? fmt::format("; {} refused (see their errors)", refused_) : "",
            failed_ > 0 ? fmt::format("; {} failed, which another run tries again", failed_) : "",
            stopping_ ? "; stopped: the same command goes on" : "");
  if (stopping_) return interrupt_exit_code();
  return failed_ > 0 ? kExitFailed : kExitOk;
}

// As many requests as there is work for at once: the others wait in their file.
void Batch::feed() {
  const std::vector<BatchLine>& lines = requests_.lines();
  while (next_ < lines.size() && in_work_ < options_.parallel && !interrupt_token().cancelled()) {
    const BatchLine& line = lines[next_++];
    if (!line.answered) ask(line);
  }
}

void Batch::ask(const BatchLine& line) {
  auto asked = std::make_shared<Asked>();
  asked->line = &line;
  try {
    if (!line.problem.empty()) fail_input("{}", line.problem);
    const BatchRequests::Content content = requests_.read(line);
    asked->endpoint = content.endpoint;
    server::OpenAiRequest parsed = parse_openai_request(
        content.endpoint, parse_ordered_json(content.body, "body"), model_, {true, false});
    if (parsed.prompts.size() > 1) fail_input("prompt: give every prompt a line of its own");
    parsed.request.prompt = std::move(parsed.prompts.front());
    if (!parsed.has_seed) parsed.request.sampling.seed = batch_seed(options_.seed, line.custom_id);
    if (!parsed.has_limit) parsed.request.max_tokens = options_.max_tokens;
    asked->seed = parsed.request.sampling.seed;
    asked->logprobs = parsed.request.logprobs.has_value();
    if (!parsed.echoes.empty()) asked->echo = std::move(parsed.echoes.front());
    asked->results.resize(static_cast<size_t>(parsed.samples));
    asked->left = parsed.samples;
    scheduler_.add(std::move(parsed.request), parsed.samples,
                   [this, asked](int64_t sample, GenerateResult&& result) {
                     asked->results[static_cast<size_t>(sample)] = std::move(result);
                     --in_work_;
                     if (--asked->left == 0 && !stopping_) finish(*asked);
                   });
    in_work_ += parsed.samples;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::io) throw;
    refuse(line, kBadRequest, error.what());
  }
}

void Batch::finish(Asked& asked) {
  for (const GenerateResult& result : asked.results) {
    if (!result.error) continue;
    ++failures_in_row_;
    last_failure_ = result.error->what();
    return refuse(*asked.line, kServerError, last_failure_);
  }
  failures_in_row_ = 0;
  write_answer(*asked.line, kOk, body_of(asked), "null");
}

void Batch::refuse(const BatchLine& line, int status, const std::string& message) {
  const bool refused = status == kBadRequest;
  const server::ApiError error(status, message, {{}, refused ? "invalid_request" : "failed"});
  ++(refused ? refused_ : failed_);
  write_answer(line, status, error.body(),
               JsonObject().text("code", *error.code()).text("message", message).str());
}

void Batch::write_answer(const BatchLine& line, int status, const std::string& body,
                         const std::string& error) {
  const std::string request_id = "req_" + line.id.substr(line.id.rfind('_') + 1);
  JsonObject answer;
  answer.text("id", line.id)
      .text_or_null("custom_id",
                    line.custom_id.empty() ? std::nullopt : std::optional(line.custom_id))
      .object("response", JsonObject()
                              .integer("status_code", status)
                              .text("request_id", request_id)
                              .raw("body", body))
      .raw("error", error);
  answers_.append(answer.str());
  bar_.set(static_cast<uint64_t>(++done_));
}

std::string Batch::body_of(const Asked& asked) const {
  const server::AnswerHead head = {asked.endpoint,
                                   asked.line->id.substr(asked.line->id.rfind('_') + 1),
                                   static_cast<int64_t>(std::time(nullptr)), model_.info().name};
  std::string choices = "[";
  server::Usage usage;
  for (size_t i = 0; i < asked.results.size(); ++i) {
    const server::ChoiceForm form = {static_cast<int64_t>(i), asked.logprobs,
                                     asked.echo ? &*asked.echo : nullptr};
    choices += (i > 0 ? "," : "") + choice_json(head, form, asked.results[i]);
    usage.add(asked.results[i], i == 0);
  }
  return answer_object(head, false)
      .raw("choices", choices + "]")
      .object("usage", usage.json())
      .natural("seed", asked.seed)
      .str();
}

void Batch::show_progress() {
  const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  const auto tokens = static_cast<double>(scheduler_.status().generated);
  bar_.set_label(fmt::format("batch, {:.1f} tokens/s", tokens / std::max(seconds, 1e-9)));
  bar_.set(static_cast<uint64_t>(done_));
  if (system::stderr_is_terminal() || seconds < next_line_at_) return;
  next_line_at_ = seconds + kSecondsBetweenLines;
  const std::string left =
      done_ > 0
          ? fmt::format(", about {} left", format_duration(seconds / static_cast<double>(done_) *
                                                           static_cast<double>(to_do_ - done_)))
          : "";
  log::info("{} of {} requests, {} tokens, {:.1f} tokens/s{}", done_, to_do_,
            scheduler_.status().generated, tokens / seconds, left);
}

JsonObject Batch::summary_json(double seconds) const {
  const SchedulerStatus status = scheduler_.status();
  const auto lines = static_cast<int64_t>(requests_.lines().size());
  JsonObject summary;
  summary.integer("requests", lines)
      .integer("answered_before", lines - to_do_)
      .integer("answered", done_ - refused_ - failed_)
      .integer("refused", refused_)
      .integer("failed", failed_)
      .integer("left", to_do_ - done_)
      .natural("tokens", status.generated)
      .number("seconds", seconds)
      .number("tokens_per_second", static_cast<double>(status.generated) / std::max(seconds, 1e-9))
      .natural("passes", status.passes)
      .natural("rows", status.rows)
      .object("speculation",
              JsonObject().natural("drafts", status.drafts).natural("accepted", status.accepted))
      .integer("parallel", options_.parallel)
      .natural("seed", options_.seed)
      .text("out", options_.out)
      .boolean("stopped", stopping_);
  return summary;
}

}  // namespace

int run_command(const BatchOptions& given, Output& output) {
  BatchOptions options = given;
  options.model.folder = model_folder(options.model.folder);
  require_parent_folder(options.out, "--out");
  require_tokenizer(options.model, "batch");
  BatchRequests requests(options.requests, {options.seed, options.max_tokens});
  if (requests.lines().empty()) fail_input("{}: there is no request in it", options.requests);
  // Two full contexts: sequences of usual length share them, and what does not fit goes later.
  options.model.sequences = std::min<int64_t>(options.parallel, 2);
  // The answers are opened last: what is refused leaves no empty file behind.
  Model model = load_model(options.model, options.output, TextNeeds::tokenizer);
  BatchAnswers answers(options.out, model.info().name, requests.lines());
  const int64_t open = open_lines(requests.lines());
  if (answers.cut_off()) log::info("{}: its last line was not whole and is cut off", options.out);
  if (answers.taken_out() > 0) {
    log::info("{}: {} answers that had failed are taken out", options.out, answers.taken_out());
  }
  log::info("batch    {} requests, {} of them answered already; {} at once; --seed {}",
            requests.lines().size(), static_cast<int64_t>(requests.lines().size()) - open,
            options.parallel, options.seed);
  return Batch(options, model, requests, answers).run(output);
}

}  // namespace fathom::cli
