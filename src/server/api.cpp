#include "server/api.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <new>
#include <random>

#include "base/error.h"
#include "base/log.h"
#include "server/browser.h"
#include "server/openai/api_error.h"
#include "server/server.h"
#include "text/json_output.h"

namespace fathom::server {
namespace {

constexpr std::string_view kJson = "application/json";

std::mt19937_64& random_source() {
  thread_local std::mt19937_64 source = [] {
    std::random_device device;
    std::seed_seq seeds{device(), device(), device(), device()};
    return std::mt19937_64(seeds);
  }();
  return source;
}

// Takes as long for every wrong key of a length.
bool same_secret(std::string_view given, std::string_view key) {
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const char other = key.empty() ? '\0' : key[i % key.size()];
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(other);
  }
  return difference == 0;
}

std::string_view bearer(const std::string& header) {
  constexpr std::string_view kScheme = "bearer ";
  if (header.size() < kScheme.size()) return "";
  for (size_t i = 0; i < kScheme.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(header[i])) != kScheme[i]) return "";
  }
  std::string_view key = std::string_view(header).substr(kScheme.size());
  while (key.starts_with(' ')) key.remove_prefix(1);
  return key;
}

}  // namespace

std::string random_id() {
  const uint64_t high = random_source()();
  const uint64_t low = random_source()();
  return fmt::format("{:016x}{:08x}", high, low & 0xffffffff);
}

// Whole in every JSON reader.
uint64_t random_seed() { return random_source()() >> 11; }

Api::Api(ApiContext context)
    : context_(context), started_(static_cast<int64_t>(std::time(nullptr))) {}

const Api::Route* Api::find_route(std::string_view path) {
  static const std::array<Route, 9> kRoutes = {{
      {"/chat/completions", "POST", &Api::chat_completions, false},
      {"/completions", "POST", &Api::completions, false},
      {"/models", "GET", &Api::models, false},
      {"/models/{id}", "GET", &Api::model_by_id, false},
      {"/tokenize", "POST", &Api::tokenize, false},
      {"/detokenize", "POST", &Api::detokenize, false},
      {"/health", "GET", &Api::health, true},
      {"/metrics", "GET", &Api::metrics, false},
      {"/", "GET", &Api::page, true},
  }};
  if (path.starts_with("/v1/")) path.remove_prefix(3);
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (path.starts_with("/models/")) path = "/models/{id}";
  const auto at = std::find_if(kRoutes.begin(), kRoutes.end(),
                               [path](const Route& route) { return route.path == path; });
  return at == kRoutes.end() ? nullptr : &*at;
}

// Messages about what was asked may quote it, and prompts are not logged.
std::string Api::loggable(const ApiError& error) const {
  if (context_.options.log_prompts || error.status() >= 500) return error.what();
  return fmt::format("{} {}", error.param().value_or("request"), error.code().value_or("refused"));
}

void Api::handle(HttpRequest& request, Responder& responder, const Origin& origin) noexcept {
  const auto began = std::chrono::steady_clock::now();
  try {
    AccessRecord record;
    record.request_id = random_id();
    record.peer = origin.peer;
    record.method = request.method;
    record.path = request.path;
    record.bytes_in = request.body.size();
    responder.add_header("X-Request-Id", record.request_id);
    responder.add_header("X-Content-Type-Options", "nosniff");
    Exchanged exchanged{request, responder, record};
    std::string counted_path = "other";
    const auto answer_error = [&](const ApiError& error) {
      record.problem = loggable(error);
      if (responder.started()) {  // an error after a stream's beginning: the stream tells it
        responder.close_after();
        return;
      }
      if (error.status() == 401) responder.add_header("WWW-Authenticate", "Bearer");
      if (error.status() == 503) responder.add_header("Retry-After", "5");
      responder.send(error.status(), kJson, error.body());
    };
    try {
      if (origin.problem != nullptr) {
        throw ApiError(origin.problem->status(), origin.problem->what(), {});
      }
      route(exchanged, &counted_path);
    } catch (const Error& error) {
      answer_error(api_error_of(error));
    } catch (const std::bad_alloc&) {
      answer_error({503, "out of memory", {{}, "out_of_memory"}});
    } catch (const std::exception& error) {
      answer_error({500, error.what(), {{}, "internal_error"}});
    }
    record.status = responder.status();
    record.bytes_out = responder.bytes();
    record.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    context_.metrics.request_finished(counted_path, record.status, record.seconds);
    context_.log.write(record);
  } catch (const std::exception& error) {
    responder.close_after();
    log::warning("a request is given up: {}", error.what());
  }
}

