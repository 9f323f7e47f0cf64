#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/prompt_cache.h"
#include "cli/session.h"
#include "cli/stats.h"
#include "fathom/scheduler.h"
#include "text/utf8_stream.h"

namespace fathom::cli {
namespace {

// The option that needs a tokenizer; nullptr where none does.
TextNeeds text_needs(const GenerateOptions& options) {
  if (options.kind == PromptKind::chat) return TextNeeds::chat;
  const bool only_ids = options.kind == PromptKind::tokens && options.ask.stop.empty();
  return only_ids ? TextNeeds::none : TextNeeds::tokenizer;
}

void check_utf8(const std::string& text, const char* option) {
  const size_t bad = find_invalid_utf8(text);
  if (bad != std::string::npos) fail_input("{}: byte {} is not valid UTF-8", option, bad);
}

std::string message_json(const char* role, const std::string& content) {
  return JsonObject().text("role", role).text("content", content).str();
}

Prompt make_prompt(const Model& model, const GenerateOptions& options, const std::string& text) {
  switch (options.kind) {
    case PromptKind::tokens:
      break;
    case PromptKind::text:
    case PromptKind::file:
      return model.raw_prompt(text);
    case PromptKind::chat: {
      std::string messages = "[";
      if (options.system) messages += message_json("system", *options.system) + ",";
      RenderOptions how;
      how.tools = options.tools;
      return model.render(messages + message_json("user", text) + "]", how);
    }
  }
  Prompt prompt;
  prompt.ids = options.tokens;
  return prompt;
}

std::string logprob_json(const TokenLogprob& token) {
  std::vector<int32_t> bytes;
  for (const char byte : token.bytes) bytes.push_back(static_cast<uint8_t>(byte));
  return JsonObject()
      .integer("id", token.id)
      .text("token", token.bytes)
      .number("logprob", token.logprob)
      .ids("bytes", bytes)
      .str();
}

std::string logprobs_json(const std::vector<PositionLogprobs>& positions) {
  std::string all = "[";
  for (const PositionLogprobs& position : positions) {
    std::string top = "[";
    for (const TokenLogprob& token : position.top) {
      top += (top.size() > 1 ? "," : "") + logprob_json(token);
    }
    std::string one = logprob_json(position.chosen);
    one.back() = ',';
    all += (all.size() > 1 ? "," : "") + one + "\"top\":" + top + "]}";
  }
  return all + "]";
}

std::string tool_calls_json(const std::vector<ToolCall>& calls) {
  std::string all = "[";
  for (const ToolCall& call : calls) {
    all += (all.size() > 1 ? "," : "") +
           JsonObject().text("name", call.name).text("arguments", call.arguments).str();
  }
  return all + "]";
}

JsonObject result_fields(const GenerateResult& result, const Model& model) {
  const bool text = model.has_tokenizer();
  const auto part = [text](const std::string& value) {
    return text ? std::optional(value) : std::nullopt;
  };
  JsonObject fields;
  fields.ids("token_ids", result.ids)
      .text_or_null("text", part(result.text))
      .text_or_null("reasoning", part(result.reasoning))
      .text_or_null("content", part(result.content))
      .text("finish_reason", finish_reason_name(result.finish_reason))
      .object("usage", usage_json(result))
      .object("timings", timings_json(result, model.info().load_seconds))
      .object("speculation", speculation_json(result));
  if (!result.tool_calls.empty()) fields.raw("tool_calls", tool_calls_json(result.tool_calls));
  if (!result.logprobs.empty()) fields.raw("logprobs", logprobs_json(result.logprobs));
  if (result.error) fields.text("error", result.error->what());
  return fields;
}

std::string document(JsonObject fields, const Model& model, uint64_t seed) {
  const ModelInfo& info = model.info();
  return fields.natural("seed", seed)
      .text("model", info.name)
      .object(
          "context",
          JsonObject().integer("tokens", info.context.tokens).text("reason", info.context.reason))
      .object("stats", stats_json(model.stats()))
      .str();
}

// Samples run together, and are printed one after another: the first one that is not finished as it
// comes, the others' steps when their turn has come.
class SamplePrinter {
 public:
  SamplePrinter(Output& output, bool has_text, int64_t count)
      : output_(output), has_text_(has_text), steps_(static_cast<size_t>(count)) {}

  void step(const GenerateStep& step) {
    if (step.sample != front_) {
      steps_[static_cast<size_t>(step.sample)].push_back(step);
      return;
    }
    print(step);
  }
  // To be called in the order of samples when all of a sample's steps have been given.
  void finish() {
    if (printer_) printer_->finish();
    printer_.reset();
    if (++front_ >= static_cast<int64_t>(steps_.size())) return;
    for (const GenerateStep& step : std::exchange(steps_[static_cast<size_t>(front_)], {})) {
      print(step);
    }
  }

 private:
  void print(const GenerateStep& step) {
    if (!printer_) {
      if (front_ > 0) output_.write("\n");
      output_.write(fmt::format("[sample {} of {}]\n", front_ + 1, steps_.size()));
      printer_.emplace(output_, true);
    }
    if (has_text_) {
      printer_->step(step);
    } else if (step.id >= 0) {
      printer_->id(step.id);
    }
  }

