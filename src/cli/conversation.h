// A chat's turns and how they become a prompt.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fathom/model.h"

namespace fathom::cli {

class Conversation {
 public:
  explicit Conversation(std::optional<std::string> system) : system_(std::move(system)) {}

  void set_system(std::optional<std::string> system);
  void reset() { turns_.clear(); }
  bool empty() const { return turns_.empty(); }
  size_t messages() const { return turns_.size(); }

  void add_user(const std::string& content) { turns_.push_back({"user", content}); }
  // The answer alone: thoughts are not fed back.
  void add_assistant(const std::string& content) { turns_.push_back({"assistant", content}); }
  // Takes the last answer back, where the last turn is one.
  void drop_assistant();
  // Takes the last message back, which has got no answer.
  void drop_user();
  bool ends_with_user() const { return !turns_.empty() && turns_.back().role == "user"; }

  const std::optional<std::string>& system() const { return system_; }
  // An OpenAI messages array.
  std::string json() const;
  // The same without the system message; turns as turns_json() gave them. Error(input) where they
  // are none.
  std::string turns_json() const;
  void set_turns(const std::string& json);
  // What was said last by the user; "" where nothing was.
  std::string last_message() const;
  // `think` false closes the thought before it begins: the prompt ends with an empty one.
  Prompt prompt(const Model& model, bool think) const;

 private:
  struct Turn {
    std::string role;
    std::string content;
  };
  std::optional<std::string> system_;
  std::vector<Turn> turns_;
};

}  // namespace fathom::cli
