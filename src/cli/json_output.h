// JSON as the commands print it.
#pragma once

#include <string>
#include <string_view>

#include "fathom/error.h"
#include "text/json_output.h"

namespace fathom::cli {

// {"error":{"message":...,"kind":"usage|input|io|cancelled"}}
std::string json_error(ErrorKind kind, std::string_view message);

}  // namespace fathom::cli
