// The tokens that R1 writes around its tool calls.
#pragma once

#include <string_view>

namespace fathom {

enum class ToolMarker { calls_begin, call_begin, separator, call_end, calls_end };
constexpr int kToolMarkers = 5;

// A call is
//   <call begin>function<separator>NAME\n```json\nARGUMENTS\n```<call end>
// and calls stand between <calls begin> and <calls end>, a line break between two of them.
namespace tool_form {

constexpr std::string_view kType = "function";
constexpr std::string_view kBeforeArguments = "\n```json\n";
constexpr std::string_view kAfterArguments = "\n```";
constexpr std::string_view kBetweenCalls = "\n";
constexpr size_t kLongestName = 64;  // as OpenAI's API has it

}  // namespace tool_form

constexpr std::string_view tool_marker_text(ToolMarker marker) {
  constexpr std::string_view kTexts[kToolMarkers] = {"<｜tool▁calls▁begin｜>",
                                                     "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
                                                     "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"};
  return kTexts[static_cast<int>(marker)];
}

}  // namespace fathom
