// Asks a model one question; the thought goes to stderr and the answer to stdout, as they come.
//   ask MODEL_FOLDER QUESTION [MAX_TOKENS]
// First it looks at the plain forward pass: the token that the model finds most likely to come
// next.
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

#include "fathom/model.h"

namespace {

// The OpenAI form of one user message. Only what JSON cannot hold as it is needs an escape.
std::string one_message(const std::string& text) {
  std::string json = R"([{"role":"user","content":")";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      constexpr char kDigits[] = "0123456789abcdef";
      json += "\\u00";
      json += kDigits[(c >> 4) & 15];
      json += kDigits[c & 15];
    } else {
      json += c;
    }
  }
  return json + R"("}])";
}

void ask(const std::string& folder, const std::string& question, int64_t max_tokens) {
  fathom::Model model = fathom::Model::load({.folder = folder});
  const fathom::Prompt prompt = model.render(one_message(question));

  fathom::ForwardInput input;
  input.ids = prompt.ids;
  input.last_logits_only = true;
  const fathom::ForwardOutput output = model.forward(input);
  const auto likeliest = std::max_element(output.logits.begin(), output.logits.end());
  std::cerr << prompt.ids.size()
            << " tokens of prompt; likeliest next: " << likeliest - output.logits.begin() << "\n";

  fathom::GenerateRequest request;
  request.prompt = prompt;
  request.sampling.seed = 1;
  request.max_tokens = max_tokens;
  request.on_step = [](const fathom::GenerateStep& step) {
    std::cerr << step.reasoning << std::flush;
    std::cout << step.content << std::flush;
    return true;
  };
  const fathom::GenerateResult result = model.generate(request);
  std::cout << "\n";
  std::cerr << "\n"
            << result.ids.size() << " tokens, ended by "
            << fathom::finish_reason_name(result.finish_reason) << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::cerr << "usage: ask MODEL_FOLDER QUESTION [MAX_TOKENS]\n";
    return 2;
  }
  try {
    ask(argv[1], argv[2], argc == 4 ? std::atoll(argv[3]) : 512);
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
