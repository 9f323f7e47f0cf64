#include "cli/inspect.h"

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_folder.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "engine/graph_backend.h"
#include "text/tokenizer.h"

namespace fathom::cli {
namespace {

namespace fs = std::filesystem;

// What the tokenizer's reader says of its files.
TokenizerFacts tokenizer_facts(const std::string& folder) {
  TokenizerFacts facts;
  if (!path_exists(folder + "/tokenizer.json")) return facts;
  try {
    const Tokenizer tokenizer = Tokenizer::load(folder);
    facts.present = true;
    facts.size = tokenizer.size();
    facts.model_max_length = tokenizer.model_max_length();
    const auto named = [&](const char* role, const std::string& text) {
      if (text.empty()) return;
      SpecialToken token{role, text, {}, "tokenizer_config.json"};
      if (const auto id = tokenizer.id_of(text)) token.id = *id;
      facts.tokens.push_back(std::move(token));
    };
    named("bos", tokenizer.bos_token());
    named("eos", tokenizer.eos_token());
    for (TokenId id = 0; id < facts.size; ++id) {
      const AddedToken* added = tokenizer.added_token(id);
      if (added == nullptr) continue;
      ++facts.added;
      if (added->special) ++facts.special;
      facts.tokens.push_back(
          {added->special ? "special" : "added", added->content, id, "tokenizer.json"});
    }
  } catch (const Error& error) {
    facts.problem = error.what();
  }
  return facts;
}

// Nothing is ever written into the folder that is looked at.
void require_outside(const std::string& file, const std::string& folder) {
  std::error_code ignored;
  const fs::path inside = fs::weakly_canonical(folder, ignored);
  fs::path at = fs::weakly_canonical(file, ignored);
  for (; !at.empty() && at != at.root_path(); at = at.parent_path()) {
    if (at == inside) {
      fail_usage("--html {}: that is in the checkpoint's folder, where nothing is written", file);
    }
  }
}

int inspect_graph_folder(const InspectOptions& options, const std::string& folder,
                         const GraphChoice& choice, Output& output) {
  if (options.layer || !options.html.empty()) {
    fail_usage("{}: {}", options.layer ? "--layer" : "--html",
               "this folder holds graphs, not a checkpoint");
  }
  const GraphInspection inspection = inspect_graphs(folder, choice);
  output.write(options.output.json ? graph_inspection_json(inspection) + "\n"
                                   : without_controls(graph_inspection_text(inspection)));
  return inspection.problems.empty() ? kExitOk : kExitFailed;
}

}  // namespace

int run_command(const InspectOptions& options, Output& output) {
  const std::string folder = resolve_model_folder(model_folder(options.folder));
  const GraphChoice choice = graph_choice_of(options.graph);
  if (graph_contract(folder, choice)) {
    return inspect_graph_folder(options, folder, choice, output);
  }
  if (!options.html.empty()) {
    require_parent_folder(options.html, "--html");
    require_outside(options.html, folder);
  }
  const Inspection inspection = inspect_checkpoint(folder, tokenizer_facts(folder));
  if (options.layer && layer_manifest(inspection, *options.layer).empty()) {
    fail_usage("--layer {}: {} holds no tensors of such a layer", *options.layer, folder);
  }
  if (!options.html.empty()) {
    OutputFile page(options.html);
    page.write(inspection_html(inspection));
    page.commit();
  }
  if (options.output.json) {
    output.write(inspection_json(inspection, options.layer) + "\n");
  } else if (options.layer) {
    output.write(without_controls(layer_text(inspection, *options.layer)));
  } else {
    output.write(without_controls(inspection_text(inspection)));
  }
  return inspection.problems.empty() ? kExitOk : kExitFailed;
}

}  // namespace fathom::cli
