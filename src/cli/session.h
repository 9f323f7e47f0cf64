// What the commands that load a model share: finding it, loading it, saying what is used.
#pragma once

#include <string>

#include "cli/options.h"
#include "fathom/model.h"

namespace fathom::cli {

// The folder behind --model; where it was not given, the demo model installed with the program or
// in models/demo of its source tree. Error(usage) where there is none.
std::string model_folder(const std::string& given);

// Error(input) where the folder has no tokenizer: said before weights are loaded, not after.
void require_tokenizer(const std::string& folder, const std::string& option);
void require_tokenizer(const ModelOptions& model, const std::string& option);

// Loads with Ctrl-C as cancellation, and says on stderr what is used.
Model load_model(const ModelOptions& options, const OutputOptions& output, TextNeeds needs,
                 bool mtp = false);

// Settles the seed and the other sampling values of a generation, and says so on stderr.
void settle_sampling(AskOptions& ask, const std::string& folder, const OutputOptions& output);

const char* kv_name(KvPrecision kv);
const char* precision_name(WeightPrecision precision);

// Error(io) where a file cannot be created at `path` because its folder is missing: said before the
// work that the file is for.
void require_parent_folder(const std::string& path, const std::string& option);

// A whole text, from a file or ("-") from standard input.
std::string read_input(const std::string& path);
// The schema in the place of its file's name.
void read_format(OutputFormat* format);
std::string read_standard_input();

}  // namespace fathom::cli
