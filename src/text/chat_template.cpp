#include "text/chat_template.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "text/jinja_builtins.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_lexer.h"

namespace fathom {

using nlohmann::ordered_json;

struct ChatTemplate::Impl {
  std::string name;
  jinja::Body body;
  // Templates disagree on what a call's arguments are: JSON text to be copied, or an object to be
  // written as JSON.
  bool arguments_as_objects = false;
  bool reads_tools = false;

  jinja::Text run(const ordered_json& messages, std::string_view bos, std::string_view eos,
                  const TemplateOptions& options) const;
  bool shows(const ordered_json& messages, std::string_view needle,
             const TemplateOptions& options = {}) const;
};

namespace {

// Roughly what holding a JSON value takes; the limits of a rendering grow with it.
size_t size_of(const ordered_json& json) {
  size_t size = 16;
  if (json.is_string()) size += json.get_ref<const std::string&>().size();
  if (json.is_structured()) {
    for (const auto& [key, item] : json.items()) {
      size += size_of(item) + (json.is_object() ? key.size() : 0);
    }
  }
  return size;
}

// The template's arguments of calls, parsed where they are the JSON text of an object.
ordered_json with_argument_objects(ordered_json messages) {
  for (ordered_json& message : messages) {
    if (!message.is_object() || !message.contains("tool_calls")) continue;
    for (ordered_json& call : message["tool_calls"]) {
      if (!call.is_object() || !call.contains("function")) continue;
      ordered_json& function = call["function"];
      if (!function.is_object() || !function.contains("arguments")) continue;
      ordered_json& arguments = function["arguments"];
      if (!arguments.is_string()) continue;
      ordered_json parsed =
          ordered_json::parse(arguments.get_ref<const std::string&>(), nullptr, false);
      if (parsed.is_object()) arguments = std::move(parsed);
    }
  }
  return messages;
}

ordered_json probe_messages(ordered_json arguments) {
  ordered_json function{{"name", "probe"}, {"arguments", std::move(arguments)}};
  ordered_json call{{"id", "call00000"}, {"type", "function"}, {"function", std::move(function)}};
  ordered_json calls = ordered_json::array({std::move(call)});
  ordered_json user{{"role", "user"}, {"content", "q"}};
  ordered_json assistant{
      {"role", "assistant"}, {"content", nullptr}, {"tool_calls", std::move(calls)}};
  return ordered_json::array({std::move(user), std::move(assistant)});
}

ordered_json probe_tool() {
  ordered_json function{
      {"name", "probe_function"},
      {"description", "d"},
      {"parameters", {{"type", "object"}, {"properties", ordered_json::object()}}}};
  return {{"type", "function"}, {"function", std::move(function)}};
}

}  // namespace

jinja::Text ChatTemplate::Impl::run(const ordered_json& messages, std::string_view bos,
                                    std::string_view eos, const TemplateOptions& options) const {
  size_t input = size_of(messages);
  if (options.variables != nullptr) input += size_of(*options.variables);
  jinja::Heap heap(input);
  jinja::Scope globals;
  jinja::Interpreter interpreter(heap, &globals);
  try {
    jinja::add_functions(heap, globals);
    // Absent ones are none, not undefined: templates ask "is not none".
    globals.set("tools", jinja::Value(jinja::None{}));
    globals.set("documents", jinja::Value(jinja::None{}));
    if (options.variables != nullptr && options.variables->is_object()) {
      for (const auto& [key, value] : options.variables->items()) {
        globals.set(key, heap.from_json(value));
      }
    }
    globals.set("messages", heap.from_json(messages));
    globals.set("add_generation_prompt", jinja::Value(options.add_generation_prompt));
    globals.set("bos_token", heap.text(bos, true));
    globals.set("eos_token", heap.text(eos, true));
    return interpreter.run(body);
  } catch (const jinja::Failure& failure) {
    fail_input("{}, line {}: {}", name, interpreter.line(), failure.what());
  }
}

// Whether the conversation renders to something that holds `needle`.
bool ChatTemplate::Impl::shows(const ordered_json& messages, std::string_view needle,
                               const TemplateOptions& options) const {
  try {
    return run(messages, "", "", options).bytes().find(needle) != std::string::npos;
  } catch (const Error&) {
    return false;
  }
}

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

ChatTemplate ChatTemplate::parse(std::string_view source, const std::string& name) {
  auto impl = std::make_unique<Impl>();
  impl->name = name;
  try {
    impl->body = jinja::parse_template(source);
  } catch (const jinja::SourceError& error) {
    fail_input("{}, line {}: {}", name, error.line, error.message);
  }
  // Asked once, by two small conversations: text that comes out as it went in may stay text.
  if (source.find("tool_calls") != source.npos) {
    const ordered_json arguments{{"probe_key", "probe_value"}};
    const bool text_works =
        impl->shows(probe_messages(R"({"probe_key": "probe_value"})"), "\"probe_key\"");
    impl->arguments_as_objects = !text_works && impl->shows(probe_messages(arguments), "probe_key");
  }
  if (source.find("tools") != source.npos) {
    const ordered_json variables{{"tools", ordered_json::array({probe_tool()})}};
    const ordered_json user{{"role", "user"}, {"content", "q"}};
    TemplateOptions options;
    options.variables = &variables;
    impl->reads_tools = impl->shows(ordered_json::array({user}), "probe_function", options);
  }
  return ChatTemplate(std::move(impl));
}

bool ChatTemplate::reads_tools() const { return impl_->reads_tools; }

RenderedPrompt ChatTemplate::render(const ordered_json& messages, const Tokenizer& tokenizer,
                                    const TemplateOptions& options) const {
  const jinja::Text text =
      impl_->arguments_as_objects
          ? impl_->run(with_argument_objects(messages), tokenizer.bos_token(),
                       tokenizer.eos_token(), options)
          : impl_->run(messages, tokenizer.bos_token(), tokenizer.eos_token(), options);
  RenderedPrompt prompt;
  size_t begin = 0;
  for (const jinja::Text::Run& run : text.runs()) {
    prompt.pieces.push_back({text.bytes().substr(begin, run.end - begin), run.trusted});
    begin = run.end;
  }
  return prompt;
}

std::string RenderedPrompt::text() const {
  std::string whole;
  for (const PromptPiece& piece : pieces) whole += piece.text;
  return whole;
}

namespace {

constexpr std::string_view kBlank = " \t\n\r\v\f";

// Collects text until a control token ends it.
class PromptEncoder {
 public:
  explicit PromptEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void add_text(std::string_view text) {
    if (strip_left_ && text_.empty()) {
      text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
    }
    text_ += text;
  }

