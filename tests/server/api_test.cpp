// Endpoints, names, keys, origins, errors.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>

#include "server/browser.h"
#include "server/web_page.h"
#include "tests/server/running_server.h"
#include "tests/temporary_folder.h"

namespace fathom::server {
namespace {

using nlohmann::json;

class Endpoints : public SharedServer {};

TEST_F(Endpoints, HealthIs503WhileLoading) {
  std::promise<void> go;
  ServerOptions options = on_a_free_port();
  Server server(options, [&go] {
    go.get_future().wait();
    return load_demo();
  });
  Answer answer = ask(server.port(), "GET", "/health");
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.json()["status"], "loading");
  answer = ask(server.port(), "POST", "/v1/chat/completions", question("x").dump());
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.json()["error"]["code"], "loading");
  EXPECT_NE(answer.header("retry-after"), "");
  EXPECT_EQ(ask(server.port(), "GET", "/metrics").status, 200);
  go.set_value();
  server.runner().wait_loaded();
  EXPECT_EQ(ask(server.port(), "GET", "/health").status, 200);
}

TEST_F(Endpoints, AModelThatCannotBeLoadedIsToldSo) {
  Server server(on_a_free_port(), []() -> Model {
    LoadOptions options;
    options.folder = "/nonexistent";
    return Model::load(options);
  });
  server.runner().wait_loaded();
  const Answer answer = ask(server.port(), "GET", "/health");
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.json()["status"], "failed");
}

TEST_F(Endpoints, ListsModels) {
  for (const char* path : {"/v1/models", "/models", "/v1/models/"}) {
    const json list = server().get(path).json();
    EXPECT_EQ(list["object"], "list");
    ASSERT_EQ(list["data"].size(), 2u);
    EXPECT_EQ(list["data"][0]["id"], "demo");
    EXPECT_EQ(list["data"][1]["id"], "deepseek-reasoner");
    for (const json& model : list["data"]) {
      EXPECT_EQ(model["object"], "model");
      EXPECT_TRUE(model["created"].is_number_integer());
      EXPECT_TRUE(model["owned_by"].is_string());
      EXPECT_EQ(model["max_model_len"], 1024);
    }
  }
  EXPECT_EQ(server().get("/v1/models/demo").json()["id"], "demo");
  EXPECT_EQ(server().get("/models/deepseek%2Dreasoner/").json()["id"], "deepseek-reasoner");
  const Answer none = server().get("/v1/models/none");
  EXPECT_EQ(none.status, 404);
  EXPECT_EQ(none.json()["error"]["code"], "model_not_found");
}

TEST_F(Endpoints, ModelsAnswerToTheirNames) {
  ServerOptions options = on_a_free_port();
  options.aliases = {"gpt-4o", "org/r1"};
  RunningServer named(options);
  json body = question("What is 1+2?");
  for (const char* name : {"demo", "gpt-4o", "org/r1", "deepseek-reasoner"}) {
    body["model"] = name;
    const Answer answer = named.post("/v1/chat/completions", body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.json()["model"], name);
  }
  EXPECT_EQ(named.get("/v1/models/org/r1").status, 200);
  EXPECT_EQ(named.get("/v1/models/org%2Fr1").status, 200);
  body["model"] = "nope";
  const Answer nope = named.post("/v1/chat/completions", body);
  EXPECT_EQ(nope.status, 404);
  EXPECT_EQ(nope.json()["error"]["param"], "model");
}

TEST_F(Endpoints, TokenizesAndBack) {
  const std::string text = "What is 47+85? <think>";
  const json tokens = server().post("/tokenize", {{"prompt", text}}).json();
  EXPECT_EQ(tokens["count"], tokens["tokens"].size());
  const json plain =
      server().post("/tokenize", {{"prompt", text}, {"add_special_tokens", false}}).json();
  EXPECT_EQ(tokens["count"].get<int>(), plain["count"].get<int>() + 1);
  EXPECT_EQ(server().post("/detokenize", {{"tokens", plain["tokens"]}}).json()["prompt"], text);
  const json chat =
      server().post("/v1/tokenize", {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}}).json();
  EXPECT_GT(chat["count"], 2);
  EXPECT_EQ(server().post("/detokenize", {{"tokens", {-1}}}).status, 400);
  EXPECT_EQ(server().post("/detokenize", {{"tokens", {1 << 30}}}).status, 400);
  EXPECT_EQ(server().post("/detokenize", {{"tokens", "x"}}).status, 400);
  EXPECT_EQ(server().post("/tokenize", json::object()).status, 400);
}

