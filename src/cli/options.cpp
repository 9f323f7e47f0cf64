#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "base/error.h"
#include "kernels/dispatch.h"

namespace fathom::cli {
namespace {

constexpr int64_t kMostThreads = 1024;
constexpr int64_t kMostShards = 100'000;
constexpr int64_t kMostTokens = int64_t{1} << 40;
constexpr int64_t kMostId = std::numeric_limits<int32_t>::max();

using Setter = std::function<void(const std::string&)>;

// An option with one value. All values are text to CLI11: they are parsed where the errors can say
// what is expected.
CLI::Option* add_value(CLI::App* app, const std::string& names, const std::string& type,
                       const std::string& help, const Setter& set) {
  CLI::Option* option = app->add_option_function<std::string>(names, set, help);
  return option->type_name(type);
}

// An option that may be given several times, one value each.
CLI::Option* add_repeated(CLI::App* app, const std::string& names, const std::string& type,
                          const std::string& help, const Setter& set) {
  CLI::Option* option = app->add_option_function<std::vector<std::string>>(
      names,
      [set](const std::vector<std::string>& values) {
        for (const std::string& value : values) set(value);
      },
      help);
  return option->type_name(type)->allow_extra_args(false);
}

Setter into(std::string* text) {
  return [text](const std::string& value) { *text = value; };
}

void add_output(CLI::App* app, OutputOptions* output, const std::string& json_help) {
  app->add_flag("--json", output->json, json_help);
  app->add_flag("--quiet", output->quiet, "Only results, warnings and errors");
}

CLI::Option* add_folder(CLI::App* app, std::string* folder) {
  return add_value(app, "--model", "DIR",
                   "Model folder: plain, a hub-cache snapshot or a hub-cache model folder "
                   "(default: the demo model)",
                   [folder](const std::string& value) {
                     if (value.empty()) fail_usage("--model: the folder's name is empty");
                     *folder = value;
                   });
}

void add_threads(CLI::App* app, int* threads) {
  add_value(app, "--threads", "N", "Threads (default: every processor this process may use)",
            [threads](const std::string& value) {
              *threads = static_cast<int>(parse_integer(value, "--threads", 1, kMostThreads));
            });
}

void add_kernels(CLI::App* app, std::string* kernels) {
  add_value(app, "--kernels", "NAME",
            "reference, avx2, avx512 or neon (default: the fastest that runs here)",
            [kernels](const std::string& value) {
              try {
                *kernels = kernels_named(value).name;
              } catch (const Error& error) {
                fail_usage("--kernels: {}", error.what());
              }
            });
}

KvPrecision parse_kv(const std::string& value) {
  if (value == "f32") return KvPrecision::f32;
  if (value == "bf16") return KvPrecision::bf16;
  if (value == "int8") return KvPrecision::int8;
  fail_usage("--kv: '{}' is none of f32, bf16, int8", value);
}

ThinkMode parse_think(const std::string& value) {
  if (value == "on") return ThinkMode::on;
  if (value == "off") return ThinkMode::off;
  if (value == "hide") return ThinkMode::hide;
  fail_usage("--think: '{}' is none of on, off, hide", value);
}

void add_model(CLI::App* app, ModelOptions* model, const std::string& context_help) {
  add_folder(app, &model->folder);
  add_threads(app, &model->threads);
  add_kernels(app, &model->kernels);
  add_value(app, "--kv", "FORMAT", "How the latent cache is kept: f32, bf16 (default) or int8",
            [model](const std::string& value) { model->kv = parse_kv(value); });
  add_value(app, "--ctx", "N", context_help, [model](const std::string& value) {
    model->context = parse_token_count(value, "--ctx");
  });
  add_value(app, "--prefill-chunk", "N",
            "Tokens worked on at once inside a layer; changes speed and memory, not results",
            [model](const std::string& value) {
              model->row_chunk = parse_integer(value, "--prefill-chunk", 1, 1 << 20);
            });
}

constexpr const char* kContextHelp =
    "Most tokens of a sequence, such as 4096 or 16K (default: as the model's files say)";

void add_ask(CLI::App* app, AskOptions* ask) {
  const std::string group = "Sampling (default: generation_config.json)";
  SamplingRequest* sampling = &ask->sampling;
  const auto real = [app, &group](const std::string& name, const std::string& help,
                                  const std::function<void(double)>& set) {
    add_value(app, name, "X", help, [name, set](const std::string& value) {
      set(parse_real(value, name));
    })->group(group);
  };
  real("--temp", "Temperature; 0 always takes the likeliest token",
       [sampling](double value) { sampling->temperature = value; });
  add_value(app, "--top-k", "N", "Only the N likeliest tokens; 0 or -1 for all",
            [sampling](const std::string& value) {
              sampling->top_k = std::max<int64_t>(0, parse_integer(value, "--top-k", -1, kMostId));
            })
      ->group(group);
  real("--top-p", "Only the likeliest tokens whose probabilities reach X",
       [sampling](double value) { sampling->top_p = value; });
  real("--min-p", "Only tokens with at least X times the highest probability",
       [sampling](double value) { sampling->min_p = value; });
  add_value(app, "--seed", "N",
            "The same seed gives the same tokens on every machine (default: a fresh one, reported)",
            [ask](const std::string& value) { ask->seed = parse_seed(value, "--seed"); })
      ->group(group);
  real("--repeat-penalty", "Makes every token seen so far less likely; 1 is off",
       [sampling](double value) { sampling->repetition_penalty = value; });
  real("--presence-penalty", "Taken from the logit of every token generated so far",
       [sampling](double value) { sampling->presence_penalty = value; });
  real("--frequency-penalty", "The same, as often as the token came",
       [sampling](double value) { sampling->frequency_penalty = value; });
  add_repeated(app, "--logit-bias", "ID=VALUE", "Added to a token's logit; repeatable",
               [sampling](const std::string& value) {
                 sampling->logit_bias.push_back(parse_logit_bias(value, "--logit-bias"));
               })
      ->group(group);

  const std::string length = "Length";
  add_value(app, "-n,--max-tokens", "N",
            "Most tokens to generate, thought and answer together (default: what the context "
            "takes)",
            [ask](const std::string& value) {
              ask->max_tokens = parse_integer(value, "-n (--max-tokens)", 1, kMostTokens);
            })
      ->group(length);
  add_repeated(app, "--stop", "TEXT", "Ends before this text; repeatable",
               [ask](const std::string& value) {
                 if (value.empty()) fail_usage("--stop: the text is empty");
                 ask->stop.push_back(value);
               })
      ->group(length);
  add_repeated(app, "--stop-id", "ID", "Ends with this token; repeatable",
               [ask](const std::string& value) {
                 ask->stop_ids.push_back(
                     static_cast<int32_t>(parse_integer(value, "--stop-id", 0, kMostId)));
               })
      ->group(length);
  app->add_flag("--ignore-eos", ask->ignore_eos, "Go on after the model's own end")->group(length);
}

// Tokens that must be given when the option is.
std::vector<int32_t> parse_some_ids(const std::string& value, const char* option) {
  std::vector<int32_t> ids = parse_ids(value, option);
  if (ids.empty()) fail_usage("{}: there is no token id", option);
  return ids;
}

// A subcommand's arguments while they are collected, and what makes a command of them.
class CommandLine {
 public:
  CommandLine() : app_("Runs DeepSeek-R1 from its Hugging Face folder.", "fathom") {
    app_.set_version_flag("--version", "fathom " FATHOM_VERSION, "Print the version");
    app_.require_subcommand(1);
    app_.footer(
        "fathom COMMAND --help says more, with an example.\n"
        "Exit codes: 0 done, 1 failed, 2 wrong use, 130 stopped by Ctrl-C.");
    add_chat();
    add_generate();
    add_logits();
    add_tokenize();
    add_detokenize();
    add_render();
    add_perplexity();
    add_synth();
    add_bench();
  }