  Output& output_;
  bool has_text_;
  std::vector<std::vector<GenerateStep>> steps_;
  int64_t front_ = 0;
  std::optional<AnswerPrinter> printer_;
};

int generate_samples(const GenerateOptions& options, Model& model, GenerateRequest request,
                     Output& output) {
  SamplePrinter printer(output, model.has_tokenizer(), options.samples);
  std::vector<std::optional<GenerateResult>> results(static_cast<size_t>(options.samples));
  if (!options.output.json) {
    request.on_step = [&printer, save = request.on_step](const GenerateStep& step) {
      if (save && !save(step)) return false;
      printer.step(step);
      return true;
    };
  }
  size_t finished = 0;  // in order
  Scheduler scheduler(model);
  scheduler.add(std::move(request), options.samples, [&](int64_t sample, GenerateResult&& result) {
    results[static_cast<size_t>(sample)] = std::move(result);
    while (finished < results.size() && results[finished]) {
      if (!options.output.json) {
        printer.finish();
        log::info("{}", summary(*results[finished]));
      }
      ++finished;
    }
  });
  while (scheduler.step()) {
  }
  std::string samples = "[";
  std::optional<Error> error;
  bool cancelled = false;
  for (const auto& result : results) {
    samples += (samples.size() > 1 ? "," : "") + result_fields(*result, model).str();
    if (result->error) error = result->error;
    if (result->finish_reason == FinishReason::cancelled) cancelled = true;
  }
  if (options.output.json) {
    JsonObject fields;
    fields.raw("samples", samples + "]");
    output.write(document(fields, model, options.ask.sampling.seed) + "\n");
  }
  if (options.model.stats && !options.output.json) log::info("{}", stats_text(model.stats()));
  output.flush();
  if (cancelled) return interrupt_exit_code();
  if (error && options.output.json) return kExitFailed;  // it stands in the document
  if (error) throw Error(*error);
  return kExitOk;
}

}  // namespace

int run_command(const GenerateOptions& given, Output& output) {
  GenerateOptions options = given;
  // Whatever can be found wrong without weights is said before they are loaded.
  options.model.folder = model_folder(options.model.folder);
  std::string text = options.prompt;
  if (options.kind == PromptKind::file) {
    text = read_input(options.prompt);
    if (text.empty()) {
      fail_usage("--prompt-file {}: the text is empty",
                 options.prompt == "-" ? "(standard input)" : options.prompt);
    }
  }
  if (options.kind == PromptKind::chat) check_utf8(text, "--chat");
  if (options.system) check_utf8(*options.system, "--system");
  for (const std::string& stop : options.ask.stop) check_utf8(stop, "--stop");
  read_format(&options.ask.format);
  if (!options.tools.empty()) options.tools = read_input(options.tools);

  require_parent_folder(options.prompt_cache, "--prompt-cache");

  options.model.sequences = std::max<int64_t>(options.samples, 1);
  Model model = load_model(options.model, options.output, text_needs(options));
  settle_sampling(options.ask, model.info().text_folder, options.output);

  GenerateRequest request;
  request.prompt = make_prompt(model, options, text);
  request.sampling = options.ask.sampling;
  request.max_tokens = options.ask.max_tokens;
  request.stop = options.ask.stop;
  request.stop_ids = options.ask.stop_ids;
  request.ignore_eos = options.ask.ignore_eos;
  request.split_reasoning = options.kind == PromptKind::chat;
  request.parse_tool_calls = !options.tools.empty();
  request.reasoning_budget = options.ask.reasoning_budget;
  request.format = options.ask.format;
  request.logprobs = options.logprobs;
  request.cancel = &interrupt_token();

  PromptCache prompt_cache(model, options.prompt_cache, request.prompt.ids);
  request.cache = prompt_cache.cache();

  PrefillBar bar(request.prompt.ids.size());
  request.on_prefill = [&bar](double share) { bar.set(share); };
  if (options.samples > 0) {
    request.on_step = [&prompt_cache](const GenerateStep& step) {
      if (step.sample == 0) prompt_cache.save_once();
      return true;
    };
    return generate_samples(options, model, std::move(request), output);
  }
  AnswerPrinter printer(output, true);
  AnswerPace pace(output, request.max_tokens, options.output.quiet);
  request.on_step = [&](const GenerateStep& step) {
    prompt_cache.save_once();
    pace.token();
    if (options.output.json) return true;
    if (model.has_tokenizer()) {
      printer.step(step);
    } else {
      printer.id(step.id);
    }
    return true;
  };
  const GenerateResult result = model.generate(request);
  if (options.output.json) {
    output.write(document(result_fields(result, model), model, request.sampling.seed) + "\n");
  } else {
    printer.finish();
    log::info("{}", summary(result));
    if (options.model.stats) log::info("{}", stats_text(model.stats()));
  }
  output.flush();
  return result.finish_reason == FinishReason::cancelled ? interrupt_exit_code() : kExitOk;
}

}  // namespace fathom::cli
