// The endpoints that generate nothing.
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "server/api.h"
#include "server/openai/api_error.h"
#include "server/openai/fields.h"
#include "server/openai/request.h"
#include "server/server.h"
#include "server/web_page.h"
#include "text/json_output.h"

namespace fathom::server {
namespace {

using json = nlohmann::ordered_json;

constexpr std::string_view kJson = "application/json";

const char* state_name(RunnerStatus::State state) {
  switch (state) {
    case RunnerStatus::State::loading:
      return "loading";
    case RunnerStatus::State::ready:
      return "ok";
    case RunnerStatus::State::failed:
      return "failed";
    case RunnerStatus::State::stopped:
      return "stopped";
  }
  return "";
}

// "%2F" and the like in a path.
std::string unescaped(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) {
      const char c = at < text.size() ? text[at] : '\0';
      if (c >= '0' && c <= '9') return c - '0';
      if (c >= 'a' && c <= 'f') return c - 'a' + 10;
      return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    };
    if (text[i] == '%' && digit(i + 1) >= 0 && digit(i + 2) >= 0) {
      result += static_cast<char>(digit(i + 1) * 16 + digit(i + 2));
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

}  // namespace

void Api::health(Exchanged& exchanged) {
  const RunnerStatus status = context_.runner.status();
  const bool ready = status.state == RunnerStatus::State::ready && !context_.draining.load();
  JsonObject health;
  health.text("status", context_.draining.load() ? "draining" : state_name(status.state));
  if (!status.problem.empty()) health.text("problem", status.problem);
  if (!ready) exchanged.responder.add_header("Retry-After", "1");
  exchanged.responder.send(ready ? 200 : 503, kJson, health.str());
}

void Api::metrics(Exchanged& exchanged) {
  const Model* model = context_.runner.model();
  exchanged.responder.send(
      200, "text/plain; version=0.0.4; charset=utf-8",
      context_.metrics.text(context_.runner.status(), model != nullptr ? &model->info() : nullptr));
}

std::string Api::model_json(const std::string& name) const {
  const ModelInfo& info = model().info();
  return JsonObject()
      .text("id", name)
      .text("object", "model")
      .integer("created", started_)
      .text("owned_by", "fathom")
      .text("root", info.name)
      .integer("max_model_len", info.context.tokens)
      .str();
}

void Api::models(Exchanged& exchanged) {
  std::string list = "[";
  for (const std::string& name : names()) {
    if (list.size() > 1) list += ',';
    list += model_json(name);
  }
  exchanged.responder.send(200, kJson,
                           JsonObject().text("object", "list").raw("data", list + "]").str());
}

void Api::model_by_id(Exchanged& exchanged) {
  std::string_view path = exchanged.request.path;
  if (path.ends_with('/')) path.remove_suffix(1);
  constexpr std::string_view kBefore = "/models/";
  const std::string id = unescaped(path.substr(path.find(kBefore) + kBefore.size()));
  exchanged.responder.send(200, kJson, model_json(model_name(id)));
}

// {"prompt": TEXT} or {"messages": [...]} to {"tokens": IDS, "count": N, "max_model_len": N}.
void Api::tokenize(Exchanged& exchanged) {
  const Model& model = this->model();
  const json body = parse_ordered_json(exchanged.request.body, "body");
  Fields fields(body);
  model_name(fields.text("model"));
  std::vector<int32_t> ids;
  if (const json* messages = fields.find("messages")) {
    RenderOptions options;
    options.add_generation_prompt = fields.boolean("add_generation_prompt", true);
    options.continue_final_message = fields.boolean("continue_final_message", false);
    if (const json* tools = fields.find("tools"); tools != nullptr && !tools->empty()) {
      options.tools = tools->dump();
    }
    ids = model.render(messages->dump(), options).ids;
  } else {
    const auto prompt = fields.text("prompt");
    if (!prompt) refuse_field("prompt", "neither it nor messages are given");
    ids = fields.boolean("add_special_tokens", true) ? model.raw_prompt(*prompt).ids
                                                     : model.tokenize(*prompt);
  }
  JsonObject answer;
  answer.ids("tokens", ids)
      .integer("count", static_cast<int64_t>(ids.size()))
      .integer("max_model_len", model.info().context.tokens);
  exchanged.responder.send(200, kJson, answer.str());
}

// {"tokens": IDS} to {"prompt": TEXT}.
void Api::detokenize(Exchanged& exchanged) {
  const Model& model = this->model();
  const json body = parse_ordered_json(exchanged.request.body, "body");
  Fields fields(body);
  model_name(fields.text("model"));
  const json* tokens = fields.find("tokens");
  if (tokens == nullptr) refuse_field("tokens", "they are missing");
  const std::vector<int32_t> ids = token_ids(*tokens, "tokens");
  for (const int32_t id : ids) {
    if (id >= model.info().vocab_size) {
      refuse_field("tokens", "{} is outside the vocabulary of {}", id, model.info().vocab_size);
    }
  }
  exchanged.responder.send(200, kJson, JsonObject().text("prompt", model.detokenize(ids)).str());
}

void Api::page(Exchanged& exchanged) {
  const auto page = web_page();
  if (!page) {
    exchanged.responder.send(
        200, "text/plain; charset=utf-8",
        fmt::format("This is fathom; the API is at /v1. There is no chat page: {}.\n",
                    web_page_absence()));
    return;
  }
  exchanged.responder.add_header("Content-Security-Policy", std::string(web_page_policy()));
  exchanged.responder.add_header("Referrer-Policy", "no-referrer");
  exchanged.responder.add_header("X-Frame-Options", "DENY");
  exchanged.responder.add_header("Cross-Origin-Opener-Policy", "same-origin");
  exchanged.responder.add_header("Cache-Control", "no-cache");
  exchanged.responder.send(200, "text/html; charset=utf-8", *page);
}

}  // namespace fathom::server
