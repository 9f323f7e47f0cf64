#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/session.h"
#include "engine/text_folder.h"

namespace fathom::cli {
namespace {

// The messages array of a file, which may also be a request with a field of that name.
std::string messages_of(const std::string& path) {
  const std::string name = path == "-" ? "standard input" : path;
  const nlohmann::ordered_json json = parse_ordered_json(read_input(path), name);
  if (json.is_array()) return json.dump();
  if (!json.is_object() || !json.contains("messages")) {
    fail_input("{}: neither an array of messages nor an object with \"messages\"", name);
  }
  return json["messages"].dump();
}

}  // namespace

int run_command(const RenderCommandOptions& options, Output& output) {
  const std::string folder = model_folder(options.folder);
  require_tokenizer(folder, "render");
  const TextFolder text = TextFolder::open(folder);
  const std::string messages = messages_of(options.messages);
  RenderOptions how;
  how.add_generation_prompt = options.generation_prompt;
  const std::string shown = text.render_pieces(messages, how).prompt.text();
  const Prompt prompt = text.render(messages, how);
  if (options.output.json) {
    output.write(JsonObject()
                     .text("text", shown)
                     .ids("ids", prompt.ids)
                     .boolean("opens_thought", prompt.opens_thought)
                     .str() +
                 "\n");
    return kExitOk;
  }
  if (options.part != RenderPart::ids) output.write_foreign(shown);
  if (options.part == RenderPart::text) return kExitOk;
  if (options.part == RenderPart::both && !shown.ends_with('\n')) output.write("\n");
  for (size_t i = 0; i < prompt.ids.size(); ++i) {
    output.write((i ? " " : "") + std::to_string(prompt.ids[i]));
  }
  output.write("\n");
  return kExitOk;
}

}  // namespace fathom::cli
