// Connections that are slow, silent, rude or gone: none of them harms the others.
#include <gtest/gtest.h>

#include <random>

#include "tests/server/running_server.h"

namespace fathom::server {
namespace {

using std::chrono::milliseconds;

constexpr const char* kAborted =
    "vllm:request_success_total{model_name=\"demo\",finished_reason=\"abort\"";

// Limits so short that a test need not wait for the real ones.
ServerOptions impatient() {
  ServerOptions options = on_a_free_port();
  options.limits.header = milliseconds(200);
  options.limits.body = milliseconds(400);
  options.limits.idle = milliseconds(300);
  options.limits.body_bytes = 100'000;
  options.connections = 8;
  return options;
}

bool serves(const RunningServer& server) {
  const Answer answer = server.post("/v1/chat/completions", question("What is 47+85?"));
  return answer.status == 200;
}

TEST(Transport, KeepsConnectionsAndTakesPipelinedRequests) {
  RunningServer server;
  Client client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.request("GET", "/health");
    EXPECT_EQ(client.read_answer().status, 200);
  }
  client.send(
      "GET /health HTTP/1.1\r\nHost: a\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"
      "GET /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_EQ(client.read_answer().json()["object"], "list");
  const Answer last = client.read_answer();
  EXPECT_EQ(last.status, 404);
  EXPECT_EQ(last.header("connection"), "close");
  EXPECT_TRUE(client.closed());
}

TEST(Transport, AnswersHeadAndHttp10AndExpect) {
  RunningServer server;
  Client head(server.port());
  head.send("HEAD /health HTTP/1.1\r\nHost: a\r\n\r\nGET /health HTTP/1.0\r\n\r\n");
  while (head.read_more()) {
  }
  const std::string& text = head.buffer();
  const size_t second = text.find("HTTP/1.1 200", 5);
  ASSERT_NE(second, std::string::npos) << text;
  EXPECT_TRUE(text.substr(0, second).ends_with("\r\n\r\n")) << "HEAD has a body: " << text;
  EXPECT_TRUE(text.ends_with("{\"status\":\"ok\"}")) << text;

  const std::string body = question("What is 1+2?").dump();
  Client expecting(server.port());
  expecting.send(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n");
  while (expecting.buffer().find("\r\n\r\n") == std::string::npos && expecting.read_more()) {
  }
  EXPECT_TRUE(expecting.buffer().starts_with("HTTP/1.1 100 ")) << expecting.buffer();
  expecting.buffer().clear();
  expecting.send(body);
  EXPECT_EQ(expecting.read_answer().status, 200);

  // An old client gets a stream without chunks, ended by closing.
  Client old(server.port());
  nlohmann::json streamed = question("What is 1+2?");
  streamed["stream"] = true;
  const std::string old_body = streamed.dump();
  old.send("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: " +
           std::to_string(old_body.size()) + "\r\n\r\n" + old_body);
  const Answer answer = old.read_answer();
  EXPECT_TRUE(events_of(answer.body).done) << answer.body;
}

TEST(Transport, CutsOffTheSlow) {
  RunningServer server(impatient());
  Client slow(server.port());
  slow.send("GET /health HTTP/1.1\r\nHo");
  EXPECT_EQ(slow.read_answer().status, 408);
  EXPECT_TRUE(slow.closed());

  // A byte now and then does not help.
  Client dripping(server.port());
  const std::string request = "GET /health HTTP/1.1\r\nX: " + std::string(200, 'x');
  for (const char c : request) {
    if (!dripping.send(std::string(1, c)) ||
        dripping.read_more(SocketClock::now() + milliseconds(5))) {
      break;
    }
  }
  EXPECT_EQ(dripping.read_answer().status, 408);

  Client body(server.port());
  body.send("POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_EQ(body.read_answer().status, 408);

  // Nothing asked, nothing answered.
  Client idle(server.port());
  EXPECT_TRUE(idle.closed());
  EXPECT_TRUE(serves(server));
}

TEST(Transport, RefusesTooManyConnectionsAndServesAgain) {
  RunningServer server(impatient());
  std::vector<std::unique_ptr<Client>> crowd;
  for (int i = 0; i < 8; ++i) {
    crowd.push_back(std::make_unique<Client>(server.port()));
    crowd.back()->send("GET /health HTTP/1.1\r\nHost: a\r\n");  // never ends
  }
  Client late(server.port());
  const Answer answer = late.read_answer();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.json()["error"]["code"], "too_many_connections");
  for (const auto& one : crowd) EXPECT_EQ(one->read_answer().status, 408);
  crowd.clear();
  // Their threads take a moment to end.
  bool again = serves(server);
  for (int i = 0; i < 6000 && !again; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
    again = serves(server);
  }
  EXPECT_TRUE(again);
}

TEST(Transport, RefusesOversizedRequests) {
  RunningServer server(impatient());
  Client client(server.port());
  client.send("POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 100001\r\n\r\n");
  const Answer answer = client.read_answer();
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(answer.json()["error"]["type"], "invalid_request_error");
  // One that is already on its way is read away, so that the answer arrives.
  EXPECT_EQ(ask(server.port(), "POST", "/tokenize", std::string(300'000, ' ')).status, 413);
  EXPECT_TRUE(serves(server));
}

TEST(Transport, NoticesAClientThatLeaves) {
  ServerOptions options = on_a_free_port();
  options.runner.parallel = 1;
  RunningServer server(std::move(options));
  nlohmann::json endless = question("What is 47+85?");
  endless["ignore_eos"] = true;
  endless["max_tokens"] = 900;
  constexpr int kSamples = 16;  // one after another: nobody waits for their end
  endless["n"] = kSamples;
  double gone = 0;
  for (const bool stream : {true, false}) {
    endless["stream"] = stream;
    Client running(server.port());
    running.request("POST", "/v1/chat/completions", endless.dump());
    while (server->runner().in_work() < kSamples) std::this_thread::yield();
    // The second one waits behind the first; it leaves first.
    Client waiting(server.port());
    waiting.request("POST", "/v1/chat/completions", endless.dump());
    while (server->runner().in_work() <= kSamples) std::this_thread::yield();
    waiting.close();
    EXPECT_TRUE(server.reaches(kAborted, gone + kSamples));
    EXPECT_GT(server->runner().in_work(), 0) << "the one that is still there was harmed";
    running.close();
    ASSERT_TRUE(server.becomes_idle());
    gone = server.metric(kAborted);
    EXPECT_GT(gone, kSamples);
  }
  EXPECT_TRUE(serves(server));
}

TEST(Transport, CutsOffAReaderWhoTakesNothing) {
  ServerOptions options = on_a_free_port();
  options.limits.waiting_bytes = 2000;  // less than a few tokens take
  options.limits.write = milliseconds(100);
  RunningServer server(std::move(options));
  nlohmann::json endless = question("What is 47+85?");
  endless["ignore_eos"] = true;
  endless["stream"] = true;
  endless["n"] = 64;
  endless["max_tokens"] = 900;
  Client client(server.port());
  client.request("POST", "/v1/chat/completions", endless.dump());
  EXPECT_TRUE(server.reaches(kAborted, 1));
  EXPECT_TRUE(server.becomes_idle());
  EXPECT_TRUE(serves(server));
}

// Well-formed ones, broken in a few places, and noise.
std::string malformed_request(std::mt19937_64& random) {
  const auto pick = [&random](size_t count) { return static_cast<size_t>(random() % count); };
  if (pick(20) == 0) {
    std::string noise(pick(300), '\0');
    for (char& c : noise) c = static_cast<char>(random());
    return noise;
  }
  static const char* kBodies[] = {
      R"({"messages":[{"role":"user","content":"x"}],"max_tokens":2})",
      R"({"prompt":"x","max_tokens":1,"stream":true})",
      R"({"prompt":[1,2,3],"logit_bias":{"5":1},"stop":["a","b"],"max_tokens":1})",
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"n":2,"max_tokens":1})",
      R"({"tokens":[1,2,3]})",
      "[[[[[[",
      R"({"prompt":"\ud800"})",
      "\xff\xfe",
      ""};
  static const char* kPaths[] = {"/v1/chat/completions",
                                 "/v1/completions",
                                 "/tokenize",
                                 "/detokenize",
                                 "/v1/models/%zz",
                                 "/metrics",
                                 "/",
                                 "/../etc",
                                 "*"};
  static const char* kMethods[] = {"POST", "POST", "POST", "GET", "OPTIONS", "DELETE", "get"};
  static const char* kHeads[] = {"",
                                 "Transfer-Encoding: chunked\r\n",
                                 "Connection: close\r\n",
                                 "Expect: 100-continue\r\n",
                                 "Content-Length: 3\r\n",
                                 "Authorization: Bearer \xff\r\n"};
  const std::string body = kBodies[pick(std::size(kBodies))];
  std::string request = std::string(kMethods[pick(std::size(kMethods))]) + " " +
                        kPaths[pick(std::size(kPaths))] + " HTTP/1.1\r\nHost: a\r\n" +
                        kHeads[pick(std::size(kHeads))] +
                        "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  for (size_t changes = pick(4); changes > 0 && !request.empty(); --changes) {
    const size_t at = pick(request.size());
    switch (pick(4)) {
      case 0:
        request[at] = static_cast<char>(random());
        break;
      case 1:
        request.erase(at, pick(8));
        break;
      case 2:
        request.insert(at, request.substr(pick(request.size()), pick(20)));
        break;
      default:
        request.resize(at + 1);
    }
  }
  return request;
}

TEST(Transport, OutlivesMalformedRequests) {
  ServerOptions options = on_a_free_port();
  options.limits.header = milliseconds(50);
  options.limits.body = milliseconds(50);
  options.limits.idle = milliseconds(50);
  RunningServer server(std::move(options));
  constexpr uint64_t kSeed = 6;
  constexpr int kRequests = 2000;
  std::mt19937_64 random(kSeed);
  std::map<int, int> statuses;
  for (int i = 0; i < kRequests; ++i) {
    Client client(server.port());
    client.send(malformed_request(random));
    if (i % 3 == 0) {  // does not wait for an answer
      client.close();
      continue;
    }
    if (i % 50 == 0) {  // waits until it is cut off
      while (client.read_more()) {
      }
      continue;
    }
    client.read_more(SocketClock::now() + milliseconds(5));
    if (const std::string& text = client.buffer(); text.size() > 12) {
      ++statuses[std::stoi(text.substr(9, 3))];
    }
  }
  for (const auto& [status, count] : statuses) {
    EXPECT_NE(status, 500) << count << " answers";
  }
  EXPECT_GT(statuses[400], 200);
  EXPECT_TRUE(server.becomes_idle());
  EXPECT_TRUE(serves(server));
}

}  // namespace
}  // namespace fathom::server
