#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "text/chat_template.h"
#include "text/jinja_value.h"

namespace fathom {
namespace {

using nlohmann::ordered_json;

const char* kind_of(const ordered_json& json) { return json.type_name(); }

const std::string& text_at(const ordered_json& json, const std::string& path) {
  if (!json.is_string()) fail_input("{}: must be a string, not {}", path, kind_of(json));
  return json.get_ref<const std::string&>();
}

// The text of content that is a string or an array of text parts.
std::string joined_content(const ordered_json& content, const std::string& path) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) {
    fail_input("{}: must be a string or an array of parts, not {}", path, kind_of(content));
  }
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const ordered_json& part = content[i];
    const std::string part_path = fmt::format("{}[{}]", path, i);
    if (!part.is_object()) fail_input("{}: must be an object, not {}", part_path, kind_of(part));
    if (!part.contains("type")) fail_input("{}.type: is missing", part_path);
    const std::string& type = text_at(part["type"], part_path + ".type");
    if (type != "text") {
      fail_input("{}: parts of type '{}' are not supported, only 'text'", part_path, type);
    }
    if (!part.contains("text")) fail_input("{}.text: is missing", part_path);
    text += text_at(part["text"], part_path + ".text");
  }
  return text;
}

// JSON text as the templates' own tojson writes it.
std::string json_text(const ordered_json& json) {
  jinja::Heap heap(1 << 20);
  jinja::Text out;
  jinja::append_json(heap, out, heap.from_json(json), {});
  return out.bytes();
}

void normalise_function(ordered_json& function, const std::string& path) {
  if (!function.is_object()) fail_input("{}: must be an object, not {}", path, kind_of(function));
  if (!function.contains("name")) fail_input("{}.name: is missing", path);
  text_at(function["name"], path + ".name");
  ordered_json& arguments = function["arguments"];
  if (arguments.is_null()) {
    arguments = "{}";
  } else if (arguments.is_object()) {
    try {
      arguments = json_text(arguments);
    } catch (const jinja::Failure& failure) {
      fail_input("{}.arguments: {}", path, failure.what());
    }
  } else if (!arguments.is_string()) {
    fail_input("{}.arguments: must be a string or an object, not {}", path, kind_of(arguments));
  }
}

void normalise_calls(ordered_json& calls, const std::string& path) {
  if (!calls.is_array()) fail_input("{}: must be an array, not {}", path, kind_of(calls));
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string call_path = fmt::format("{}[{}]", path, i);
    ordered_json& call = calls[i];
    if (!call.is_object()) fail_input("{}: must be an object, not {}", call_path, kind_of(call));
    if (!call.contains("type") || call["type"].is_null()) call["type"] = "function";
    text_at(call["type"], call_path + ".type");
    if (!call.contains("function")) fail_input("{}.function: is missing", call_path);
    normalise_function(call["function"], call_path + ".function");
  }
}

// A thought that was cut off and sent back as it was: without its closing tag the template would
// take all of it for an answer.
bool is_unclosed_thought(std::string_view content) {
  const size_t begin = content.find_first_not_of(" \t\r\n");
  return begin != content.npos && content.substr(begin).starts_with("<think>") &&
         content.find("</think>") == content.npos;
}

void normalise_message(ordered_json& message, const std::string& path) {
  if (!message.is_object()) fail_input("{}: must be an object, not {}", path, kind_of(message));
  if (!message.contains("role")) fail_input("{}.role: is missing", path);
  std::string role = text_at(message["role"], path + ".role");
  if (role.empty()) fail_input("{}.role: is empty", path);
  // The newer name of the same thing; no template of these models knows it.
  if (role == "developer") message["role"] = role = "system";
  constexpr std::string_view kKnown[] = {"system", "user", "assistant", "tool", "function"};
  if (std::find(std::begin(kKnown), std::end(kKnown), role) == std::end(kKnown)) {
    log::warning(
        "{}.role: '{}' is none of system, user, assistant, tool; most templates leave it out", path,
        role);
  }

  message.erase("reasoning_content");
  message.erase("reasoning");
  // Templates ask whether the key is there, not whether it holds anything.
  const auto calls = message.find("tool_calls");
  if (calls != message.end() && (calls->is_null() || (calls->is_array() && calls->empty()))) {
    message.erase("tool_calls");
  }
  const bool has_calls = role == "assistant" && message.contains("tool_calls");
  if (message.contains("tool_calls")) normalise_calls(message["tool_calls"], path + ".tool_calls");

  const bool refused =
      role == "assistant" && message.contains("refusal") && message["refusal"].is_string();
  const bool absent = !message.contains("content");
  ordered_json& content = message["content"];
  if (content.is_null()) {
    if (refused) {
      content = message["refusal"];
    } else if (!has_calls) {
      fail_input("{}.content: {}; only an assistant's tool calls go without", path,
                 absent ? "is missing" : "is null");
    }
    return;
  }
  content = joined_content(content, path + ".content");
  if (role == "assistant" && is_unclosed_thought(content.get_ref<const std::string&>())) {
    content = "";
  }
}

}  // namespace

ordered_json normalise_messages(const ordered_json& messages) {
  if (!messages.is_array()) fail_input("messages: must be an array, not {}", kind_of(messages));
  if (messages.empty()) fail_input("messages: is empty");
  ordered_json result = messages;
  for (size_t i = 0; i < result.size(); ++i) {
    normalise_message(result[i], fmt::format("messages[{}]", i));
  }
  return result;
}

}  // namespace fathom