  ParsedLine parse(int argc, const char* const* argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::CallForVersion&) {
      return {std::nullopt, "fathom " FATHOM_VERSION "\n"};
    } catch (const CLI::Success&) {
      return {std::nullopt, app_.help()};
    } catch (const CLI::RequiredError& error) {
      // A word that is no command is left over, and says more than that a command is missing.
      const std::vector<std::string> rest = app_.remaining(true);
      if (rest.empty()) fail_usage("{} ({} --help)", error.what(), used_command());
      fail_usage("'{}' was not expected ({} --help)", rest.front(), used_command());
    } catch (const CLI::ParseError& error) {
      fail_usage("{} ({} --help)", error.what(), used_command());
    }
    for (const auto& [app, finish] : finish_) {
      if (app->parsed()) return {finish(), ""};
    }
    fail_usage("a command is missing (fathom --help)");
  }

 private:
  // The command line's own name for what was called, as far as it was understood.
  std::string used_command() const {
    const CLI::App* at = &app_;
    std::string name = "fathom";
    while (!at->get_subcommands().empty()) {
      at = at->get_subcommands().front();
      name += " " + at->get_name();
    }
    return name;
  }

  CLI::App* add_command(CLI::App* parent, const std::string& name, const std::string& description,
                        const std::string& example) {
    CLI::App* app = parent->add_subcommand(name, description);
    app->footer(example);
    return app;
  }