TEST_F(Endpoints, ErrorsComeInTheEnvelope) {
  struct Case {
    std::string body;
    int status;
    json param;
  };
  const std::string chat = R"({"messages":[{"role":"user","content":"x"}],)";
  const Case cases[] = {
      {"{bad json", 400, nullptr},
      {"", 400, nullptr},
      {"[]", 400, nullptr},
      {R"({"model":"demo"})", 400, "messages"},
      {R"({"messages":[]})", 400, "messages"},
      {R"({"messages":"x"})", 400, "messages"},
      {R"({"messages":[{"role":"user"}]})", 400, "messages[0].content"},
      {R"({"messages":[{"role":"assistant","content":null}]})", 400, "messages[0].content"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]}]})",
       400, "messages[0].content[0]"},
      {R"({"model":"nope","messages":[{"role":"user","content":"x"}]})", 404, "model"},
      {R"({"model":5,"messages":[{"role":"user","content":"x"}]})", 400, "model"},
      {chat + R"("temperature":-1})", 400, "temperature"},
      {chat + R"("temperature":"warm"})", 400, "temperature"},
      {chat + R"("top_p":2})", 400, "top_p"},
      {chat + R"("top_k":1.5})", 400, "top_k"},
      {chat + R"("min_p":-1})", 400, "min_p"},
      {chat + R"("repetition_penalty":0})", 400, "repetition_penalty"},
      {chat + R"("presence_penalty":3})", 400, "presence_penalty"},
      {chat + R"("frequency_penalty":[]})", 400, "frequency_penalty"},
      {chat + R"("logit_bias":{"x":1}})", 400, "logit_bias"},
      {chat + R"("logit_bias":{"1":101}})", 400, "logit_bias"},
      {chat + R"("logit_bias":{"99999999":1}})", 400, "logit_bias"},
      {chat + R"("seed":"x"})", 400, "seed"},
      {chat + R"("seed":1.5})", 400, "seed"},
      {chat + R"("stop":5})", 400, "stop"},
      {chat + R"("stop":[1]})", 400, "stop"},
      {chat + R"("stop":["a","b","c","d","e","f","g","h","i","j","k","l","m","n","o","p","q"]})",
       400, "stop"},
      {chat + R"("n":0})", 400, "n"},
      {chat + R"("n":129})", 400, "n"},
      {chat + R"("max_tokens":0})", 400, "max_tokens"},
      {chat + R"("max_tokens":-1})", 400, "max_tokens"},
      {chat + R"("max_completion_tokens":"4"})", 400, "max_completion_tokens"},
      {chat + R"("stream":"yes"})", 400, "stream"},
      {chat + R"("stream":true,"stream_options":5})", 400, "stream_options"},
      {chat + R"("stream":true,"temperature":-1})", 400, "temperature"},
  };
  for (const Case& one : cases) {
    const Answer answer = ask(server().port(), "POST", "/v1/chat/completions", one.body);
    EXPECT_EQ(answer.status, one.status) << one.body << " " << answer.body;
    EXPECT_EQ(answer.header("content-type"), "application/json");
    const json error = answer.json()["error"];
    EXPECT_TRUE(error["message"].is_string());
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_EQ(error["param"], one.param) << one.body << " " << error;
    EXPECT_TRUE(error.contains("code"));
  }
  EXPECT_EQ(server().get("/v1/none").status, 404);
  const Answer wrong_method = server().get("/v1/chat/completions");
  EXPECT_EQ(wrong_method.status, 405);
  EXPECT_EQ(wrong_method.header("allow"), "POST, OPTIONS");
}

TEST_F(Endpoints, PromptsOfIdsStayInsideTheVocabulary) {
  const int64_t vocab = server()->runner().model()->info().vocab_size;
  for (const int64_t id : std::vector<int64_t>{-1, vocab, 129280, 2147483648}) {
    const Answer answer = server().post("/v1/completions", {{"prompt", {id}}});
    EXPECT_EQ(answer.status, 400) << id;
    EXPECT_EQ(answer.json()["error"]["param"], "prompt");
  }
  EXPECT_EQ(server().post("/v1/completions", {{"prompt", {vocab - 1}}, {"max_tokens", 1}}).status,
            200);
}

