// The fields that both endpoints share: sampling, limits, streaming.
#pragma once

#include "server/openai/fields.h"
#include "server/openai/request.h"

namespace fathom::server {

void read_sampling(Fields& fields, OpenAiRequest* parsed);
void read_limits(Fields& fields, OpenAiRequest* parsed);
void read_stream(Fields& fields, const RequestRules& rules, OpenAiRequest* parsed);

}  // namespace fathom::server
