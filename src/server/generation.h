// One request for text on its way: its jobs, their events, and the answer in either form.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/api.h"
#include "server/exchange.h"
#include "server/openai/api_error.h"
#include "server/openai/logprobs.h"
#include "server/openai/request.h"
#include "server/openai/response.h"

namespace fathom::server {

class Generation {
 public:
  Generation(const ApiContext& context, Exchanged& exchanged, OpenAiRequest&& parsed,
             std::string model_name);

  // Answers. Throws ApiError as long as nothing has been sent.
  void run();

 private:
  using Clock = std::chrono::steady_clock;
  // One choice of the answer.
  struct Choice {
    std::optional<GenerateResult> result;
    CompletionLogprobs logprobs;  // of a stream
  };
  // What a chunk of a stream tells of a choice.
  struct Chunk {
    int64_t index = 0;
    std::string delta;  // an object in a chat, a text in a completion; as JSON
    std::string logprobs = "null";
    const char* finish_reason = nullptr;
  };

  void submit();
  void pump();
  Socket::Result wait() const;
  bool take(ModelEvent& event);  // false: nothing else matters
  void step(const StepEvent& event);
  void finish(FinishEvent& event);
  void fail(const ApiError& error);
  ApiError refusal(const Error& error) const;

  // Streams only.
  void begin_stream();
  void flush();
  void put_event(const std::string& json);
  void put_chunk(const Chunk& chunk);
  void completion_step(const StepEvent& event);
  void chat_step(const StepEvent& event);
  void end_stream();

  void send_whole();
  void fill_record();
  size_t index_of(int64_t prompt, int64_t sample) const {
    return static_cast<size_t>(prompt * parsed_.samples + sample);
  }
  size_t prompt_of(size_t index) const { return index / static_cast<size_t>(parsed_.samples); }

  const ApiContext& context_;
  Exchanged& exchanged_;
  OpenAiRequest parsed_;
  AnswerHead head_;
  std::shared_ptr<Exchange> exchange_;
  std::vector<Choice> choices_;
  size_t left_;          // choices without a result
  size_t accepted_ = 0;  // prompts
  Usage usage_;
  const Clock::time_point began_ = Clock::now();

  std::string chunk_front_;  // {"id":...,"model":...
  std::string out_;          // events that are not sent yet
  Clock::time_point last_step_{};
  bool over_ = false;  // an error, or the client has gone
};

}  // namespace fathom::server
