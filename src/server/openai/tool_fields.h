// Tools and forms of an answer, as a request asks for them.
#pragma once

#include <string>

#include "server/openai/fields.h"
#include "server/openai/request.h"

namespace fathom::server {

// tools, tool_choice, parallel_tool_calls. Returns the tools that the prompt describes, as JSON; ""
// where the model shall not know of any.
std::string read_tools(Fields& fields, const Model& model, OpenAiRequest* parsed);
// response_format; after read_tools().
void read_response_format(Fields& fields, OpenAiRequest* parsed);

}  // namespace fathom::server
