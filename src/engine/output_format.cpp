#include "engine/output_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "grammar/rule_maker.h"
#include "text/chat_prompt.h"
#include "text/tool_markers.h"

namespace fathom {
namespace {

using grammar::Nfa;
using nlohmann::ordered_json;
using Start = ReasoningSplitter::Start;

constexpr size_t kMostKept = 16;
constexpr std::string_view kClose = "</think>";
constexpr int64_t kMostLineBreaks = 2;  // before an answer

// A bad field of a request, whatever the parser of JSON calls it.
ordered_json parse_schema(std::string_view text, const char* what) {
  try {
    return parse_ordered_json(text, what);
  } catch (const Error& error) {
    throw Error(ErrorKind::usage, error.what());
  }
}

// Any bytes up to the first closing tag, and the tag.
Nfa::Fragment spelled_thought(Nfa& nfa) {
  std::vector<int32_t> states;
  for (size_t i = 0; i <= kClose.size(); ++i) states.push_back(nfa.add_state());
  for (size_t seen = 0; seen < kClose.size(); ++seen) {
    for (int byte = 0; byte < 256; ++byte) {
      const std::string text = std::string(kClose.substr(0, seen)) + static_cast<char>(byte);
      size_t next = std::min(text.size(), kClose.size());
      while (!text.ends_with(kClose.substr(0, next))) --next;
      nfa.add_edge(states[seen], byte, byte, states[next]);
    }
  }
  return {states.front(), states.back()};
}

// Puts together what an answer is made of.
class AnswerMaker {
 public:
  AnswerMaker(const OutputFormat& format, const Tokenizer& tokenizer)
      : format_(format), tokenizer_(tokenizer), schema_(read(format)), rules_(schema_) {}

  grammar::Grammar make(bool in_spelled_thought, const std::vector<bool>& bytes) {
    std::vector<Nfa::Fragment> parts;
    if (in_spelled_thought) parts.push_back(spelled_thought(nfa_));
    parts.push_back(nfa_.repeat([this] { return nfa_.symbol('\n'); }, 0, kMostLineBreaks));
    const bool calls = format_.kind == OutputFormat::Kind::tool_calls;
    parts.push_back(calls ? tool_calls() : nfa_.symbol(rules_.value(schema_, "#")));
    grammar::Dfa whole = nfa_.determinise(nfa_.sequence(parts));
    rules_.rules().rules[0] = std::move(whole);
    return grammar::finish_grammar(rules_.rules(), bytes);
  }
  std::vector<TokenId> tokens() { return std::move(tokens_); }

 private:
  static ordered_json read(const OutputFormat& format) {
    if (format.kind == OutputFormat::Kind::json_object) return {{"type", "object"}};
    if (format.kind == OutputFormat::Kind::json_schema) {
      return parse_schema(format.schema, "schema");
    }
    try {
      return parse_tools(format.schema);
    } catch (const Error& error) {
      throw Error(ErrorKind::usage, error.what());
    }
  }

  // A marker's token, or its text where the vocabulary does not have it.
  Nfa::Fragment marker(ToolMarker marker) {
    const std::string_view text = tool_marker_text(marker);
    const auto id = tokenizer_.id_of(text);
    if (!id) return nfa_.literal(text);
    tokens_.push_back(*id);
    return nfa_.symbol(grammar::kFirstToken + static_cast<grammar::Symbol>(tokens_.size() - 1));
  }

  Nfa::Fragment tool_calls() {
    const Nfa::Fragment begin = marker(ToolMarker::calls_begin);
    const Nfa::Fragment end = marker(ToolMarker::calls_end);
    const Nfa::Fragment call = one_of_the_calls();
    nfa_.add_empty(begin.end, call.begin);
    nfa_.add_empty(call.end, end.begin);
    if (format_.parallel_calls) {
      const Nfa::Fragment next = nfa_.literal(tool_form::kBetweenCalls);
      nfa_.add_empty(call.end, next.begin);
      nfa_.add_empty(next.end, call.begin);
    }
    return {begin.begin, end.end};
  }

  Nfa::Fragment one_of_the_calls() {
    std::vector<Nfa::Fragment> calls;
    for (size_t i = 0; i < schema_.size(); ++i) {
      const ordered_json& function = schema_[i]["function"];
      const auto& name = function["name"].get_ref<const std::string&>();
      if (!format_.tool.empty() && name != format_.tool) continue;
      calls.push_back(nfa_.sequence({nfa_.literal(name), nfa_.literal(tool_form::kBeforeArguments),
                                     nfa_.symbol(arguments(i, function)),
                                     nfa_.literal(tool_form::kAfterArguments)}));
    }
    if (calls.empty() && !format_.tool.empty()) {
      fail_usage("tool_choice: there is no tool '{}'", format_.tool);
    }
    if (calls.empty()) fail_usage("tools: there are none to call");
    return nfa_.sequence({marker(ToolMarker::call_begin), nfa_.literal(tool_form::kType),
                          marker(ToolMarker::separator), nfa_.either(calls),
                          marker(ToolMarker::call_end)});
  }

  // References inside of a function's parameters begin there.
  grammar::Symbol arguments(size_t index, const ordered_json& function) {
    ordered_json parameters = function.value("parameters", ordered_json());
    if (parameters.is_null()) parameters = ordered_json::object();
    const std::string place = fmt::format("#/{}/function/parameters", index);
    rebase(parameters, place);
    parameters["type"] = "object";
    return rules_.value(parameters, place);
  }

