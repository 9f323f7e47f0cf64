#include "server/openai/tool_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/openai/api_error.h"
#include "text/tool_markers.h"

namespace fathom::server {
namespace {

using json = nlohmann::ordered_json;
using Kind = OutputFormat::Kind;

// The string member of an object; ApiError naming it where it is none.
std::string member_text(const json& object, const char* member, const std::string& path) {
  const auto at = object.find(member);
  if (at == object.end() || !at->is_string()) {
    refuse_field(path + "." + member, "it must be a string");
  }
  return at->get<std::string>();
}

bool has_function(const json& tools, const std::string& name) {
  return std::any_of(tools.begin(), tools.end(), [&name](const json& tool) {
    const json function = tool.is_object() ? tool.value("function", json()) : json();
    return function.is_object() && function.value("name", json()) == name;
  });
}

// {"type": "function", "function": {"name": NAME}}
std::string chosen_function(const json& choice, const json& tools) {
  if (!choice.is_object() || choice.value("type", json()) != "function" ||
      !choice.value("function", json()).is_object()) {
    refuse_field("tool_choice", "it is neither none, auto or required nor a function");
  }
  const std::string name = member_text(choice["function"], "name", "tool_choice.function");
  if (!has_function(tools, name)) refuse_field("tool_choice", "there is no function '{}'", name);
  return name;
}

// The first call is the last one where the vocabulary has a token for its end.
void end_after_call(const Model& model, GenerateRequest* request) {
  const std::vector<int32_t> ids = model.tokenize(tool_marker_text(ToolMarker::call_end));
  if (ids.size() == 1) request->stop_ids.push_back(ids.front());
}

}  // namespace

std::string read_tools(Fields& fields, const Model& model, OpenAiRequest* parsed) {
  const json* tools = fields.find("tools");
  const json* choice = fields.find("tool_choice");
  const bool parallel = fields.boolean("parallel_tool_calls", true);
  if (tools != nullptr && !tools->is_array()) refuse_field("tools", "they are not an array");
  const bool free = choice == nullptr || *choice == "auto";
  const bool none = choice != nullptr && *choice == "none";
  if (tools == nullptr || tools->empty()) {
    if (!free && !none) refuse_field("tool_choice", "there are no tools");
    return "";
  }
  if (none) return "";
  std::string described = tools->dump();
  parsed->request.parse_tool_calls = true;
  if (free) {
    if (!parallel) end_after_call(model, &parsed->request);
    return described;
  }
  OutputFormat& format = parsed->request.format;
  if (*choice != "required") format.tool = chosen_function(*choice, *tools);
  format.kind = Kind::tool_calls;
  format.schema = described;
  format.parallel_calls = parallel;
  parsed->format_field = "tool_choice";
  return described;
}

void read_response_format(Fields& fields, OpenAiRequest* parsed) {
  const json* value = fields.find("response_format");
  if (value == nullptr) return;
  if (!value->is_object()) refuse_field("response_format", "it is not an object");
  const std::string type = member_text(*value, "type", "response_format");
  if (type == "text") return;
  if (parsed->request.parse_tool_calls) {
    refuse_field("response_format", "{} and tools exclude each other (see tool_choice)", type);
  }
  OutputFormat& format = parsed->request.format;
  parsed->format_field = "response_format";
  if (type == "json_object") {
    format.kind = Kind::json_object;
  } else if (type == "json_schema") {
    const json* inner = value->contains("json_schema") ? &(*value)["json_schema"] : nullptr;
    if (inner == nullptr || !inner->is_object() || !inner->contains("schema")) {
      refuse_field("response_format.json_schema", "it is not an object with a schema");
    }
    format.kind = Kind::json_schema;
    format.schema = (*inner)["schema"].dump();
  } else {
    refuse_field("response_format.type", "'{}' is none of text, json_object, json_schema", type);
  }
}

}  // namespace fathom::server