void Api::route(Exchanged& exchanged, std::string* counted_path) {
  HttpRequest& request = exchanged.request;
  const Route* route = find_route(request.path);
  if (route != nullptr) *counted_path = std::string(route->path);
  add_cors(request, exchanged.responder);
  if (request.method == "OPTIONS") return answer_options(exchanged);
  check_browser(request);
  if (route == nullptr || !route->open) check_key(request);
  if (route == nullptr) {
    throw ApiError(404, fmt::format("there is no {}", request.path), {{}, "not_found"});
  }
  const bool fits =
      request.method == route->method || (request.method == "HEAD" && route->method == "GET");
  if (!fits) {
    exchanged.responder.add_header("Allow", std::string(route->method) + ", OPTIONS");
    throw ApiError(405, fmt::format("{} takes {}", request.path, route->method),
                   {{}, "method_not_allowed"});
  }
  if (context_.options.log_prompts) exchanged.record.prompt = request.body;
  (this->*route->handler)(exchanged);
}

void Api::check_key(const HttpRequest& request) const {
  const auto& keys = context_.options.api_keys;
  if (keys.empty()) return;
  const std::string* header = request.header("authorization");
  const std::string_view given = header != nullptr ? bearer(*header) : "";
  bool known = false;
  for (const std::string& key : keys) known = same_secret(given, key) || known;
  if (given.empty() || !known) {
    throw ApiError(401,
                   given.empty() ? "an API key is needed: Authorization: Bearer KEY"
                                 : "this API key is not known",
                   {{}, "invalid_api_key"});
  }
}

// Where no key is asked for, any page that a person on this machine opens could use the model
// behind their back: pages of elsewhere are refused, and so are names of elsewhere that lead here.
void Api::check_browser(const HttpRequest& request) const {
  if (!context_.options.api_keys.empty()) return;
  const std::string* origin = request.header("origin");
  const std::string* site = request.header("sec-fetch-site");
  if (origin == nullptr && site == nullptr) return;
  const std::string* host = request.header("host");
  const std::string host_text = host != nullptr ? *host : "";
  if (origin != nullptr && allows_origin(context_.options.origins, *origin)) return;
  const bool own_page = origin == nullptr || origin_is(*origin, host_text);
  const bool own_name =
      !context_.loopback || names_this_machine(host_text) || context_.options.host == host_text;
  if (own_page && own_name) return;
  throw ApiError(403,
                 fmt::format("pages of {} may not call this server (see --cors)",
                             origin != nullptr ? *origin : host_text),
                 {{}, "origin_not_allowed"});
}

void Api::add_cors(const HttpRequest& request, Responder& responder) const {
  const std::string* origin = request.header("origin");
  if (context_.options.origins.empty() || origin == nullptr) return;
  responder.add_header("Vary", "Origin");
  if (!allows_origin(context_.options.origins, *origin)) return;
  responder.add_header("Access-Control-Allow-Origin", *origin);
  responder.add_header("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
}

void Api::answer_options(Exchanged& exchanged) const {
  exchanged.responder.add_header("Allow", "GET, POST, OPTIONS");
  const std::string* origin = exchanged.request.header("origin");
  if (origin != nullptr && allows_origin(context_.options.origins, *origin)) {
    exchanged.responder.add_header("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    const std::string* wanted = exchanged.request.header("access-control-request-headers");
    exchanged.responder.add_header("Access-Control-Allow-Headers",
                                   wanted != nullptr ? *wanted : "authorization, content-type");
    exchanged.responder.add_header("Access-Control-Max-Age", "600");
  }
  exchanged.responder.send(204, "", "");
}

const Model& Api::model() const {
  if (const Model* model = context_.runner.model()) return *model;
  const RunnerStatus status = context_.runner.status();
  switch (status.state) {
    case RunnerStatus::State::failed:
      throw ApiError(503, "the model could not be loaded: " + status.problem, {{}, "model_failed"});
    case RunnerStatus::State::stopped:
      throw ApiError(503, "the server is going down", {{}, "shutting_down"});
    default:
      throw ApiError(503, "the model is loading", {{}, "loading"});
  }
}

std::vector<std::string> Api::names() const {
  std::vector<std::string> names = {model().info().name};
  const auto add = [&names](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const std::string& alias : context_.options.aliases) add(alias);
  add("deepseek-reasoner");
  return names;
}

std::string Api::model_name(const std::optional<std::string>& asked) const {
  const std::vector<std::string> known = names();
  if (!asked) return known.front();
  if (std::find(known.begin(), known.end(), *asked) != known.end()) return *asked;
  throw ApiError(404, fmt::format("model: there is no '{}' here, only '{}'", *asked, known.front()),
                 {"model", "model_not_found"});
}

}  // namespace fathom::server
