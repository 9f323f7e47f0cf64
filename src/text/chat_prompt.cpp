#include "text/chat_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "text/reasoning.h"
#include "text/tool_markers.h"

namespace fathom {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kOpen = "<think>";
constexpr std::string_view kClose = "</think>";

// A word that stands for text which is put in after rendering: the template may not change that
// text, and parts of it are trusted.
std::string unused_word(const ordered_json& messages, std::string_view stem) {
  const std::string all = messages.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  std::string word;
  for (int i = 0; word.empty() || all.find(word) != all.npos; ++i) {
    word = fmt::format("{}{}", stem, i);
  }
  return word;
}

// Puts `pieces` in the place of a word; false where the rendered text does not have it. What
// follows it is left out where `last` is set.
bool replace(RenderedPrompt& prompt, std::string_view word, const std::vector<PromptPiece>& pieces,
             bool last) {
  const std::string text = prompt.text();
  const size_t at = last ? text.rfind(word) : text.find(word);
  if (at == text.npos) return false;
  RenderedPrompt result;
  size_t begin = 0;
  bool placed = false;
  for (const PromptPiece& piece : prompt.pieces) {
    const size_t end = begin + piece.text.size();
    const size_t before = std::clamp(at, begin, end) - begin;
    const size_t after = std::clamp(at + word.size(), begin, end) - begin;
    if (before > 0) result.pieces.push_back({piece.text.substr(0, before), piece.trusted});
    if (!placed && end > at) {
      result.pieces.insert(result.pieces.end(), pieces.begin(), pieces.end());
      placed = true;
    }
    if (!last && after < piece.text.size()) {
      result.pieces.push_back({piece.text.substr(after), piece.trusted});
    }
    begin = end;
  }
  prompt = std::move(result);
  return true;
}

// The message that tools are described in: the first user's, else the first one that is a system's.
ordered_json& message_for_tools(ordered_json& messages) {
  for (const char* role : {"user", "system"}) {
    for (ordered_json& message : messages) {
      if (message["role"] == role && message["content"].is_string()) return message;
    }
  }
  fail_input("tools: there is no user or system message to describe them in");
}

// The text of an open last message and where it leaves the output.
struct OpenMessage {
  std::vector<PromptPiece> pieces;
  bool opens_thought = false;
  bool continues_text = false;
};

bool blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

// Reasoning of its own is a thought before the content; what tags it quotes are text.
OpenMessage open_reasoning(const std::string& content, const std::string& reasoning) {
  OpenMessage open;
  open.pieces = {{std::string(kOpen), true}, {"\n" + reasoning, false}};
  open.opens_thought = content.empty();
  open.continues_text = !blank(content.empty() ? reasoning : content);
  if (!content.empty()) {
    open.pieces.push_back({"\n", false});
    open.pieces.push_back({std::string(kClose), true});
    open.pieces.push_back({"\n\n" + content, false});
  }
  return open;
}

// Tags count where a thought stands at the beginning; all else is text.
OpenMessage open_content(std::string_view rest) {
  OpenMessage open;
  const size_t begin = rest.find_first_not_of(" \t\r\n");
  if (begin != rest.npos && rest.substr(begin).starts_with(kOpen)) {
    open.pieces.push_back({std::string(rest.substr(0, begin)) + std::string(kOpen), true});
    rest.remove_prefix(begin + kOpen.size());
    const size_t close = rest.find(kClose);
    if (close == rest.npos) {
      open.opens_thought = true;
    } else {
      open.pieces.push_back({std::string(rest.substr(0, close)), false});
      open.pieces.push_back({std::string(kClose), true});
      rest.remove_prefix(close + kClose.size());
    }
  }
  open.continues_text = !blank(rest);
  open.pieces.push_back({std::string(rest), false});
  std::erase_if(open.pieces, [](const PromptPiece& piece) { return piece.text.empty(); });
  return open;
}

OpenMessage take_last_message(ordered_json& messages, const std::string& word) {
  const std::string path = fmt::format("messages[{}]", messages.empty() ? 0 : messages.size() - 1);
  if (!messages.is_array() || messages.empty() || !messages.back().is_object() ||
      messages.back().value("role", ordered_json()) != "assistant") {
    fail_input("continue_final_message: {} is not an assistant's", path);
  }
  ordered_json& message = messages.back();
  if (message.contains("tool_calls") && !message["tool_calls"].empty()) {
    fail_input("continue_final_message: {} calls tools, which cannot be continued", path);
  }
  std::optional<std::string> reasoning;
  for (const char* key : {"reasoning_content", "reasoning"}) {
    if (!message.contains(key) || message[key].is_null()) continue;
    if (!message[key].is_string()) fail_input("{}.{}: must be a string", path, key);
    reasoning = message[key].get<std::string>();
    break;
  }
  if (!message.contains("content") || message["content"].is_null()) message["content"] = "";
  // The one form of content, by the rules for all messages; a thought in it must not be dropped.
  ordered_json probe = ordered_json::array({message});
  probe[0]["role"] = "user";
  std::string content;
  try {
    content = normalise_messages(probe)[0]["content"].get<std::string>();
  } catch (const Error& error) {
    std::string what = error.what();
    if (what.starts_with("messages[0]")) what = path + what.substr(11);
    throw Error(error.kind(), what);
  }
  message["content"] = word;
  return reasoning ? open_reasoning(content, *reasoning) : open_content(content);
}

}  // namespace

