#include "text/tool_calls.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace fathom {
namespace {

constexpr std::string_view kBlank = " \n\r\t";
constexpr std::string_view kFence = "```";
constexpr size_t kLongestWord = 2 * tool_form::kLongestName;

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// What may stand before the arguments: nothing, or a fence with a language; or their beginnings.
bool opens_arguments(std::string_view text) {
  text = trimmed(text);
  if (kFence.starts_with(text)) return true;
  if (text.starts_with(kFence)) text.remove_prefix(kFence.size());
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

bool closes_arguments(std::string_view text) {
  text = trimmed(text);
  return text.empty() || text == kFence;
}

}  // namespace

ToolCallParser::ToolCallParser(const Tokenizer& tokenizer) {
  for (int i = 0; i < kToolMarkers; ++i) {
    const auto id = tokenizer.id_of(tool_marker_text(static_cast<ToolMarker>(i)));
    ids_[i] = id.value_or(-1);
  }
}

std::optional<ToolMarker> ToolCallParser::marker(TokenId id) const {
  for (int i = 0; i < kToolMarkers; ++i) {
    if (ids_[i] == id && id >= 0) return static_cast<ToolMarker>(i);
  }
  return std::nullopt;
}

// Looks for the markers that are no tokens; what may become one is held.
std::vector<ToolPiece> ToolCallParser::push(std::string_view text) {
  Pieces out;
  held_ += text;
  while (true) {
    size_t at = held_.npos;
    int found = 0;
    for (int i = 0; i < kToolMarkers; ++i) {
      if (ids_[i] >= 0) continue;
      const size_t place = held_.find(tool_marker_text(static_cast<ToolMarker>(i)));
      if (place < at) {
        at = place;
        found = i;
      }
    }
    if (at == held_.npos) break;
    const auto marker = static_cast<ToolMarker>(found);
    const std::string rest = held_.substr(at + tool_marker_text(marker).size());
    take_text(std::string_view(held_).substr(0, at), out);
    take_marker(marker, out);
    held_ = rest;
  }
  size_t keep = 0;
  for (int i = 0; i < kToolMarkers; ++i) {
    if (ids_[i] >= 0) continue;
    const std::string_view marker = tool_marker_text(static_cast<ToolMarker>(i));
    size_t size = std::min(held_.size(), marker.size() - 1);
    while (size > keep && !held_.ends_with(marker.substr(0, size))) --size;
    keep = std::max(keep, size);
  }
  const std::string kept = held_.substr(held_.size() - keep);
  held_.resize(held_.size() - keep);
  take_text(held_, out);
  held_ = kept;
  return out;
}

std::vector<ToolPiece> ToolCallParser::push(ToolMarker marker) {
  Pieces out;
  take_text(std::exchange(held_, {}), out);
  take_marker(marker, out);
  return out;
}

std::vector<ToolPiece> ToolCallParser::finish() {
  Pieces out;
  take_text(std::exchange(held_, {}), out);
  if (state_ == State::arguments && end_call(out)) return out;
  if (!block_.empty()) give_back("", out);
  return out;
}

void ToolCallParser::take_text(std::string_view text, Pieces& out) {
  if (text.empty()) return;
  if (state_ == State::content) {
    out.push_back({ToolPiece::Kind::content, std::string(text)});
    return;
  }
  if (state_ == State::between) {
    word_ += text;
    if (!trimmed(word_).empty()) give_back(std::exchange(word_, {}), out);
    return;
  }
  block_ += text;
  if (state_ == State::arguments) {
    take_arguments(text, out);
    return;
  }
  word_ += text;
  if (state_ == State::name) take_name(out);
  if (state_ != State::arguments && word_.size() > kLongestWord) give_back("", out);
}

void ToolCallParser::take_name(Pieces& out) {
  const size_t end = word_.find('\n');
  if (end == word_.npos) return;
  const std::string name(trimmed(std::string_view(word_).substr(0, end)));
  if (name.empty() || name.size() > tool_form::kLongestName) {
    give_back("", out);
    return;
  }
  const std::string rest = word_.substr(end);
  out.push_back({ToolPiece::Kind::begins, name});
  told_ = true;
  state_ = State::arguments;
  word_.clear();
  take_arguments(rest, out);
}

void ToolCallParser::take_arguments(std::string_view text, Pieces& out) {
  if (arguments_.empty()) {
    word_ += text;
    const size_t begin = word_.find('{');
    if (!opens_arguments(std::string_view(word_).substr(0, begin)) ||
        (begin == word_.npos && word_.size() > kLongestWord)) {
      give_back("", out);
      return;
    }
    if (begin == word_.npos) return;
    tail_ = word_.substr(begin);
    word_.clear();
  } else {
    tail_ += text;
  }
  // Blanks and fences are told when something follows them.
  const size_t end = tail_.find_last_not_of(" \n\r\t`");
  if (end == tail_.npos) return;
  const std::string more = tail_.substr(0, end + 1);
  tail_.erase(0, end + 1);
  arguments_ += more;
  out.push_back({ToolPiece::Kind::arguments, more});
}

bool ToolCallParser::end_call(Pieces& out) {
  if (arguments_.empty() || !closes_arguments(tail_) || !nlohmann::json::accept(arguments_)) {
    return false;
  }
  out.push_back({ToolPiece::Kind::ends, ""});
  block_.clear();
  told_ = false;
  state_ = State::between;
  word_.clear();
  return true;
}

void ToolCallParser::begin_call() {
  block_ += tool_marker_text(ToolMarker::call_begin);
  state_ = State::type;
  word_.clear();
  arguments_.clear();
  tail_.clear();
}

void ToolCallParser::take_marker(ToolMarker marker, Pieces& out) {
  const bool outside = state_ == State::content || state_ == State::between;
  switch (marker) {
    case ToolMarker::calls_begin:
      if (state_ == State::between && block_.empty()) state_ = State::content;
      if (state_ != State::content) give_back("", out);
      block_ = tool_marker_text(marker);
      state_ = State::between;
      word_.clear();
      return;
    case ToolMarker::call_begin:
      if (!outside) give_back("", out);
      begin_call();
      return;
    case ToolMarker::separator:
      if (state_ != State::type || trimmed(word_) != tool_form::kType) break;
      block_ += tool_marker_text(marker);
      state_ = State::name;
      word_.clear();
      return;
    case ToolMarker::call_end:
      if (state_ != State::arguments || !end_call(out)) break;
      return;
    case ToolMarker::calls_end:
      if (state_ != State::between || !block_.empty()) break;
      state_ = State::content;
      return;
  }
  give_back(tool_marker_text(marker), out);
}

void ToolCallParser::give_back(std::string_view text, Pieces& out) {
  if (std::exchange(told_, false)) out.push_back({ToolPiece::Kind::broken, ""});
  const std::string content = std::exchange(block_, {}) + std::string(text);
  if (!content.empty()) out.push_back({ToolPiece::Kind::content, content});
  state_ = State::content;
  word_.clear();
}

}  // namespace fathom
