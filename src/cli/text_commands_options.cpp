// What tokenize, detokenize and render take.
#include <memory>

#include "cli/command_options.h"

namespace fathom::cli {

FinishCommand add_tokenize_options(OptionSet& set) {
  auto options = std::make_shared<TokenizeOptions>();
  TokenizeOptions* o = options.get();
  add_output(set, &o->output, "A JSON array");
  add_folder(set, &o->folder);
  set.value("--text", "TEXT", "The text (default: standard input)",
            [o](const std::string& value) { o->text = value; });
  set.flag("--no-special", "Control tokens in the text stay text, as in a user's message",
           [o] { o->control_tokens = false; });
  set.flag("--bos", "With the token that begins a raw prompt", &o->bos);
  set.flag("--jsonl", "One JSON string per line in, one JSON array per line out", &o->jsonl)
      .excludes("--text");
  return [options] { return *options; };
}

FinishCommand add_detokenize_options(OptionSet& set) {
  auto options = std::make_shared<DetokenizeOptions>();
  DetokenizeOptions* o = options.get();
  add_output(set, &o->output, "A JSON string");
  add_folder(set, &o->folder);
  set.value("--tokens", "IDS", "The ids (default: standard input)",
            [o](const std::string& value) { o->tokens = parse_ids(value, "--tokens"); });
  set.flag("--skip-special", "Without the text of special tokens", &o->skip_special);
  set.flag("--jsonl", "One JSON array per line in, one JSON string per line out", &o->jsonl)
      .excludes("--tokens");
  return [options] { return *options; };
}

FinishCommand add_render_options(OptionSet& set) {
  auto options = std::make_shared<RenderCommandOptions>();
  RenderCommandOptions* o = options.get();
  add_output(set, &o->output, "{text, ids, opens_thought}");
  add_folder(set, &o->folder);
  set.value("messages", "FILE",
            "An OpenAI messages array, or an object with \"messages\"; - is standard input",
            &o->messages)
      .required();
  set.flag("--text", "Only the text, exactly", [o] { o->part = RenderPart::text; });
  set.flag("--ids", "Only the ids", [o] { o->part = RenderPart::ids; }).excludes("--text");
  set.flag("--no-generation-prompt", "Do not open the assistant's turn at the end",
           [o] { o->generation_prompt = false; });
  return [options] { return *options; };
}

}  // namespace fathom::cli
