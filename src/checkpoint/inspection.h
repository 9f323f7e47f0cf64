// All that is known of a checkpoint from its headers and its small files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/accounting.h"
#include "checkpoint/census.h"
#include "checkpoint/inspection_experts.h"
#include "checkpoint/inspection_scan.h"
#include "checkpoint/inventory.h"
#include "checkpoint/model_config.h"
#include "checkpoint/traps.h"

namespace fathom {

// What config.json says, of any architecture; a field that it lacks is empty.
struct ConfigFacts {
  bool present = false;
  std::string architecture;
  std::string model_type;
  std::string dtype;         // torch_dtype
  std::string quantisation;  // quantization_config.quant_method
  std::optional<int64_t> layers;
  std::optional<int64_t> mtp_layers;
  std::optional<int64_t> hidden_size;
  std::optional<int64_t> vocab_size;
  std::optional<int64_t> experts;
  std::optional<int64_t> experts_per_token;
  std::optional<int64_t> context;  // max_position_embeddings
  int64_t block_rows = 0;          // of quantization_config; 0 where it has no blocks
  int64_t block_cols = 0;
  bool tied = false;
  std::optional<ModelConfig> model;  // where it is one that can be run
};

// Where a folder's files say how long a sequence may be.
struct ContextClaim {
  std::string file;
  std::string field;
  int64_t tokens = 0;
};

struct SpecialToken {
  std::string role;  // "bos", "eos", ...; "" for the others
  std::string text;
  std::optional<int64_t> id;
  std::string source;  // the file that says so
};

// What the tokenizer's own reader found; this room does not know tokenizers.
struct TokenizerFacts {
  bool present = false;
  int64_t size = 0;   // highest id + 1
  int64_t added = 0;  // tokens beside the vocabulary
  int64_t special = 0;
  std::vector<SpecialToken> tokens;
  std::optional<int64_t> model_max_length;
  std::string problem;
};

struct Inspection {
  std::string folder;
  std::string name;
  ConfigFacts config;
  TokenizerFacts tokenizer;
  std::vector<SpecialToken> special_tokens;  // of all files
  std::vector<ContextClaim> contexts;
  HeaderScan scan;
  std::string stack;  // what its layers are called: "model.layers."
  Inventory inventory;
  std::vector<DtypeRow> dtypes;
  std::vector<FamilyRow> families;
  ModuleNode tree;
  Accounting accounting;
  ExpertPlaces experts;
  std::vector<Trap> traps;
  std::vector<std::string> problems;  // what is wrong, as far as headers tell
  std::optional<uint64_t> activated;  // parameters that one token meets
};

// Never writes into the folder, never reads a tensor's data. Error(io) where there is no folder.
Inspection inspect_checkpoint(const std::string& folder, const TokenizerFacts& tokenizer);

// Indices into the scan's tensors of one layer, in the order of the files.
std::vector<size_t> layer_manifest(const Inspection& inspection, int64_t layer);

}  // namespace fathom