ordered_json parse_tools(std::string_view json) {
  ordered_json tools = parse_ordered_json(json, "tools");
  if (!tools.is_array()) fail_input("tools: must be an array, not {}", tools.type_name());
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string path = fmt::format("tools[{}]", i);
    const ordered_json& tool = tools[i];
    if (!tool.is_object()) fail_input("{}: must be an object, not {}", path, tool.type_name());
    if (tool.value("type", ordered_json()) != "function") {
      fail_input("{}.type: must be \"function\"", path);
    }
    const auto function = tool.find("function");
    if (function == tool.end() || !function->is_object()) {
      fail_input("{}.function: must be an object", path);
    }
    const auto name = function->find("name");
    if (name == function->end() || !name->is_string()) {
      fail_input("{}.function.name: must be a string", path);
    }
    const auto& text = name->get_ref<const std::string&>();
    const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '-' || c == '.';
    });
    if (text.empty() || text.size() > tool_form::kLongestName || !plain) {
      fail_input("{}.function.name: must be 1 to {} letters, digits, '_', '-' or '.'", path,
                 tool_form::kLongestName);
    }
    for (size_t j = 0; j < i; ++j) {
      if (tools[j]["function"]["name"] == text) {
        fail_input("{}.function.name: '{}' is the name of tools[{}] too", path, text, j);
      }
    }
    const auto parameters = function->find("parameters");
    if (parameters != function->end() && !parameters->is_null() && !parameters->is_object()) {
      fail_input("{}.function.parameters: must be an object", path);
    }
  }
  return tools;
}

std::vector<PromptPiece> describe_tools(const ordered_json& tools) {
  std::string list = "# Tools\n\nThese functions can be called, one description per line:\n";
  for (const ordered_json& tool : tools) {
    list += tool["function"].dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  }
  list += "\nTo call functions, write nothing but this, with one block for every call:\n";
  const auto marker = [](ToolMarker of) {
    return PromptPiece{std::string(tool_marker_text(of)), true};
  };
  return {
      {list, false},
      marker(ToolMarker::calls_begin),
      marker(ToolMarker::call_begin),
      {std::string(tool_form::kType), false},
      marker(ToolMarker::separator),
      {fmt::format("NAME{}ARGUMENTS{}", tool_form::kBeforeArguments, tool_form::kAfterArguments),
       false},
      marker(ToolMarker::call_end),
      marker(ToolMarker::calls_end),
      {"\nARGUMENTS is a JSON object that fits the function's \"parameters\".\n\n"
       "# Conversation\n\n",
       false}};
}

ChatPrompt render_chat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                       const ordered_json& messages, const ChatPromptOptions& options) {
  ordered_json all = messages;
  OpenMessage open;
  const std::string open_word = unused_word(messages, "OpenMessage");
  if (options.continue_final_message) open = take_last_message(all, open_word);
  all = normalise_messages(all);

  TemplateOptions template_options;
  template_options.add_generation_prompt =
      options.add_generation_prompt && !options.continue_final_message;
  ordered_json variables = ordered_json::object();
  std::vector<PromptPiece> description;
  const std::string tools_word = unused_word(messages, "ToolDescriptions");
  if (!options.tools.empty()) {
    ordered_json tools = parse_tools(options.tools);
    if (chat_template.reads_tools()) {
      variables["tools"] = std::move(tools);
      template_options.variables = &variables;
    } else if (!tools.empty()) {
      description = describe_tools(tools);
      ordered_json& content = message_for_tools(all)["content"];
      content = tools_word + content.get<std::string>();
    }
  }

  ChatPrompt result;
  result.prompt = chat_template.render(all, tokenizer, template_options);
  if (!description.empty() && !replace(result.prompt, tools_word, description, false)) {
    fail_input("tools: the chat template does not show the message that describes them");
  }
  if (!options.continue_final_message) {
    result.opens_thought = prompt_opens_thought(result.prompt.text());
    return result;
  }
  if (!replace(result.prompt, open_word, open.pieces, true)) {
    fail_input("continue_final_message: the chat template does not show the last message");
  }
  result.opens_thought = open.opens_thought;
  result.continues_text = open.continues_text;
  return result;
}

}  // namespace fathom
