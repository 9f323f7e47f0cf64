#include "cli/json_output.h"

namespace fathom::cli {

std::string json_error(ErrorKind kind, std::string_view message) {
  const char* name = "input";
  switch (kind) {
    case ErrorKind::usage:
      name = "usage";
      break;
    case ErrorKind::input:
      break;
    case ErrorKind::io:
      name = "io";
      break;
    case ErrorKind::cancelled:
      name = "cancelled";
      break;
  }
  return JsonObject()
      .object("error", JsonObject().text("message", message).text("kind", name))
      .str();
}

}  // namespace fathom::cli
