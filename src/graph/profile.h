// What a profile says, in a line or two.
#pragma once

#include <string>

namespace fathom {

// Of ONNX Runtime's JSON trace, or of the QNN provider's CSV: where the time went, the largest
// parts first. Error(input) where the file is neither.
std::string profile_summary(const std::string& file);

}  // namespace fathom