TEST(Keys, AreAskedForAndNeverLogged) {
  TemporaryFolder folder;
  ServerOptions options = on_a_free_port();
  options.api_keys = {"first-secret", "second-secret"};
  options.access_log = folder / "log";
  {
    RunningServer server(options);
    const auto status = [&](const std::string& head) {
      return server.get("/v1/models", head).status;
    };
    EXPECT_EQ(status(""), 401);
    EXPECT_EQ(status("Authorization: Bearer wrong\r\n"), 401);
    EXPECT_EQ(status("Authorization: Bearer first-secret2\r\n"), 401);
    EXPECT_EQ(status("Authorization: Bearer first-secre\r\n"), 401);
    EXPECT_EQ(status("Authorization: Bearer\r\n"), 401);
    EXPECT_EQ(status("Authorization: Basic first-secret\r\n"), 401);
    EXPECT_EQ(status("Authorization: Bearer first-secret\r\n"), 200);
    EXPECT_EQ(status("authorization: bearer second-secret\r\n"), 200);
    EXPECT_EQ(server.get("/health").status, 200);
    EXPECT_EQ(server.get("/metrics").status, 401);
    EXPECT_EQ(server.get("/none").status, 401);
    const Answer refused = server.get("/v1/models", "Authorization: Bearer wrong-secret\r\n");
    EXPECT_EQ(refused.json()["error"]["code"], "invalid_api_key");
    EXPECT_EQ(refused.header("www-authenticate"), "Bearer");
  }
  std::ifstream in(options.access_log);
  std::stringstream log;
  log << in.rdbuf();
  EXPECT_EQ(log.str().find("secret"), std::string::npos) << log.str();
  EXPECT_NE(log.str().find("\"status\":401"), std::string::npos);
}

std::string logged(const ServerOptions& options, const json& body) {
  {
    RunningServer server(options);
    server.post("/v1/chat/completions", body);
    ask(server.port(), "POST", "/v1/chat/completions", "{hidden words");
  }
  std::ifstream in(options.access_log);
  std::stringstream log;
  log << in.rdbuf();
  return log.str();
}

TEST(AccessLog, HasALinePerRequestAndPromptsOnlyWhereAskedFor) {
  TemporaryFolder folder;
  ServerOptions options = on_a_free_port();
  json body = question("hidden words");
  body["seed"] = 7;
  body["max_tokens"] = 3;
  options.access_log = folder / "without";
  const std::string without = logged(options, body);
  EXPECT_EQ(without.find("hidden"), std::string::npos) << without;
  std::istringstream lines(without);
  std::string first;
  std::getline(lines, first);
  const json line = json::parse(first);
  EXPECT_EQ(line["path"], "/v1/chat/completions");
  EXPECT_EQ(line["status"], 200);
  EXPECT_EQ(line["finish"], "length");
  EXPECT_EQ(line["completion_tokens"], 3);
  EXPECT_EQ(line["seed"], 7);
  EXPECT_TRUE(line["seconds"].is_number());
  options.access_log = folder / "with";
  options.log_prompts = true;
  EXPECT_NE(logged(options, body).find("hidden words"), std::string::npos);
}

