#include "cli/chat_session.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "cli/json_output.h"

namespace fathom::cli {
namespace {

using nlohmann::json;

const char* think_name(ThinkMode think) {
  switch (think) {
    case ThinkMode::on:
      return "on";
    case ThinkMode::off:
      return "off";
    case ThinkMode::hide:
      return "hide";
  }
  return "";
}

std::string text_list(const std::vector<std::string>& texts) {
  std::string list = "[";
  for (const std::string& text : texts) list += (list.size() > 1 ? "," : "") + json_string(text);
  return list + "]";
}

std::string bias_list(const std::vector<std::pair<int32_t, double>>& bias) {
  std::string list = "[";
  for (const auto& [id, value] : bias) {
    list += fmt::format("{}[{},{}]", list.size() > 1 ? "," : "", id, json_number(value));
  }
  return list + "]";
}

JsonObject ask_json(const AskOptions& ask) {
  const SamplingRequest& s = ask.sampling;
  JsonObject object;
  object.natural("seed", s.seed);
  object.number("temperature", s.temperature);
  if (s.top_k) object.integer("top_k", *s.top_k);
  object.number("top_p", s.top_p)
      .number("min_p", s.min_p)
      .number("repetition_penalty", s.repetition_penalty)
      .number("presence_penalty", s.presence_penalty)
      .number("frequency_penalty", s.frequency_penalty)
      .raw("logit_bias", bias_list(s.logit_bias))
      .raw("stop", text_list(ask.stop))
      .ids("stop_ids", ask.stop_ids)
      .integer("max_tokens", ask.max_tokens)
      .boolean("ignore_eos", ask.ignore_eos);
  if (ask.reasoning_budget) object.integer("reasoning_budget", *ask.reasoning_budget);
  if (ask.format.kind == OutputFormat::Kind::json_object) object.boolean("json_object", true);
  if (ask.format.kind == OutputFormat::Kind::json_schema) {
    object.text("json_schema", ask.format.schema);
  }
  return object;
}

template <typename T>
std::optional<T> optional_of(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return std::nullopt;
  return found->get<T>();
}

AskOptions ask_of(const json& object) {
  AskOptions ask;
  SamplingRequest& s = ask.sampling;
  s.seed = object.at("seed").get<uint64_t>();
  ask.seed = s.seed;
  s.temperature = optional_of<double>(object, "temperature");
  s.top_k = optional_of<int64_t>(object, "top_k");
  s.top_p = optional_of<double>(object, "top_p");
  s.min_p = optional_of<double>(object, "min_p");
  s.repetition_penalty = optional_of<double>(object, "repetition_penalty");
  s.presence_penalty = object.at("presence_penalty").get<double>();
  s.frequency_penalty = object.at("frequency_penalty").get<double>();
  s.logit_bias = object.at("logit_bias").get<std::vector<std::pair<int32_t, double>>>();
  ask.stop = object.at("stop").get<std::vector<std::string>>();
  ask.stop_ids = object.at("stop_ids").get<std::vector<int32_t>>();
  ask.max_tokens = object.at("max_tokens").get<int64_t>();
  ask.ignore_eos = object.at("ignore_eos").get<bool>();
  ask.reasoning_budget = optional_of<int64_t>(object, "reasoning_budget");
  if (optional_of<bool>(object, "json_object")) ask.format.kind = OutputFormat::Kind::json_object;
  if (const auto schema = optional_of<std::string>(object, "json_schema")) {
    ask.format.kind = OutputFormat::Kind::json_schema;
    ask.format.schema = *schema;
  }
  return ask;
}

ThinkMode think_of(const std::string& name) {
  for (const ThinkMode think : {ThinkMode::on, ThinkMode::off, ThinkMode::hide}) {
    if (name == think_name(think)) return think;
  }
  fail_input("think: '{}' is none of on, off, hide", name);
}

ChatState state_of(const json& note, const std::vector<int32_t>& ids) {
  if (optional_of<std::string>(note, "kind") != "chat") fail_input("kind: this is no chat");
  ChatState state;
  state.system = optional_of<std::string>(note, "system");
  state.messages = note.at("messages").dump();
  state.think = think_of(note.at("think").get<std::string>());
  state.ask = ask_of(note.at("ask"));
  state.choice = note.at("choice").get<uint64_t>();
  const auto open = note.find("open");
  if (open == note.end()) return state;
  OpenAnswer& answer = state.open.emplace();
  const auto prompt_tokens = open->at("prompt_tokens").get<size_t>();
  if (prompt_tokens > ids.size()) fail_input("prompt_tokens: there are {} ids", ids.size());
  const auto middle = ids.begin() + static_cast<std::ptrdiff_t>(prompt_tokens);
  answer.prompt.ids.assign(ids.begin(), middle);
  answer.prompt.opens_thought = open->at("opens_thought").get<bool>();
  answer.ids.assign(middle, ids.end());
  answer.content = open->at("content").get<std::string>();
  answer.ask = ask_of(open->at("ask"));
  answer.choice = open->at("choice").get<uint64_t>();
  answer.stopped = open->at("stopped").get<bool>();
  return state;
}

}  // namespace

std::string chat_note(const ChatState& state) {
  JsonObject note;
  note.text("kind", "chat")
      .text_or_null("system", state.system)
      .raw("messages", state.messages)
      .text("think", think_name(state.think))
      .object("ask", ask_json(state.ask))
      .natural("choice", state.choice);
  if (state.open) {
    note.object("open", JsonObject()
                            .natural("prompt_tokens", state.open->prompt.ids.size())
                            .boolean("opens_thought", state.open->prompt.opens_thought)
                            .text("content", state.open->content)
                            .object("ask", ask_json(state.open->ask))
                            .natural("choice", state.open->choice)
                            .boolean("stopped", state.open->stopped));
  }
  return note.str();
}

ChatState parse_chat_note(const Session& session) {
  try {
    return state_of(parse_json(session.note(), "the note"), session.ids());
  } catch (const json::exception& error) {
    fail_input("{}: its note is none of a chat: {}", session.path(), error.what());
  } catch (const Error& error) {
    fail_input("{}: its note is none of a chat: {}", session.path(), error.what());
  }
}

void take_over(AskOptions* given, const AskOptions& stored) {
  SamplingRequest& s = given->sampling;
  const SamplingRequest& t = stored.sampling;
  const auto fill = [](auto* mine, const auto& theirs) {
    if (!*mine) *mine = theirs;
  };
  fill(&given->seed, stored.seed);
  fill(&s.temperature, t.temperature);
  fill(&s.top_k, t.top_k);
  fill(&s.top_p, t.top_p);
  fill(&s.min_p, t.min_p);
  fill(&s.repetition_penalty, t.repetition_penalty);
  if (s.presence_penalty == 0) s.presence_penalty = t.presence_penalty;
  if (s.frequency_penalty == 0) s.frequency_penalty = t.frequency_penalty;
  if (s.logit_bias.empty()) s.logit_bias = t.logit_bias;
  if (given->stop.empty()) given->stop = stored.stop;
  if (given->stop_ids.empty()) given->stop_ids = stored.stop_ids;
  if (given->max_tokens == 0) given->max_tokens = stored.max_tokens;
  given->ignore_eos = given->ignore_eos || stored.ignore_eos;
  fill(&given->reasoning_budget, stored.reasoning_budget);
  if (given->format.kind == OutputFormat::Kind::text) given->format = stored.format;
}

}  // namespace fathom::cli
