// Which path does what, and who may ask for it.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/access_log.h"
#include "server/http_connection.h"
#include "server/http_message.h"
#include "server/metrics.h"
#include "server/model_runner.h"

namespace fathom::server {

class ApiError;
struct ServerOptions;

struct ApiContext {
  const ServerOptions& options;
  bool loopback;  // only this machine can connect
  const std::atomic<bool>& draining;
  ModelRunner& runner;
  Metrics& metrics;
  AccessLog& log;
};

// A request that is being answered.
struct Exchanged {
  HttpRequest& request;
  Responder& responder;
  AccessRecord& record;
};

class Api {
 public:
  explicit Api(ApiContext context);

  struct Origin {
    const std::string& peer;
    const HttpError* problem;  // why the request could not be read
  };
  // Answers whatever it is; throws nothing.
  void handle(HttpRequest& request, Responder& responder, const Origin& origin) noexcept;

  // The model; ApiError(503) while it is loading or where it could not be loaded.
  const Model& model() const;
  // What the model is called in an answer to a request that calls it so; ApiError(404).
  std::string model_name(const std::optional<std::string>& asked) const;
  const ApiContext& context() const { return context_; }

 private:
  using Handler = void (Api::*)(Exchanged&);
  struct Route {
    std::string_view path;  // as metrics count it
    std::string_view method;
    Handler handler;
    bool open;  // without a key
  };
  static const Route* find_route(std::string_view path);

  void route(Exchanged& exchanged, std::string* counted_path);
  std::string loggable(const ApiError& error) const;
  void check_key(const HttpRequest& request) const;
  void check_browser(const HttpRequest& request) const;
  void add_cors(const HttpRequest& request, Responder& responder) const;
  void answer_options(Exchanged& exchanged) const;

  void health(Exchanged& exchanged);
  void metrics(Exchanged& exchanged);
  void models(Exchanged& exchanged);
  void model_by_id(Exchanged& exchanged);
  void tokenize(Exchanged& exchanged);
  void detokenize(Exchanged& exchanged);
  void page(Exchanged& exchanged);
  void chat_completions(Exchanged& exchanged);
  void completions(Exchanged& exchanged);

  std::string model_json(const std::string& name) const;
  std::vector<std::string> names() const;

  ApiContext context_;
  int64_t started_;  // seconds since 1970: the model's "created"
};

// A request's own id, 24 random hexadecimal digits.
std::string random_id();
uint64_t random_seed();

}  // namespace fathom::server
