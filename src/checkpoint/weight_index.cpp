#include "checkpoint/weight_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/json_sax.h"

namespace fathom {
namespace {

constexpr int kMostNesting = 64;  // inside what is skipped

// Takes the index as events: as a document, the 92 thousand entries of a large model would cost
// several times the time and memory.
class IndexHandler {
 public:
  using Json = nlohmann::json;

  IndexHandler(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  WeightIndex take() {
    sax_parse_json<Json>(text_, path_, &reached_, this);
    if (!has_map_) fail_input("{}: there is no 'weight_map'", path_);
    sort_files();
    return std::move(index_);
  }

  bool null() { return scalar("null"); }
  bool boolean(bool) { return scalar("true or false"); }
  bool number_integer(Json::number_integer_t) { return scalar("a number"); }
  bool number_float(Json::number_float_t, const std::string&) { return scalar("a number"); }
  bool binary(Json::binary_t&) { return false; }
  bool number_unsigned(Json::number_unsigned_t value) {
    if (in_metadata_ && depth_ == 2 && key_ == "total_size") index_.total_size = value;
    return scalar("a number");
  }
  bool string(std::string& value) {
    if (!in_map_ || depth_ != 2) return scalar("a string");
    add(value);
    return true;
  }

  bool start_object(size_t) {
    if (depth_ == 1 && in_map_) {
      ++depth_;
      return true;
    }
    if (depth_ != 0) return open("an object");
    ++depth_;
    return true;
  }
  bool start_array(size_t) { return open("a list"); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    if (depth_ == 1) {
      in_map_ = name == "weight_map";
      in_metadata_ = name == "metadata";
      if (in_map_ && has_map_) refuse("'weight_map' is given twice");
      has_map_ |= in_map_;
    }
    if (depth_ <= 2) key_ = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) {
    fail_json(text_, position, path_, json_syntax_problem(error.what()));
  }

 private:
  [[noreturn]] void refuse(std::string_view problem) const {
    fail_json(text_, static_cast<size_t>(reached_ - text_.data()), path_, problem);
  }

  bool scalar(std::string_view kind) {
    if (depth_ == 0) refuse(fmt::format("the index is {} and not an object", kind));
    if (in_map_) refuse_in_map(kind);
    return true;
  }
  bool open(std::string_view kind) {
    if (depth_ == 0) refuse(fmt::format("the index is {} and not an object", kind));
    if (in_map_) refuse_in_map(kind);
    if (++depth_ > kMostNesting) refuse(fmt::format("more than {} nested levels", kMostNesting));
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }
  [[noreturn]] void refuse_in_map(std::string_view kind) const {
    if (depth_ == 1) refuse(fmt::format("'weight_map' is {} and not an object", kind));
    refuse(fmt::format("the file of tensor {} is {} and not a string", quoted_for_message(key_),
                       kind));
  }

  void add(const std::string& file) {
    const bool plain = !file.empty() && file != "." && file != ".." &&
                       file.find_first_of("/\\") == std::string::npos &&
                       file.find('\0') == std::string::npos;
    if (!plain) {
      refuse(
          fmt::format("tensor {} is said to be in {}: only names of files in the same folder are "
                      "accepted",
                      quoted_for_message(key_), quoted_for_message(file)));
    }
    const auto [place, is_new] = numbers_.try_emplace(file, static_cast<int>(index_.files.size()));
    if (is_new) index_.files.push_back(file);
    if (!index_.file_of_tensor.try_emplace(std::move(key_), place->second).second) {
      refuse(
          fmt::format("a tensor is listed twice, the second time in {}", quoted_for_message(file)));
    }
  }

  // Shards are opened and numbered by name, whatever the order of the index.
  void sort_files() {
    std::vector<int> order(index_.files.size());
    std::iota(order.begin(), order.end(), 0);
    const std::vector<std::string>& files = index_.files;
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return files[static_cast<size_t>(a)] < files[static_cast<size_t>(b)];
    });
    std::vector<int> place(order.size());
    std::vector<std::string> sorted;
    for (const int old : order) {
      place[static_cast<size_t>(old)] = static_cast<int>(sorted.size());
      sorted.push_back(files[static_cast<size_t>(old)]);
    }
    index_.files = std::move(sorted);
    for (auto& entry : index_.file_of_tensor) {
      entry.second = place[static_cast<size_t>(entry.second)];
    }
  }

  std::string_view text_;
  const std::string& path_;
  const char* reached_ = nullptr;
  WeightIndex index_;
  std::unordered_map<std::string, int> numbers_;  // file name -> index into files
  std::string key_;
  int depth_ = 0;  // open objects and lists
  bool in_map_ = false;
  bool in_metadata_ = false;
  bool has_map_ = false;
};

}  // namespace

WeightIndex parse_weight_index(std::string_view text, const std::string& path) {
  return IndexHandler(text, path).take();
}

}  // namespace fathom