  static void rebase(ordered_json& schema, const std::string& place) {
    for (auto& [key, value] : schema.items()) {
      if (value.is_structured()) rebase(value, place);
      if (key == "$ref" && schema.is_object() && value.is_string()) {
        const std::string reference = value.get<std::string>();
        if (reference.starts_with('#')) value = place + reference.substr(1);
      }
    }
  }

  const OutputFormat& format_;
  const Tokenizer& tokenizer_;
  ordered_json schema_;
  grammar::RuleMaker rules_;
  Nfa nfa_;
  std::vector<TokenId> tokens_;
};

std::shared_ptr<const grammar::TokenTrie> make_trie(const Tokenizer& tokenizer) {
  std::vector<std::string_view> bytes(static_cast<size_t>(tokenizer.size()));
  for (size_t id = 0; id < bytes.size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    if (tokenizer.added_token(token) == nullptr) bytes[id] = tokenizer.bytes(token);
  }
  return std::make_shared<const grammar::TokenTrie>(bytes);
}

}  // namespace

std::shared_ptr<CompiledFormat> FormatCompiler::make(const OutputFormat& format,
                                                     bool in_spelled_thought) {
  if (!trie_) trie_ = make_trie(tokenizer_);
  auto compiled = std::make_shared<CompiledFormat>();
  compiled->trie = trie_;
  AnswerMaker maker(format, tokenizer_);
  compiled->grammar = maker.make(in_spelled_thought, trie_->single_bytes());
  compiled->tokens = maker.tokens();
  compiled->masks = std::make_unique<grammar::TokenMasks>(compiled->grammar, *compiled->trie);
  return compiled;
}

std::shared_ptr<CompiledFormat> FormatCompiler::compile(const OutputFormat& format, Start start) {
  if (format.kind == OutputFormat::Kind::text) return nullptr;
  if (start == Start::within_answer) {
    fail_usage("response_format: an answer that is gone on with cannot have a format");
  }
  const bool thought = start == Start::thought || start == Start::within_thought;
  const bool spelled = thought && !ReasoningSplitter::tags_of(tokenizer_).close;
  const std::string key = fmt::format("{} {} {} {} {}", static_cast<int>(format.kind), spelled,
                                      format.parallel_calls, format.tool, format.schema);
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.key == key; });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front().format;
  }
  kept_.push_front({key, make(format, spelled)});
  if (kept_.size() > kMostKept) kept_.pop_back();
  return kept_.front().format;
}

FormatFollower::FormatFollower(std::shared_ptr<CompiledFormat> format, const Tokenizer& tokenizer,
                               Start start, std::vector<TokenId> ends)
    : format_(std::move(format)),
      tokenizer_(tokenizer),
      tags_(ReasoningSplitter::tags_of(tokenizer)),
      ends_(std::move(ends)),
      stage_(start == Start::fresh ? Stage::fresh
             : tags_.close         ? Stage::thought
                                   : Stage::answer),
      places_(grammar::begin_at(format_->grammar, stacks_, format_->grammar.start,
                                grammar::Stacks::kBottom)) {}

bool FormatFollower::is_end(TokenId id) const {
  return std::find(ends_.begin(), ends_.end(), id) != ends_.end();
}

bool FormatFollower::restrict(std::span<float> logits) {
  if (stage_ == Stage::thought) {
    // An answer has to follow.
    for (const TokenId id : ends_) {
      if (static_cast<size_t>(id) < logits.size()) {
        logits[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
      }
    }
    return true;
  }
  grammar::TokenSet allowed(static_cast<int64_t>(logits.size()));
  grammar::TokenSet bytes(format_->trie->tokens());
  format_->masks->add_allowed(places_, stacks_, &bytes);
  allowed.add(bytes);
  for (const TokenId id : ends_) allowed.remove(id);
  const auto allow = [&](TokenId id) {
    if (static_cast<size_t>(id) < logits.size()) allowed.add(id);
  };
  for (const grammar::Place& place : places_.open) {
    for (const auto& edge : format_->grammar.states[static_cast<size_t>(place.state)].tokens) {
      allow(format_->tokens[static_cast<size_t>(edge.token)]);
    }
  }
  // The model may open a thought that the prompt has not opened.
  if (stage_ == Stage::fresh && tags_.open && tags_.close) allow(*tags_.open);
  if (places_.ended) {
    for (const TokenId id : ends_) allow(id);
  }
  if (allowed.empty()) return false;
  allowed.keep_only(logits);
  return true;
}

void FormatFollower::take(TokenId id) {
  if (stage_ == Stage::thought) {
    if (id == tags_.close) stage_ = Stage::answer;
    return;
  }
  if (stage_ == Stage::fresh && id == tags_.open) {
    stage_ = Stage::thought;
    return;
  }
  stage_ = Stage::answer;
  if (is_end(id)) return;
  const auto token = std::find(format_->tokens.begin(), format_->tokens.end(), id);
  if (token != format_->tokens.end()) {
    const auto number = static_cast<int32_t>(token - format_->tokens.begin());
    places_ = read_token(format_->grammar, stacks_, places_, number);
  } else {
    for (const char byte : tokenizer_.bytes(id)) {
      places_ = read_byte(format_->grammar, stacks_, places_, static_cast<uint8_t>(byte));
    }
  }
  if (places_.dead()) fail_usage("token {} does not fit the answer's format", id);
}

}  // namespace fathom
