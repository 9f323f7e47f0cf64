#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/join.h"
#include "base/npy.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "cli/session.h"
#include "sample/sampler.h"

namespace fathom::cli {
namespace {

// The files of one run: all written before the first appears under its name.
class Arrays {
 public:
  void add(const std::string& path, const std::vector<int64_t>& shape,
           const std::vector<float>& values) {
    if (path.empty()) return;
    writers_.push_back(std::make_unique<NpyWriter>(path, shape));
    writers_.back()->write(values);
    names_.push_back(path);
    shapes_.push_back(shape);
  }
  void commit() {
    for (const auto& writer : writers_) writer->commit();
  }
  std::string lines() const {
    std::string text;
    for (size_t i = 0; i < names_.size(); ++i) {
      text += fmt::format("{} float32 {}\n", names_[i], shape_text(shapes_[i]));
    }
    return text;
  }
  std::string json() const {
    std::string text = "[";
    for (const std::string& name : names_) text += (text.size() > 1 ? "," : "") + json_string(name);
    return text + "]";
  }

 private:
  std::vector<std::unique_ptr<NpyWriter>> writers_;
  std::vector<std::string> names_;
  std::vector<std::vector<int64_t>> shapes_;
};

// Or the second array would take the place of the first.
void require_different(const std::string& a, const std::string& b, const char* options) {
  const auto plain = [](const std::string& path) {
    std::error_code ignored;
    return std::filesystem::weakly_canonical(path, ignored);
  };
  if (!a.empty() && !b.empty() && plain(a) == plain(b) && a != "/dev/null") {
    fail_usage("{} name the same file, {}", options, a);
  }
}

}  // namespace

int run_command(const LogitsOptions& options, Output& output) {
  ModelOptions model_options = options.model;
  model_options.folder = model_folder(options.model.folder);
  require_parent_folder(options.out, "--out");
  require_parent_folder(options.hidden, "--hidden");
  require_parent_folder(options.attentions, "--attentions");
  require_different(options.out, options.hidden, "--out and --hidden");
  require_different(options.out, options.attentions, "--out and --attentions");
  require_different(options.hidden, options.attentions, "--hidden and --attentions");

  Model model = load_model(model_options, options.output,
                           options.text ? TextNeeds::tokenizer : TextNeeds::none, options.mtp);
  ForwardInput input;
  input.ids = options.text ? model.raw_prompt(*options.text).ids : options.tokens;
  if (options.mtp && input.ids.size() < 2) fail_usage("--mtp: needs at least two tokens");
  for (size_t i = 0; i < input.ids.size() && options.position > 0; ++i) {
    input.positions.push_back(options.position + static_cast<int64_t>(i));
  }
  input.mtp_logits = options.mtp;
  input.logits = !options.mtp;
  input.hidden_states = !options.hidden.empty();
  input.attentions = !options.attentions.empty();
  input.cancel = &interrupt_token();
  const ForwardOutput result = model.forward(input);

  const std::vector<float>& logits = options.mtp ? result.mtp_logits : result.logits;
  const int64_t rows = options.mtp ? result.rows - 1 : result.rows;
  std::vector<int32_t> best;
  for (int64_t i = 0; i < rows; ++i) {
    const auto vocab = static_cast<size_t>(result.vocab);
    best.push_back(argmax(std::span(logits).subspan(static_cast<size_t>(i) * vocab, vocab)));
  }

  Arrays arrays;
  arrays.add(options.out, {rows, result.vocab}, logits);
  arrays.add(options.hidden, {result.layers + 1, result.rows, result.hidden}, result.hidden_states);
  arrays.add(options.attentions, {result.layers, result.heads, result.rows, result.positions},
             result.attentions);
  interrupt_token().throw_if_cancelled();
  arrays.commit();

  if (options.output.json) {
    output.write(JsonObject()
                     .integer("rows", rows)
                     .integer("vocab", result.vocab)
                     .raw("files", arrays.json())
                     .ids("argmax", best)
                     .str() +
                 "\n");
    return kExitOk;
  }
  output.write(arrays.lines());
  output.write("argmax");
  for (const int32_t id : best) output.write(" " + std::to_string(id));
  output.write("\n");
  return kExitOk;
}

}  // namespace fathom::cli
