// npu-check: whether a bundle gives on this machine what it gave on the device of its card.
#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/inspect.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "cli/session.h"
#include "engine/graph_backend.h"

namespace fathom::cli {
namespace {

// What the bundle's card reports of a device: greedy, ten tokens.
constexpr const char* kGoldPrompt = "The capital of France is";
constexpr const char* kGoldText = " Paris, and the capital of Germany is Berlin.";
constexpr int64_t kGoldTokens = 10;
constexpr double kCardMilliseconds = 73.9;

constexpr const char* kQuestion = "What is 15 multiplied by 6?";
constexpr const char* kAnswer = "90";
constexpr int64_t kMostAnswerTokens = 512;

struct Findings {
  std::vector<int32_t> gold;
  std::vector<int32_t> expected;
  std::string gold_text;
  std::string answer;
  bool asked_as_chat = false;
  int64_t decoded = 0;  // tokens that were timed
  double seconds = 0;

  size_t equal() const {
    const auto ends = std::mismatch(gold.begin(), gold.end(), expected.begin(), expected.end());
    return static_cast<size_t>(ends.first - gold.begin());
  }
  bool gold_right() const { return gold == expected; }
  bool answer_right() const { return answer.find(kAnswer) != std::string::npos; }
  double milliseconds() const {
    return 1000 * seconds / static_cast<double>(std::max<int64_t>(decoded, 1));
  }
};

GenerateResult greedy(Model& model, Prompt prompt, int64_t tokens) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  const int64_t room =
      model.info().context.tokens - static_cast<int64_t>(request.prompt.ids.size());
  request.max_tokens = std::clamp<int64_t>(room, 1, tokens);
  request.cancel = &interrupt_token();
  GenerateResult result = model.generate(request);
  interrupt_token().throw_if_cancelled();
  return result;
}

Findings check(Model& model) {
  Findings findings;
  const auto count = [&findings](const GenerateResult& result) {
    // The first token comes with the prompt.
    findings.decoded += static_cast<int64_t>(result.ids.size()) - 1;
    findings.seconds += result.decode_seconds;
  };
  findings.expected = model.tokenize(kGoldText);
  findings.expected.resize(
      std::min<size_t>(findings.expected.size(), static_cast<size_t>(kGoldTokens)));
  const GenerateResult gold =
      greedy(model, model.raw_prompt(kGoldPrompt), static_cast<int64_t>(findings.expected.size()));
  findings.gold = gold.ids;
  findings.gold_text = model.detokenize(gold.ids);
  count(gold);
  Prompt question;
  try {
    question = model.render(R"([{"role":"user","content":")" + std::string(kQuestion) + R"("}])");
    findings.asked_as_chat = true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input) throw;  // else: there is no template
    question = model.raw_prompt(kQuestion);
  }
  const GenerateResult answer = greedy(model, question, kMostAnswerTokens);
  findings.answer = model.detokenize(answer.ids);
  count(answer);
  return findings;
}

std::string ids_text(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
  return text;
}

std::string findings_text(const Findings& f, const ModelInfo& info) {
  std::string text;
  for (const std::string& graph : info.graphs) text += graph + "\n";
  text += fmt::format("\nprompt     {}\nexpected   {} ({})\ngiven      {} ({})\n", kGoldPrompt,
                      kGoldText, ids_text(f.expected), f.gold_text, ids_text(f.gold));
  text += f.gold_right() ? fmt::format("RIGHT: all {} tokens are the card's\n", f.expected.size())
                         : fmt::format("DIFFERENT: {} of {} tokens are the card's\n", f.equal(),
                                       f.expected.size());
  text += fmt::format("\nquestion   {}{}\nanswer     {}\n{}: {} {} in it\n", kQuestion,
                      f.asked_as_chat ? "" : " (as plain text: there is no chat template)",
                      f.answer, f.answer_right() ? "RIGHT" : "DIFFERENT", kAnswer,
                      f.answer_right() ? "is" : "is not");
  return text + fmt::format("\ndecode     {:.1f} ms per token over {} tokens (the card: {:.1f})\n",
                            f.milliseconds(), f.decoded, kCardMilliseconds);
}

JsonObject findings_json(const Findings& f) {
  return JsonObject()
      .ids("expected", f.expected)
      .ids("given", f.gold)
      .natural("equal", f.equal())
      .text("text", f.gold_text)
      .text("answer", f.answer)
      .boolean("answer_right", f.answer_right())
      .number("ms_per_token", f.milliseconds())
      .integer("timed_tokens", f.decoded);
}

}  // namespace

int run_command(const NpuCheckOptions& options, Output& output) {
  ModelOptions model_options;
  model_options.folder = model_folder(options.folder);
  model_options.graph = options.graph;
  model_options.graph.require_npu = options.graph.provider != "cpu";
  const GraphChoice choice = graph_choice_of(model_options.graph);
  const GraphInspection inspection = inspect_graphs(model_options.folder, choice);
  if (!options.output.json) {
    output.write(without_controls(graph_inspection_text(inspection)) + "\n");
    output.flush();
  }
  if (!inspection.problems.empty()) {
    if (options.output.json) output.write(graph_inspection_json(inspection) + "\n");
    log::write(log::Level::error, "the check did not run: see the problems above");
    return kExitFailed;
  }
  OutputOptions silent;
  silent.quiet = true;
  Model model = load_model(model_options, silent, TextNeeds::tokenizer);
  const Findings findings = check(model);
  if (options.output.json) {
    output.write(JsonObject()
                     .raw("machine", graph_inspection_json(inspection))
                     .object("check", findings_json(findings))
                     .str() +
                 "\n");
  } else {
    output.write_foreign(findings_text(findings, model.info()));
  }
  return findings.gold_right() && findings.answer_right() ? kExitOk : kExitFailed;
}

}  // namespace fathom::cli
