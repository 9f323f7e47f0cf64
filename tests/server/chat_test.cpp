// Answers: whole and streamed, alone and among others.
#include <gtest/gtest.h>

#include "tests/server/running_server.h"

namespace fathom::server {
namespace {

using nlohmann::json;

class Chat : public SharedServer {
 protected:
  static Answer chat(const json& body) { return server().post("/v1/chat/completions", body); }
  static Events stream(json body, const char* path = "/v1/chat/completions") {
    body["stream"] = true;
    const Answer answer = server().post(path, body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.header("content-type"), "text/event-stream; charset=utf-8");
    EXPECT_TRUE(answer.whole);
    Events events = events_of(answer.body);
    EXPECT_TRUE(events.done);
    return events;
  }
};

TEST_F(Chat, AnswersWithThoughtAndAnswerApart) {
  const json answer = chat(question("What is 47+85?")).json();
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_TRUE(answer["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_TRUE(answer["created"].is_number_integer());
  ASSERT_EQ(answer["choices"].size(), 1u);
  const json& choice = answer["choices"][0];
  EXPECT_EQ(choice["index"], 0);
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_NE(choice["message"]["content"].get<std::string>().find("132"), std::string::npos);
  EXPECT_NE(choice["message"]["reasoning_content"], "");
  const json& usage = answer["usage"];
  EXPECT_EQ(usage["total_tokens"],
            usage["prompt_tokens"].get<int>() + usage["completion_tokens"].get<int>());
  EXPECT_GT(usage["completion_tokens_details"]["reasoning_tokens"], 0);
  EXPECT_LT(usage["completion_tokens_details"]["reasoning_tokens"], usage["completion_tokens"]);
  EXPECT_TRUE(usage["prompt_tokens_details"]["cached_tokens"].is_number_integer());
  EXPECT_EQ(server().post("/chat/completions", question("What is 47+85?")).json()["choices"],
            answer["choices"]);
}

TEST_F(Chat, StreamsWhatTheWholeAnswerHas) {
  json body = question("What is 47+85?");
  const json whole = chat(body).json();
  body["stream_options"] = {{"include_usage", true}};
  const Events events = stream(body);
  const Joined joined = join(events);
  EXPECT_EQ(joined.content, whole["choices"][0]["message"]["content"]);
  EXPECT_EQ(joined.reasoning, whole["choices"][0]["message"]["reasoning_content"]);
  EXPECT_EQ(joined.finish_reason, "stop");
  EXPECT_EQ(joined.roles, 1);
  EXPECT_EQ(events.chunks.front()["choices"][0]["delta"]["role"], "assistant");
  const json& last = events.chunks.back();
  EXPECT_TRUE(last["choices"].empty());
  EXPECT_EQ(last["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]);
  const json& before_last = events.chunks[events.chunks.size() - 2];
  EXPECT_EQ(before_last["choices"][0]["delta"], json::object());
  for (const json& chunk : events.chunks) {
    for (const char* name : {"id", "created", "model"}) EXPECT_EQ(chunk[name], last[name]);
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    EXPECT_EQ(chunk.contains("usage"), &chunk == &last);
  }
  body.erase("stream_options");
  for (const json& chunk : stream(body).chunks) EXPECT_FALSE(chunk["choices"].empty());
}

TEST_F(Chat, LimitsCountThoughtAndAnswerTogether) {
  json body = question("What is 47+85?");
  body["max_completion_tokens"] = 4;
  const auto tokens = [](const json& answer) { return answer["usage"]["completion_tokens"]; };
  json answer = chat(body).json();
  EXPECT_EQ(tokens(answer), 4);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  // Still inside the thought: all of it is thought.
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "");
  EXPECT_NE(answer["choices"][0]["message"]["reasoning_content"], "");
  EXPECT_EQ(join(stream(body)).finish_reason, "length");
  body["max_tokens"] = 9;
  EXPECT_EQ(tokens(chat(body).json()), 4);
  body.erase("max_completion_tokens");
  EXPECT_EQ(tokens(chat(body).json()), 9);
  body["max_tokens"] = nullptr;
  EXPECT_EQ(chat(body).json()["choices"][0]["finish_reason"], "stop");
}

TEST_F(Chat, GivesSeveralSamples) {
  json body = question("What is 47+85?", 1.5);
  body["n"] = 3;
  body["seed"] = 11;
  const json answer = chat(body).json();
  ASSERT_EQ(answer["choices"].size(), 3u);
  const Events events = stream(body);
  int64_t completion = 0;
  for (int64_t i = 0; i < 3; ++i) {
    const json& choice = answer["choices"][static_cast<size_t>(i)];
    EXPECT_EQ(choice["index"], i);
    const Joined joined = join(events, i);
    EXPECT_EQ(joined.roles, 1);
    EXPECT_EQ(joined.content, choice["message"]["content"]);
    EXPECT_EQ(joined.reasoning, choice["message"].value("reasoning_content", ""));
    EXPECT_EQ(joined.finish_reason, choice["finish_reason"]);
    completion += static_cast<int64_t>(joined.content.size());
  }
  EXPECT_GT(completion, 0);
  // The prompt counts once; another seed gives something else.
  body["n"] = 1;
  EXPECT_EQ(chat(body).json()["usage"]["prompt_tokens"], answer["usage"]["prompt_tokens"]);
  EXPECT_EQ(chat(body).json()["choices"][0]["message"], answer["choices"][0]["message"]);
}

TEST_F(Chat, StopsAreNeverShown) {
  json body = question("What is 47+85?");
  const std::string content = chat(body).json()["choices"][0]["message"]["content"];
  const std::string stop = content.substr(4, 6);
  for (const json& given : {json(stop), json({stop}), json({"", stop, "zzz"})}) {
    body["stop"] = given;
    const json choice = chat(body).json()["choices"][0];
    EXPECT_EQ(choice["message"]["content"], content.substr(0, 4)) << given;
    EXPECT_EQ(choice["finish_reason"], "stop");
    EXPECT_EQ(join(stream(body)).content, content.substr(0, 4));
  }
  for (const json& none : {json(nullptr), json::array(), json({""}), json("never said")}) {
    body["stop"] = none;
    EXPECT_EQ(chat(body).json()["choices"][0]["message"]["content"], content) << none;
    EXPECT_EQ(join(stream(body)).content, content);
  }
  // It is the answer's: digits of the thought do not end it.
  body["stop"] = "47+85";
  EXPECT_EQ(chat(body).json()["choices"][0]["message"]["content"], content);
}

TEST_F(Chat, TakesContentInPartsAndNulls) {
  const json whole = question("What is 47+85?");
  json parts = whole;
  parts["messages"][0]["content"] = {{{"type", "text"}, {"text", "What is "}},
                                     {{"type", "text"}, {"text", "47+85?"}}};
  const json a = chat(whole).json();
  const json b = chat(parts).json();
  EXPECT_EQ(a["choices"], b["choices"]);
  EXPECT_EQ(a["usage"]["prompt_tokens"], b["usage"]["prompt_tokens"]);
  json nulls = whole;
  for (const char* name : {"stop", "n", "seed", "top_p", "max_tokens", "stream", "logit_bias",
                           "stream_options", "tools", "response_format", "user"}) {
    nulls[name] = nullptr;
  }
  nulls["unknown_field"] = {{"x", 1}};
  EXPECT_EQ(chat(nulls).json()["choices"], a["choices"]);
}

TEST_F(Chat, ControlTokensInMessagesStayText) {
  const json plain = server().post("/tokenize", question("<｜User｜></think>")).json();
  const json control = server().post("/tokenize", {{"prompt", "<｜User｜>"}}).json();
  const int user = control["tokens"].back();
  EXPECT_EQ(std::count(plain["tokens"].begin(), plain["tokens"].end(), user), 1);
}

TEST_F(Chat, BiasAndPenaltiesChangeTheAnswer) {
  const json body = question("What is 47+85?");
  const json first = chat(body).json()["choices"][0]["message"];
  json biased = body;
  const json ids =
      server().post("/tokenize", {{"prompt", "4"}, {"add_special_tokens", false}}).json();
  biased["logit_bias"] = {{std::to_string(ids["tokens"][0].get<int>()), -100}};
  const json other = chat(biased).json()["choices"][0]["message"];
  EXPECT_EQ(other.value("reasoning_content", "").find('4'), std::string::npos);
  EXPECT_NE(other, first);
  // Beyond its end the model says the same again and again.
  json endless = body;
  endless["ignore_eos"] = true;
  endless["max_tokens"] = 100;
  const json repeated = chat(endless).json()["choices"][0]["message"];
  for (const char* penalty : {"frequency_penalty", "presence_penalty", "repetition_penalty"}) {
    json penalised = endless;
    penalised[penalty] = 2;
    EXPECT_NE(chat(penalised).json()["choices"][0]["message"], repeated) << penalty;
  }
}

TEST_F(Chat, PromptsThatLeaveNoRoomAreRefused) {
  RunningServer small(on_a_free_port(), 64);
  const auto of = [&](int64_t tokens) {
    return small.post("/v1/completions",
                      {{"prompt", std::vector<int>(static_cast<size_t>(tokens), 5)},
                       {"ignore_eos", true},
                       {"temperature", 0},
                       {"max_tokens", 10}});
  };
  const Answer fits = of(63);
  EXPECT_EQ(fits.status, 200);
  EXPECT_EQ(fits.json()["usage"]["completion_tokens"], 1);
  EXPECT_EQ(fits.json()["choices"][0]["finish_reason"], "length");
  for (const int64_t tokens : {64, 65, 5000}) {
    const Answer answer = of(tokens);
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(answer.json()["error"]["code"], "context_length_exceeded");
  }
  const Answer chat = small.post("/v1/chat/completions", question(std::string(500, 'x')));
  EXPECT_EQ(chat.json()["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(chat.json()["error"]["param"], "messages");
  EXPECT_EQ(small.get("/v1/models/demo").json()["max_model_len"], 64);
}

TEST_F(Chat, CompletesRawPrompts) {
  const json one = {{"prompt", "What is 47+85?"}, {"temperature", 0}, {"max_tokens", 12}};
  const json answer = server().post("/v1/completions", one).json();
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_TRUE(answer["id"].get<std::string>().starts_with("cmpl-"));
  const std::string text = answer["choices"][0]["text"];
  EXPECT_EQ(answer["usage"]["completion_tokens"], 12);
  EXPECT_EQ(join(stream(one, "/v1/completions")).text, text);

  const json ids = server().post("/tokenize", {{"prompt", "What is 47+85?"}}).json()["tokens"];
  const json several = {
      {"prompt", {"What is 47+85?", "Hello"}}, {"temperature", 0}, {"max_tokens", 12}, {"n", 2}};
  const json four = server().post("/v1/completions", several).json();
  ASSERT_EQ(four["choices"].size(), 4u);
  EXPECT_EQ(four["choices"][0]["text"], text);
  EXPECT_EQ(four["choices"][1]["text"], text);
  EXPECT_EQ(four["choices"][2]["text"], four["choices"][3]["text"]);
  EXPECT_EQ(four["usage"]["completion_tokens"], 48);
  const Events events = stream(several, "/v1/completions");
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(join(events, i).text, four["choices"][static_cast<size_t>(i)]["text"]);
  const json of_ids = {{"prompt", {ids, ids}}, {"temperature", 0}, {"max_tokens", 12}};
  EXPECT_EQ(server().post("/v1/completions", of_ids).json()["choices"][1]["text"], text);
  EXPECT_EQ(server()
                .post("/v1/completions", {{"prompt", ids}, {"temperature", 0}, {"max_tokens", 12}})
                .json()["choices"][0]["text"],
            text);
  // As the endpoint has always done.
  EXPECT_EQ(server()
                .post("/completions", {{"prompt", "x"}, {"ignore_eos", true}})
                .json()["usage"]["completion_tokens"],
            16);
}

TEST(Queue, IsLimited) {
  ServerOptions options = on_a_free_port();
  options.runner = {1, 1};
  RunningServer server(options);
  json slow = question("What is 47+85?");
  slow["ignore_eos"] = true;
  slow["max_tokens"] = 900;
  slow["stream"] = true;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->request("POST", "/v1/chat/completions", slow.dump());
    // Taken, or the next one might come first.
    clients.back()->read_more();
  }
  const Answer answer = server.post("/v1/chat/completions", question("x"));
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.json()["error"]["code"], "queue_full");
  EXPECT_GE(std::stoi(answer.header("retry-after")), 1);
  clients.clear();
  ASSERT_TRUE(server.becomes_idle());
  EXPECT_EQ(server.post("/v1/chat/completions", question("What is 1+2?")).status, 200);
}

TEST(KeepAlive, CommentsComeWhileARequestWaits) {
  ServerOptions options = on_a_free_port();
  options.runner.parallel = 1;
  options.limits.keep_alive = std::chrono::milliseconds(20);
  RunningServer server(options);
  json slow = question("What is 47+85?");
  slow["ignore_eos"] = true;
  slow["max_tokens"] = 900;
  slow["stream"] = true;
  Client first(server.port());
  first.request("POST", "/v1/chat/completions", slow.dump());
  first.read_more();
  json body = question("What is 1+2?");
  body["stream"] = true;
  const Events events = events_of(server.post("/v1/chat/completions", body).body);
  EXPECT_GT(events.comments, 0);
  EXPECT_EQ(join(events).finish_reason, "stop");
}

TEST(Drain, FinishesWhatIsThereAndTakesNothingMore) {
  auto server = std::make_unique<RunningServer>();
  json body = question("What is 47+85?");
  body["ignore_eos"] = true;
  body["max_tokens"] = 400;
  body["stream"] = true;
  Client busy(server->port());
  busy.request("POST", "/v1/chat/completions", body.dump());
  busy.read_more();
  Client idle(server->port());
  idle.request("GET", "/health");
  EXPECT_EQ(idle.read_answer().status, 200);
  const uint16_t port = server->port();
  std::thread draining([&server] { (*server)->drain(); });
  EXPECT_TRUE(idle.closed());
  const Answer answer = busy.read_answer();
  EXPECT_TRUE(answer.whole);
  const Events events = events_of(answer.body);
  EXPECT_TRUE(events.done);
  EXPECT_EQ(join(events).finish_reason, "length");
  draining.join();
  EXPECT_THROW(Client{port}, Error);
}

TEST(Drain, EndsStreamsProperlyWhenItsTimeIsOver) {
  ServerOptions options = on_a_free_port();
  options.drain = std::chrono::milliseconds(0);
  RunningServer server(options);
  json body = question("What is 47+85?");
  body["ignore_eos"] = true;
  body["max_tokens"] = 900;
  Client whole(server.port());
  whole.request("POST", "/v1/chat/completions", body.dump());
  body["stream"] = true;
  Client streamed(server.port());
  streamed.request("POST", "/v1/chat/completions", body.dump());
  streamed.read_more();
  while (server->runner().in_work() < 2) std::this_thread::yield();
  server->drain();
  EXPECT_EQ(whole.read_answer().status, 503);
  const Answer answer = streamed.read_answer();
  EXPECT_TRUE(answer.whole);
  const Events events = events_of(answer.body);
  EXPECT_EQ(events.chunks.back()["error"]["code"], "shutting_down");
  EXPECT_FALSE(events.done);
}

// Each gets what it would have got alone, to the byte.
TEST(Together, ManyClientsGetWhatTheyGetAloneThreads) {
  ServerOptions options = on_a_free_port();
  options.runner = {8, 64};
  RunningServer server(options);
  constexpr int kClients = 12;
  constexpr int kEach = 3;
  const auto body_of = [](int client, int number) {
    json body = question(
        "What is " + std::to_string(10 + client) + "+" + std::to_string(7 * number + client) + "?",
        client % 2 == 0 ? 0.0 : 1.0);
    body["seed"] = client * 100 + number;
    body["stream"] = client % 3 != 0;
    body["max_tokens"] = 40 + client;
    return body;
  };
  const auto answer_of = [&](const json& body) {
    const Answer answer = server.post("/v1/chat/completions", body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    if (body["stream"]) {
      const Joined joined = join(events_of(answer.body));
      return joined.reasoning + "|" + joined.content + "|" + joined.finish_reason;
    }
    const json choice = answer.json()["choices"][0];
    return choice["message"].value("reasoning_content", "") + "|" +
           choice["message"]["content"].get<std::string>() + "|" +
           choice["finish_reason"].get<std::string>();
  };
  std::map<int, std::string> alone;
  for (int client = 0; client < kClients; ++client) {
    for (int number = 0; number < kEach; ++number) {
      alone[client * kEach + number] = answer_of(body_of(client, number));
    }
  }
  std::vector<std::thread> threads;
  std::vector<std::vector<std::string>> together(kClients);
  std::atomic<int> leaving{0};
  for (int client = 0; client < kClients; ++client) {
    threads.emplace_back([&, client] {
      for (int number = 0; number < kEach; ++number) {
        together[static_cast<size_t>(client)].push_back(answer_of(body_of(client, number)));
        // Some others come and go meanwhile.
        Client gone(server.port());
        json body = body_of(client, number);
        body["stream"] = true;
        gone.request("POST", "/v1/chat/completions", body.dump());
        if (number % 2 == 0) gone.read_more();
        ++leaving;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int client = 0; client < kClients; ++client) {
    for (int number = 0; number < kEach; ++number) {
      EXPECT_EQ(together[static_cast<size_t>(client)][static_cast<size_t>(number)],
                alone[client * kEach + number]);
    }
  }
  EXPECT_EQ(leaving, kClients * kEach);
  EXPECT_TRUE(server.becomes_idle());
}

}  // namespace
}  // namespace fathom::server