TEST(Origins, AreRefusedUnlessAskedFor) {
  RunningServer closed;
  const std::string evil = "Origin: http://evil.example\r\n";
  const json body = question("What is 1+2?");
  const Answer refused = closed.post("/v1/chat/completions", body, evil);
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(refused.header("access-control-allow-origin"), "");
  EXPECT_EQ(ask(closed.port(), "OPTIONS", "/v1/chat/completions", "", evil)
                .header("access-control-allow-origin"),
            "");
  // Its own page may.
  EXPECT_EQ(closed.post("/v1/chat/completions", body, "Origin: http://127.0.0.1\r\n").status, 200);
  // A name of elsewhere that leads here does not make a page its own.
  Client rebound(closed.port());
  rebound.send(
      "GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nSec-Fetch-Site: same-origin\r\n\r\n");
  EXPECT_EQ(rebound.read_answer().status, 403);

  ServerOptions options = on_a_free_port();
  options.origins = {"http://localhost:3000"};
  options.api_keys = {"key"};
  RunningServer open(options);
  const std::string good = "Origin: http://localhost:3000\r\n";
  const Answer preflight =
      ask(open.port(), "OPTIONS", "/v1/chat/completions", "",
          good +
              "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: "
              "authorization,content-type,x-stainless-lang,x-stainless-helper-method\r\n");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.header("access-control-allow-origin"), "http://localhost:3000");
  EXPECT_NE(preflight.header("access-control-allow-methods").find("POST"), std::string::npos);
  EXPECT_NE(preflight.header("access-control-allow-headers").find("x-stainless-helper-method"),
            std::string::npos);
  // On errors and streams too.
  json streamed = body;
  streamed["stream"] = true;
  const std::string key = "Authorization: Bearer key\r\n";
  const std::pair<Answer, int> answers[] = {
      {open.post("/v1/chat/completions", body, good), 401},
      {open.post("/v1/chat/completions", json::object(), good + key), 400},
      {open.post("/v1/chat/completions", body, good + key), 200},
      {open.post("/v1/chat/completions", streamed, good + key), 200}};
  for (const auto& [answer, status] : answers) {
    EXPECT_EQ(answer.status, status) << answer.body;
    EXPECT_EQ(answer.header("access-control-allow-origin"), "http://localhost:3000");
  }
  EXPECT_EQ(
      open.post("/v1/chat/completions", body, evil + key).header("access-control-allow-origin"),
      "");
}

TEST(Origins, NamesOfThisMachine) {
  for (const char* host :
       {"localhost", "localhost:80", "127.0.0.1", "127.1.2.3:8080", "[::1]:80"}) {
    EXPECT_TRUE(names_this_machine(host)) << host;
  }
  for (const char* host :
       {"", "localhost.evil.example", "127.evil.example", "evil:127.0.0.1", "10.0.0.1", "[::2]"}) {
    EXPECT_FALSE(names_this_machine(host)) << host;
  }
}

TEST_F(Endpoints, ThePageComesWithItsPolicy) {
  const Answer answer = server().get("/");
  EXPECT_EQ(answer.status, 200);
  if (const auto page = web_page()) {
    EXPECT_EQ(answer.body, *page);
    EXPECT_EQ(answer.header("content-type"), "text/html; charset=utf-8");
    EXPECT_EQ(answer.header("content-security-policy"), web_page_policy());
    EXPECT_EQ(answer.header("x-frame-options"), "DENY");
  } else {
    EXPECT_NE(answer.body.find(web_page_absence()), std::string::npos);
  }
  EXPECT_EQ(server().post("/", {}).status, 405);
}

TEST_F(Endpoints, MetricsAreWhatPrometheusReads) {
  server().post("/v1/chat/completions", question("What is 2+3?"));
  const Answer answer = server().get("/metrics");
  EXPECT_TRUE(answer.header("content-type").starts_with("text/plain; version=0.0.4"));
  std::istringstream lines(answer.body);
  std::string line, type_of;
  std::map<std::string, int> types;
  while (std::getline(lines, line)) {
    if (line.starts_with("# TYPE ")) {
      type_of = line.substr(7, line.rfind(' ') - 7);
      EXPECT_EQ(++types[type_of], 1) << line;
    } else if (!line.starts_with("# HELP ")) {
      EXPECT_TRUE(line.starts_with(type_of)) << line;
      EXPECT_NO_THROW(std::stod(line.substr(line.rfind(' ') + 1))) << line;
    }
  }
  for (const char* name :
       {"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total", "vllm:time_to_first_token_seconds",
        "vllm:inter_token_latency_seconds", "vllm:e2e_request_latency_seconds",
        "fathom:expert_hits_total", "fathom:disk_read_bytes_total",
        "vllm:spec_decode_num_accepted_tokens_total"}) {
    EXPECT_EQ(types.count(name), 1u) << name;
  }
  EXPECT_GT(server().metric("vllm:generation_tokens_total"), 0);
  EXPECT_GT(server().metric("vllm:time_to_first_token_seconds_count"), 0);
}

}  // namespace
}  // namespace fathom::server