  void add_chat() {
    CLI::App* app = add_command(
        &app_, "chat", "Talk with a model.",
        "In a chat, /help lists the commands, Ctrl-C stops the answer and Ctrl-D quits. A line "
        "that ends\nwith a backslash goes on in the next one. In a pipe every line is a message; "
        "with --json a line\nmay also be {\"content\": TEXT}, and one object per answer is "
        "printed.\n\nExample:\n  fathom chat --model DeepSeek-R1 --temp 0.6\n"
        "  echo \"What is 47+85?\" | fathom chat --model DeepSeek-R1 --think hide");
    add_output(app, &chat_.output, "One JSON object per answer");
    add_value(app, "--system", "TEXT", "System message",
              [this](const std::string& value) { chat_.system = value; });
    add_value(app, "--think", "MODE",
              "on: show the thought; hide: make it, but do not show it; off: open and close it at "
              "once",
              [this](const std::string& value) { chat_.think = parse_think(value); });
    add_ask(app, &chat_.ask);
    add_model(app, &chat_.model, kContextHelp);
    finish_.emplace_back(app, [this] {
      check_sampling(chat_.ask.sampling);
      return chat_;
    });
  }

  void add_generate() {
    CLI::App* app = add_command(
        &app_, "generate", "Continue a text, or answer one message.",
        "Example:\n  fathom generate --model DeepSeek-R1 --chat \"What is 47+85?\" -n 1000\n"
        "  fathom generate --model DIR --tokens 0,5,9 -n 8 --temp 0 --json");
    add_output(app, &generate_.output, "One JSON object at the end instead of text as it comes");
    const auto prompt = [this, app](const char* names, const char* type, const char* help,
                                    PromptKind kind) {
      CLI::Option* option = add_value(app, names, type, help, [this, kind](const std::string& v) {
        generate_.kind = kind;
        generate_.prompt = v;
      });
      prompts_.push_back(option->group("Prompt (exactly one)"));
    };
    prompt("--prompt", "TEXT", "Raw text to continue", PromptKind::text);
    prompt("--prompt-file", "FILE", "The same from a file; - is standard input", PromptKind::file);
    prompt("--chat", "TEXT", "One user message, rendered by the model's template",
           PromptKind::chat);
    prompt("--tokens", "IDS", "Token ids, such as 0,5,9; no tokenizer is needed",
           PromptKind::tokens);
    add_value(app, "--system", "TEXT", "System message, with --chat", [this](const std::string& v) {
      generate_.system = v;
    })->group("Prompt (exactly one)");
    add_ask(app, &generate_.ask);
    add_model(app, &generate_.model, kContextHelp);
    finish_.emplace_back(app, [this] { return finish_generate(); });
  }

  GenerateOptions finish_generate() {
    size_t given = 0;
    for (const CLI::Option* option : prompts_) given += option->count() > 0 ? 1 : 0;
    if (given != 1) {
      fail_usage("give exactly one of --prompt, --prompt-file, --chat and --tokens ({} are given)",
                 given);
    }
    if (generate_.system && generate_.kind != PromptKind::chat) {
      fail_usage("--system: only --chat has a system message");
    }
    if (generate_.kind == PromptKind::tokens) {
      generate_.tokens = parse_some_ids(generate_.prompt, "--tokens");
    } else if (generate_.prompt.empty()) {
      const char* names[] = {"--prompt", "--prompt-file", "--chat"};
      fail_usage("{}: the text is empty", names[static_cast<size_t>(generate_.kind)]);
    }
    check_sampling(generate_.ask.sampling);
    return generate_;
  }

