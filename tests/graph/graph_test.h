// What tests of graphs share: an exported model, and a runtime or none.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "graph/export/four_graph_export.h"
#include "graph/four_graph.h"
#include "tests/paths.h"
#include "tests/temporary_folder.h"

namespace fathom {

// Skips the test where this machine has no ONNX Runtime to load.
#define REQUIRE_GRAPH_RUNTIME()     \
  do {                              \
    try {                           \
      load_graph_runtime({});       \
    } catch (const Error& error) {  \
      GTEST_SKIP() << error.what(); \
    }                               \
  } while (false)

inline std::string golden(const std::string& name) { return test_paths::golden() + "/" + name; }

inline std::vector<int32_t> golden_ids(const std::string& model, const char* field) {
  const auto document = nlohmann::json::parse(read_text(golden(model) + "/golden.json"));
  return document.at(field).get<std::vector<int32_t>>();
}

inline std::vector<int32_t> golden_greedy(const std::string& model) {
  return nlohmann::json::parse(read_text(golden(model) + "/golden_greedy.json"))
      .get<std::vector<int32_t>>();
}

inline void export_golden(const std::string& model, const std::string& out, int64_t max_len = 256,
                          int64_t window = 64) {
  FourGraphExport options;
  options.out_folder = out;
  options.max_len = max_len;
  options.window = window;
  GenerationConfig generation;
  generation.eos_token_ids = {1};
  export_four_graphs(Checkpoint::open(golden(model)), read_decoder_shape(golden(model)), generation,
                     options);
}

// The message of the Error that `call` throws; "" where it throws none.
template <typename Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace fathom
