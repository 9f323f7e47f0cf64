// fathom tokenize and fathom detokenize.
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/system.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "cli/session.h"
#include "text/tokenizer.h"

namespace fathom::cli {
namespace {

// Feeds every line of standard input to `convert` and prints what it returns, one at a time.
void convert_lines(Output& output,
                   const std::function<std::string(const nlohmann::json&)>& convert) {
  if (system::stdin_is_terminal()) {
    log::info("reading lines of JSON from the keyboard; Ctrl-D ends them");
  }
  std::string line;
  for (uint64_t number = 1; std::getline(std::cin, line); ++number) {
    const std::string place = "standard input, line " + std::to_string(number);
    const nlohmann::json value = parse_json(line, place);
    try {
      output.write(convert(value) + "\n");
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::io) throw;
      throw Error(ErrorKind::input, place + ": " + error.what());
    }
    output.flush();
  }
  interrupt_token().throw_if_cancelled();
  if (std::cin.bad()) fail(ErrorKind::io, "standard input: cannot be read");
}

std::vector<int32_t> ids_of(const nlohmann::json& value) {
  if (!value.is_array()) fail_input("not a JSON array of token ids");
  std::vector<int32_t> ids;
  for (const nlohmann::json& id : value) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX) {
      fail_input("[{}]: not a token id", ids.size());
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

std::vector<TokenId> encode(const Tokenizer& tokenizer, const TokenizeOptions& options,
                            const std::string& text) {
  std::vector<TokenId> ids = tokenizer.encode(
      text, options.control_tokens ? ControlTokens::parse : ControlTokens::as_text);
  const std::optional<TokenId> bos = tokenizer.id_of(tokenizer.bos_token());
  if (options.bos && bos && tokenizer.add_bos_token() && (ids.empty() || ids.front() != *bos)) {
    ids.insert(ids.begin(), *bos);
  }
  return ids;
}

Tokenizer open_tokenizer(const std::string& given, const char* command) {
  const std::string folder = model_folder(given);
  require_tokenizer(folder, command);
  return Tokenizer::load(folder);
}

}  // namespace

int run_command(const TokenizeOptions& options, Output& output) {
  const Tokenizer tokenizer = open_tokenizer(options.folder, "tokenize");
  if (options.jsonl) {
    convert_lines(output, [&](const nlohmann::json& value) {
      if (!value.is_string()) fail_input("not a JSON string");
      return json_array(encode(tokenizer, options, value.get_ref<const std::string&>()));
    });
    return kExitOk;
  }
  const std::string text = options.text ? *options.text : read_standard_input();
  const std::vector<TokenId> ids = encode(tokenizer, options, text);
  if (options.output.json) {
    output.write(json_array(ids) + "\n");
    return kExitOk;
  }
  for (size_t i = 0; i < ids.size(); ++i) output.write((i ? " " : "") + std::to_string(ids[i]));
  output.write("\n");
  return kExitOk;
}

int run_command(const DetokenizeOptions& options, Output& output) {
  const Tokenizer tokenizer = open_tokenizer(options.folder, "detokenize");
  if (options.jsonl) {
    convert_lines(output, [&](const nlohmann::json& value) {
      return json_string(tokenizer.decode(ids_of(value), options.skip_special));
    });
    return kExitOk;
  }
  const std::vector<int32_t> ids =
      options.tokens ? *options.tokens : parse_ids(read_standard_input(), "standard input");
  for (const int32_t id : ids) {
    if (id >= 0 && id < tokenizer.size()) continue;
    log::warning("token {} has no text: the vocabulary ends at {}", id, tokenizer.size() - 1);
  }
  const std::string text = tokenizer.decode(ids, options.skip_special);
  if (options.output.json) {
    output.write(json_string(text) + "\n");
    return kExitOk;
  }
  // In a pipe exactly the text, so that it can be tokenized again.
  output.write_foreign(text);
  if (output.is_terminal() && !text.ends_with('\n')) output.write("\n");
  return kExitOk;
}

}  // namespace fathom::cli
