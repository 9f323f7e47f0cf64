// What generation needs of a loaded model; the Engine has it all, a test may put it together.
#pragma once

#include <memory>
#include <string>

#include "cache/kv_cache.h"
#include "checkpoint/hf_config.h"
#include "engine/output_format.h"
#include "engine/prefix_cache.h"
#include "engine/speculation.h"
#include "engine/text_folder.h"
#include "fathom/model.h"
#include "model/decoder.h"

namespace fathom {

// All of it outlives whatever is made with it.
struct ModelParts {
  Decoder* model = nullptr;
  std::shared_ptr<KvPagePool> pages;
  std::shared_ptr<PrefixCache> prefixes = std::make_shared<PrefixCache>();  // in those pages
  const GenerationConfig* defaults = nullptr;  // generation_config.json
  const TextFolder* text = nullptr;            // nullptr where the folder has no tokenizer
  const ContextDecision* context = nullptr;
  std::string folder;
  std::shared_ptr<FormatCompiler> formats;  // where there is text
  SpeculationJudge* judge = nullptr;
  bool experts_on_disk = false;
  int64_t most_prompt_rows = 0;  // of one prompt in one pass, as memory allows; 0: no limit
};

}  // namespace fathom