  void add_logits() {
    CLI::App* app = add_command(
        &app_, "logits", "Write the logits of a sequence (and what leads to them) as .npy files.",
        "Example:\n  fathom logits --model DIR --tokens 0,5,9 --out logits.npy --kv f32");
    LogitsOptions* o = &logits_;
    add_output(app, &o->output, "{rows, vocab, files, argmax} instead of lines");
    add_value(app, "--tokens", "IDS", "Token ids, such as 0,5,9",
              [o](const std::string& v) { o->tokens = parse_some_ids(v, "--tokens"); });
    add_value(app, "--text", "TEXT", "Text instead of ids", [o](const std::string& v) {
      if (v.empty()) fail_usage("--text: the text is empty");
      o->text = v;
    });
    add_value(app, "--out", "FILE", "Logits, float32 [n, vocab]", into(&o->out));
    app->add_flag("--mtp", o->mtp,
                  "Into --out: logits of the multi-token-prediction layer [n-1, vocab], row i from "
                  "hidden state i and token i+1");
    add_value(app, "--hidden", "FILE", "Hidden states, float32 [layers+1, n, hidden]",
              into(&o->hidden));
    add_value(app, "--attentions", "FILE", "Attention probabilities, float32 [layers, heads, n, n]",
              into(&o->attentions));
    add_value(app, "--position", "N", "RoPE positions N, N+1, ... instead of 0, 1, ...",
              [o](const std::string& v) {
                o->position = parse_integer(v, "--position", 0, int64_t{1} << 30);
              });
    add_model(app, &o->model, kContextHelp);
    finish_.emplace_back(app, [this] {
      if (logits_.tokens.empty() == !logits_.text) {
        fail_usage("give exactly one of --tokens and --text");
      }
      if (logits_.out.empty() && logits_.hidden.empty() && logits_.attentions.empty()) {
        fail_usage("give at least one of --out, --hidden and --attentions");
      }
      if (logits_.mtp && logits_.out.empty()) fail_usage("--mtp: give --out too");
      return logits_;
    });
  }

  void add_tokenize() {
    CLI::App* app =
        add_command(&app_, "tokenize", "Text to token ids; needs only the tokenizer's files.",
                    "Example:\n  echo -n \"Hello\" | fathom tokenize --model DIR");
    TokenizeOptions* o = &tokenize_;
    add_output(app, &o->output, "A JSON array");
    add_folder(app, &o->folder);
    CLI::Option* text = add_value(app, "--text", "TEXT", "The text (default: standard input)",
                                  [o](const std::string& v) { o->text = v; });
    app->add_flag_callback(
        "--no-special", [o] { o->control_tokens = false; },
        "Control tokens in the text stay text, as in a user's message");
    app->add_flag("--bos", o->bos, "With the token that begins a raw prompt");
    app->add_flag("--jsonl", o->jsonl, "One JSON string per line in, one JSON array per line out")
        ->excludes(text);
    finish_.emplace_back(app, [this] { return tokenize_; });
  }

  void add_detokenize() {
    CLI::App* app =
        add_command(&app_, "detokenize", "Token ids to text; needs only the tokenizer's files.",
                    "Example:\n  fathom detokenize --model DIR --tokens 19923,14");
    DetokenizeOptions* o = &detokenize_;
    add_output(app, &o->output, "A JSON string");
    add_folder(app, &o->folder);
    CLI::Option* tokens =
        add_value(app, "--tokens", "IDS", "The ids (default: standard input)",
                  [o](const std::string& v) { o->tokens = parse_ids(v, "--tokens"); });
    app->add_flag("--skip-special", o->skip_special, "Without the text of special tokens");
    app->add_flag("--jsonl", o->jsonl, "One JSON array per line in, one JSON string per line out")
        ->excludes(tokens);
    finish_.emplace_back(app, [this] { return detokenize_; });
  }

  void add_render() {
    CLI::App* app = add_command(
        &app_, "render", "Messages to a prompt's text and ids, by the model's template.",
        "Example:\n  echo '[{\"role\":\"user\",\"content\":\"Hi\"}]' | fathom render "
        "--model DIR -");
    RenderCommandOptions* o = &render_;
    add_output(app, &o->output, "{text, ids, opens_thought}");
    add_folder(app, &o->folder);
    add_value(app, "messages", "FILE",
              "An OpenAI messages array, or an object with \"messages\"; - is standard input",
              into(&o->messages))
        ->required();
    CLI::Option* text = app->add_flag_callback(
        "--text", [o] { o->part = RenderPart::text; }, "Only the text, exactly");
    app->add_flag_callback(
           "--ids", [o] { o->part = RenderPart::ids; }, "Only the ids")
        ->excludes(text);
    app->add_flag_callback(
        "--no-generation-prompt", [o] { o->generation_prompt = false; },
        "Do not open the assistant's turn at the end");
    finish_.emplace_back(app, [this] { return render_; });
  }

