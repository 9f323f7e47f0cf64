#include "base/error.h"
#include "base/log.h"
#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/session.h"
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
      return model.render(messages + message_json("user", text) + "]");
    }
  }
  Prompt prompt;
  prompt.ids = options.tokens;
  return prompt;
}

std::string result_json(const GenerateResult& result, const Model& model, uint64_t seed) {
  const bool text = model.has_tokenizer();
  const auto part = [text](const std::string& value) {
    return text ? std::optional(value) : std::nullopt;
  };
  const ModelInfo& info = model.info();
  return JsonObject()
      .ids("token_ids", result.ids)
      .text_or_null("text", part(result.text))
      .text_or_null("reasoning", part(result.reasoning))
      .text_or_null("content", part(result.content))
      .text("finish_reason", finish_reason_name(result.finish_reason))
      .object("usage", usage_json(result))
      .object("timings", timings_json(result, info.load_seconds))
      .natural("seed", seed)
      .text("model", info.name)
      .object(
          "context",
          JsonObject().integer("tokens", info.context.tokens).text("reason", info.context.reason))
      .str();
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

  Model model = load_model(options.model, options.output, text_needs(options));
  settle_sampling(options.ask, options.model.folder, options.output);

  GenerateRequest request;
  request.prompt = make_prompt(model, options, text);
  request.sampling = options.ask.sampling;
  request.max_tokens = options.ask.max_tokens;
  request.stop = options.ask.stop;
  request.stop_ids = options.ask.stop_ids;
  request.ignore_eos = options.ask.ignore_eos;
  request.split_reasoning = options.kind == PromptKind::chat;
  request.cancel = &interrupt_token();

  AnswerPrinter printer(output, true);
  PrefillBar bar(request.prompt.ids.size());
  request.on_prefill = [&bar](double share) { bar.set(share); };
  if (!options.output.json) {
    request.on_step = [&](const GenerateStep& step) {
      if (model.has_tokenizer()) {
        printer.step(step);
      } else {
        printer.id(step.id);
      }
      return true;
    };
  }
  const GenerateResult result = model.generate(request);
  if (options.output.json) {
    output.write(result_json(result, model, request.sampling.seed) + "\n");
  } else {
    printer.finish();
    log::info("{}", summary(result));
  }
  output.flush();
  return result.finish_reason == FinishReason::cancelled ? interrupt_exit_code() : kExitOk;
}

}  // namespace fathom::cli
