// The manifest of a QHexRT bundle: what runs, from which files, with which sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/runtime.h"

namespace fathom {

inline constexpr uint64_t kMostManifestBytes = uint64_t{16} << 20;

struct QhexrtContext {
  std::string file;        // relative to the artifacts' root; .bin, or .onnx (which runs anywhere)
  std::string graph;       // the QNN graph's name in the binary; "": the only one
  int64_t layers = 0;      // of a decode shard; 0: an equal share
  bool is_binary() const;  // a QNN context binary, which needs a wrapper
};

struct QhexrtManifest {
  std::string path;  // of the manifest
  std::string name;
  std::string family;
  int dsp_arch = 0;  // 81 of "v81"; 0: not said
  std::optional<int> soc_model;
  int64_t hidden = 0;
  int64_t vocab = 0;
  int64_t n_layers = 0;
  int64_t max_ctx = 0;
  int64_t kv_dim = 0;
  int64_t head_dim = 0;
  double rope_theta = 10000;
  std::vector<int64_t> eos_ids;
  std::vector<int64_t> bos_ids;  // in front of every prompt

  std::vector<QhexrtContext> decode;  // one, or shards that run in a chain
  QhexrtContext lmhead;
  std::optional<QhexrtContext> prefill;
  int64_t prefill_rows = 0;  // 0: as the graph says; needed for a binary
  std::string embed;
  std::string tokenizer;

  // Whether the mask of a decode pass leaves the current position open too. Not known of the closed
  // runtime; the default is that the position's own score is added apart.
  bool cmask_includes_current = false;
  // Whether layers in the names past_k_N of a shard count from its own first layer.
  bool local_layer_names = false;
  std::string lmhead_input = "x";  // of a binary, whose names nobody else can tell
  std::string lmhead_output = "logits";
};

// Error(input) that lists every field that is missing or wrong. What is not needed is not looked
// at.
QhexrtManifest parse_qhexrt_manifest(const std::string& text, const std::string& path);

// The manifest in a bundle: `bundle` holds it, or holds folders v73, v81, ... of which the options
// (htp_arch, soc_model) choose one, or the only one is taken. "" where this is no bundle at all.
std::string find_qhexrt_manifest(const std::string& bundle, const GraphOptions& qnn);

// Error(input) where the bundle was made for another chip or Hexagon generation than the options
// name, or lies in a folder of another generation.
void check_qhexrt_target(const QhexrtManifest& manifest, const GraphOptions& qnn);

}  // namespace fathom