  // Text of the template: its control tokens count, what is between them is text like any other.
  void add_trusted(std::string_view text) {
    for (TokenId id : tokenizer_.encode(text, ControlTokens::parse)) {
      const AddedToken* token = tokenizer_.added_token(id);
      if (token == nullptr) continue;
      const size_t at = text.find(token->content);
      if (at == text.npos) continue;  // an ordinary entry that the file lists a second time
      add_text(text.substr(0, at));
      add_token(*token);
      text.remove_prefix(at + token->content.size());
    }
    add_text(text);
  }

  std::vector<TokenId> finish() {
    flush();
    return std::move(ids_);
  }

 private:
  void add_token(const AddedToken& token) {
    if (token.lstrip) text_.resize(text_.find_last_not_of(kBlank) + 1);
    flush();
    ids_.push_back(token.id);
    strip_left_ = token.rstrip;
  }

  void flush() {
    const std::vector<TokenId> more = tokenizer_.encode(text_, ControlTokens::as_text);
    ids_.insert(ids_.end(), more.begin(), more.end());
    text_.clear();
    strip_left_ = false;
  }

  const Tokenizer& tokenizer_;
  std::string text_;
  bool strip_left_ = false;
  std::vector<TokenId> ids_;
};

}  // namespace

std::vector<TokenId> encode_prompt(const RenderedPrompt& prompt, const Tokenizer& tokenizer) {
  PromptEncoder encoder(tokenizer);
  for (size_t i = 0; i < prompt.pieces.size();) {
    const bool trusted = prompt.pieces[i].trusted;
    std::string text;
    for (; i < prompt.pieces.size() && prompt.pieces[i].trusted == trusted; ++i) {
      text += prompt.pieces[i].text;
    }
    if (trusted) {
      encoder.add_trusted(text);
    } else {
      encoder.add_text(text);
    }
  }
  return encoder.finish();
}

}  // namespace fathom
