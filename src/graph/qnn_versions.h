// Context binaries are bound to the QNN release that made them.
#pragma once

#include <optional>
#include <string>

#include "graph/runtime.h"

namespace fathom {

// The QNN release written in a file ("2.31.0.250130151446"), by looking for its pattern in the
// bytes; empty where there is none or the file cannot be read.
std::optional<std::string> qnn_version_in(const std::string& file);

// Where `message` is the provider's error 1008 (or says that versions differ): both releases and
// what to do. `model` is the graph whose binary, beside it or in it, was refused.
std::optional<std::string> qnn_version_mismatch(const std::string& message,
                                                const std::string& model,
                                                const GraphOptions& options);

}  // namespace fathom