  void add_perplexity() {
    CLI::App* app =
        add_command(&app_, "perplexity", "Mean negative log-likelihood and perplexity of a text.",
                    "The text is cut into windows of --ctx tokens that do not overlap.\n\n"
                    "Example:\n  fathom perplexity --model DeepSeek-R1 --file text.txt --ctx 2048");
    PerplexityOptions* o = &perplexity_;
    add_output(app, &o->output, "{tokens, predicted, mean_nll, perplexity, windows, ctx}");
    add_value(app, "--file", "FILE", "The text; - is standard input", [o](const std::string& v) {
      if (v.empty()) fail_usage("--file: the file's name is empty");
      o->file = v;
    });
    add_value(app, "--tokens", "IDS", "Token ids instead of a file; no tokenizer is needed",
              [o](const std::string& v) { o->tokens = parse_some_ids(v, "--tokens"); });
    add_model(app, &o->model,
              "Tokens of a window, such as 4096 or 16K (default: 2048 or the model's context)");
    finish_.emplace_back(app, [this] {
      if (perplexity_.tokens.empty() == perplexity_.file.empty()) {
        fail_usage("give exactly one of --file and --tokens");
      }
      if (perplexity_.model.context == 1) fail_usage("--ctx: a window has at least 2 tokens");
      return perplexity_;
    });
  }

  void add_synth() {
    CLI::App* app = add_command(
        &app_, "synth", "Write a random checkpoint in the released layout.",
        "Example:\n  fathom synth --config config.json --out random --seed 1 --shards 4");
    SynthCommandOptions* o = &synth_;
    add_output(app, &o->output, "{out, files, bytes, seconds, seed}");
    add_value(app, "--config", "FILE", "config.json of the model", into(&o->config))->required();
    add_value(app, "--out", "DIR", "A new or empty folder", into(&o->out))->required();
    add_value(app, "--seed", "N", "The same seed gives the same bytes (default: 0)",
              [o](const std::string& v) { o->seed = parse_seed(v, "--seed"); });
    add_value(app, "--shards", "K", "Files to spread the tensors over (default: 1)",
              [o](const std::string& v) {
                o->shards = static_cast<int>(parse_integer(v, "--shards", 1, kMostShards));
              });
    add_threads(app, &o->threads);
    finish_.emplace_back(app, [this] { return synth_; });
  }

  void add_bench() {
    CLI::App* bench = add_command(&app_, "bench", "Measure this machine.",
                                  "Example:\n  fathom bench kernels --json");
    bench->require_subcommand(1);
    CLI::App* app = add_command(
        bench, "kernels",
        "Each kernel's speed beside the read bandwidth and the multiply-add peak of this machine.",
        "Example:\n  fathom bench kernels --threads 2 --seconds 20");
    BenchKernelsOptions* o = &bench_;
    add_output(app, &o->output, "{kernels, threads, results: [...]}");
    add_threads(app, &o->threads);
    add_kernels(app, &o->kernels);
    add_value(app, "--seconds", "S", "How long to measure, all together (default: 60)",
              [o](const std::string& v) {
                o->seconds = parse_real(v, "--seconds");
                if (o->seconds <= 0 || o->seconds > 86400) {
                  fail_usage("--seconds: {} is not between 0 and 86400", v);
                }
              });
    finish_.emplace_back(app, [this] { return bench_; });
  }

  CLI::App app_;
  std::vector<std::pair<CLI::App*, std::function<Command()>>> finish_;
  std::vector<CLI::Option*> prompts_;
  ChatOptions chat_;
  GenerateOptions generate_;
  LogitsOptions logits_;
  TokenizeOptions tokenize_;
  DetokenizeOptions detokenize_;
  RenderCommandOptions render_;
  PerplexityOptions perplexity_;
  SynthCommandOptions synth_;
  BenchKernelsOptions bench_;
};

}  // namespace

ParsedLine parse_command_line(int argc, const char* const* argv) {
  return CommandLine().parse(argc, argv);
}

}  // namespace fathom::cli
