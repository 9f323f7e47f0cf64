#include "cli/options.h"

#include <gtest/gtest.h>

#include "fathom/error.h"

namespace fathom::cli {
namespace {

ParsedLine parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "fathom");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

template <typename Options>
Options parse_as(std::vector<const char*> arguments) {
  return std::get<Options>(parse(std::move(arguments)).command.value());
}

// The message of the usage error that the command line must be.
std::string refused(std::vector<const char*> arguments) {
  try {
    parse(std::move(arguments));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "was accepted";
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Options, GenerateTakesEverythingThatItNames) {
  const auto o = parse_as<GenerateOptions>({"generate",
                                            "--model",
                                            "M",
                                            "--prompt",
                                            "-x --json",
                                            "-n",
                                            "16",
                                            "--temp",
                                            "0.5",
                                            "--top-k",
                                            "40",
                                            "--top-p",
                                            "0.9",
                                            "--min-p",
                                            "0.05",
                                            "--seed",
                                            "18446744073709551615",
                                            "--repeat-penalty",
                                            "1.1",
                                            "--presence-penalty",
                                            "-0.5",
                                            "--frequency-penalty",
                                            "0.25",
                                            "--logit-bias",
                                            "7=-100",
                                            "--logit-bias",
                                            "8=1.5",
                                            "--stop",
                                            "[end]",
                                            "--stop",
                                            "b",
                                            "--stop-id",
                                            "3",
                                            "--ignore-eos",
                                            "--ctx",
                                            "16K",
                                            "--kv",
                                            "int8",
                                            "--head",
                                            "int8",
                                            "--embed",
                                            "int8",
                                            "--threads",
                                            "3",
                                            "--kernels",
                                            "reference",
                                            "--prefill-chunk",
                                            "32",
                                            "--quiet"});
  EXPECT_EQ(o.model.folder, "M");
  EXPECT_EQ(o.kind, PromptKind::text);
  EXPECT_EQ(o.prompt, "-x --json");
  EXPECT_EQ(o.ask.max_tokens, 16);
  EXPECT_EQ(o.ask.sampling.temperature, 0.5);
  EXPECT_EQ(o.ask.sampling.top_k, 40);
  EXPECT_EQ(o.ask.sampling.top_p, 0.9);
  EXPECT_EQ(o.ask.sampling.min_p, 0.05);
  EXPECT_EQ(o.ask.seed, UINT64_MAX);
  EXPECT_EQ(o.ask.sampling.repetition_penalty, 1.1);
  EXPECT_EQ(o.ask.sampling.presence_penalty, -0.5);
  EXPECT_EQ(o.ask.sampling.frequency_penalty, 0.25);
  const std::vector<std::pair<int32_t, double>> bias = {{7, -100.0}, {8, 1.5}};
  EXPECT_EQ(o.ask.sampling.logit_bias, bias);
  EXPECT_EQ(o.ask.stop, (std::vector<std::string>{"[end]", "b"}));
  EXPECT_EQ(o.ask.stop_ids, std::vector<int32_t>{3});
  EXPECT_TRUE(o.ask.ignore_eos);
  EXPECT_EQ(o.model.context, 16384);
  EXPECT_EQ(o.model.kv, KvPrecision::int8);
  EXPECT_EQ(o.model.head, WeightPrecision::int8);
  EXPECT_EQ(o.model.embed, WeightPrecision::int8);
  EXPECT_EQ(o.model.threads, 3);
  EXPECT_EQ(o.model.kernels, "reference");
  EXPECT_EQ(o.model.prefill_chunk, 32);
  EXPECT_TRUE(o.output.quiet);
  EXPECT_FALSE(o.output.json);
}

TEST(Options, WhatIsNotGivenIsLeftToTheModel) {
  const auto o = parse_as<GenerateOptions>({"generate", "--tokens", "0, 5,9", "--json"});
  EXPECT_EQ(o.kind, PromptKind::tokens);
  EXPECT_EQ(o.tokens, (std::vector<int32_t>{0, 5, 9}));
  EXPECT_FALSE(o.ask.sampling.temperature || o.ask.sampling.top_k || o.ask.sampling.top_p ||
               o.ask.sampling.min_p || o.ask.sampling.repetition_penalty || o.ask.seed);
  EXPECT_EQ(o.ask.max_tokens, 0);
  EXPECT_EQ(o.model.context, 0);
  EXPECT_EQ(o.model.kv, KvPrecision::bf16);
  EXPECT_EQ(o.model.head, WeightPrecision::native);
  EXPECT_EQ(o.model.embed, WeightPrecision::native);
  EXPECT_TRUE(o.output.json);
}

TEST(Options, NoLimitOfTopKHasTwoSpellings) {
  for (const char* all : {"0", "-1"}) {
    EXPECT_EQ(
        parse_as<GenerateOptions>({"generate", "--tokens", "0", "--top-k", all}).ask.sampling.top_k,
        0);
  }
}

TEST(Options, OtherCommands) {
  const auto chat = parse_as<ChatOptions>({"chat", "--think", "hide", "--system", "Be brief."});
  EXPECT_EQ(chat.think, ThinkMode::hide);
  EXPECT_EQ(chat.system, "Be brief.");
  const auto logits = parse_as<LogitsOptions>({"logits", "--tokens", "1 2", "--out", "o.npy",
                                               "--position", "160000", "--mtp", "--hidden", "h.npy",
                                               "--attentions", "a.npy", "--kv", "f32"});
  EXPECT_EQ(logits.position, 160000);
  EXPECT_TRUE(logits.mtp);
  EXPECT_EQ(logits.hidden, "h.npy");
  EXPECT_EQ(logits.attentions, "a.npy");
  EXPECT_EQ(logits.model.kv, KvPrecision::f32);
  const auto tokenize =
      parse_as<TokenizeOptions>({"tokenize", "--no-special", "--bos", "--text", ""});
  EXPECT_FALSE(tokenize.control_tokens);
  EXPECT_TRUE(tokenize.bos);
  EXPECT_EQ(tokenize.text, "");
  EXPECT_TRUE(parse_as<TokenizeOptions>({"tokenize", "--jsonl"}).jsonl);
  EXPECT_EQ(parse_as<DetokenizeOptions>({"detokenize", "--tokens", "[1,2]"}).tokens,
            (std::vector<int32_t>{1, 2}));
  const auto render = parse_as<RenderCommandOptions>({"render", "-", "--no-generation-prompt"});
  EXPECT_EQ(render.messages, "-");
  EXPECT_FALSE(render.generation_prompt);
  const auto perplexity = parse_as<PerplexityOptions>({"perplexity", "--file", "f", "--ctx", "64"});
  EXPECT_EQ(perplexity.file, "f");
  EXPECT_EQ(perplexity.model.context, 64);
  const auto synth = parse_as<SynthCommandOptions>(
      {"synth", "--config", "c", "--out", "d", "--seed", "4", "--shards", "3"});
  EXPECT_EQ(synth.config, "c");
  EXPECT_EQ(synth.out, "d");
  EXPECT_EQ(synth.seed, 4u);
  EXPECT_EQ(synth.shards, 3);
  EXPECT_FALSE(synth.skeleton);
  const auto skeleton =
      parse_as<SynthCommandOptions>({"synth", "--config", "c", "--out", "d", "--skeleton", "--live",
                                     "--live-rows", "64", "--shards-csv", "t"});
  EXPECT_TRUE(skeleton.skeleton);
  EXPECT_TRUE(skeleton.live);
  EXPECT_EQ(skeleton.live_rows, 64);
  EXPECT_EQ(skeleton.shard_table, "t");
  EXPECT_EQ(parse_as<BenchKernelsOptions>({"bench", "kernels", "--seconds", "2.5"}).seconds, 2.5);
}

TEST(Options, RefusalsNameTheOption) {
  const std::vector<std::pair<std::vector<const char*>, std::string>> cases = {
      {{"generate", "--tokens", "0", "--temp", "hot"}, "--temp: 'hot'"},
      {{"generate", "--tokens", "0", "--temp", "-1"}, "--temp: "},
      {{"generate", "--tokens", "0", "--temp", "nan"}, "--temp: "},
      {{"generate", "--tokens", "0", "--top-p", "1.5"}, "--top-p: "},
      {{"generate", "--tokens", "0", "--top-k", "2.5"}, "--top-k: "},
      {{"generate", "--tokens", "0", "--min-p", "2"}, "--min-p: "},
      {{"generate", "--tokens", "0", "--repeat-penalty", "0"}, "--repeat-penalty: "},
      {{"generate", "--tokens", "0", "--presence-penalty", "3"}, "--presence-penalty: "},
      {{"generate", "--tokens", "0", "--logit-bias", "7:1"}, "--logit-bias: "},
      {{"generate", "--tokens", "0", "--logit-bias", "7=1000"}, "--logit-bias: "},
      {{"generate", "--tokens", "0", "--seed", "-1"}, "--seed: "},
      {{"generate", "--tokens", "0", "-n", "0"}, "-n (--max-tokens): "},
      {{"generate", "--tokens", "0", "-n", "1e3"}, "-n (--max-tokens): "},
      {{"generate", "--tokens", "0", "--ctx", "0"}, "--ctx: "},
      {{"generate", "--tokens", "0", "--ctx", "16X"}, "--ctx: '16X'"},
      {{"generate", "--tokens", "0", "--kv", "fp8"}, "--kv: 'fp8'"},
      {{"generate", "--tokens", "0", "--head", "fp8"}, "--head: 'fp8'"},
      {{"generate", "--tokens", "0", "--embed", "bf16"}, "--embed: 'bf16'"},
      {{"generate", "--tokens", "0", "--threads", "0"}, "--threads: "},
      {{"generate", "--tokens", "0", "--kernels", "sse"}, "--kernels: "},
      {{"generate", "--tokens", "0,x"}, "--tokens: 'x'"},
      {{"generate", "--tokens", "0,-1"}, "--tokens: '-1'"},
      {{"generate", "--tokens", "4294967296"}, "--tokens: "},
      {{"generate", "--tokens", ","}, "--tokens: "},
      {{"generate", "--prompt", ""}, "--prompt: "},
      {{"generate", "--chat", ""}, "--chat: "},
      {{"generate", "--tokens", "0", "--stop", ""}, "--stop: "},
      {{"generate", "--tokens", "0", "--frobnicate"}, "--frobnicate"},
      {{"generate", "--tokens", "0", "--temp"}, "--temp"},
      {{"generate", "--tokens", "0", "--temp", "1", "--temp", "2"}, "--temp"},
      {{"generate"}, "exactly one of --prompt"},
      {{"generate", "--prompt", "a", "--chat", "b"}, "exactly one of --prompt"},
      {{"generate", "--prompt", "a", "--system", "b"}, "--system"},
      {{"logits", "--tokens", "1"}, "--out"},
      {{"logits", "--out", "o.npy"}, "--tokens"},
      {{"logits", "--tokens", "1", "--hidden", "h", "--mtp"}, "--mtp"},
      {{"logits", "--tokens", "1", "--out", "o", "--position", "-1"}, "--position"},
      {{"perplexity"}, "--file"},
      {{"perplexity", "--file", "f", "--ctx", "1"}, "--ctx"},
      {{"render"}, "messages"},
      {{"synth", "--out", "d"}, "--config"},
      {{"synth", "--config", "c"}, "--out"},
      {{"synth", "--config", "c", "--out", "d", "--shards", "0"}, "--shards: "},
      {{"synth", "--config", "c", "--out", "d", "--live"}, "--skeleton"},
      {{"synth", "--config", "c", "--out", "d", "--skeleton", "--live-rows", "9"}, "--live "},
      {{"synth", "--config", "c", "--out", "d", "--shards", "2", "--shards-csv", "t"},
       "--shards-csv"},
      {{"chat", "--think", "maybe"}, "--think: 'maybe'"},
      {{"bench"}, "fathom bench --help"},
      {{"bench", "kernels", "--seconds", "0"}, "--seconds"},
      {{"dance"}, "dance"},
      {{}, "fathom --help"},
  };
  for (const auto& [arguments, part] : cases) {
    const std::string message = refused(arguments);
    EXPECT_TRUE(contains(message, part)) << message << " does not say " << part;
  }
}

TEST(Options, HelpOfEveryCommandHasAnExample) {
  for (const std::vector<const char*>& command :
       std::vector<std::vector<const char*>>{{"chat"},
                                             {"generate"},
                                             {"logits"},
                                             {"tokenize"},
                                             {"detokenize"},
                                             {"render"},
                                             {"perplexity"},
                                             {"synth"},
                                             {"bench"},
                                             {"bench", "kernels"}}) {
    std::vector<const char*> arguments = command;
    arguments.push_back("--help");
    const ParsedLine line = parse(arguments);
    EXPECT_FALSE(line.command);
    EXPECT_TRUE(contains(line.text, "Example:\n  ")) << line.text;
    EXPECT_TRUE(contains(line.text, std::string("fathom ") + command.front())) << line.text;
  }
  EXPECT_TRUE(contains(parse({"--help"}).text, "generate"));
  EXPECT_EQ(parse({"--version"}).text.rfind("fathom ", 0), 0u);
}

TEST(Options, SamplingInForceSaysWhereValuesComeFrom) {
  SamplingRequest request;
  GenerationConfig file;
  EXPECT_EQ(sampling_in_force(request, file).text, "temperature 1 (default)");
  file.temperature = 0.6;
  file.top_p = 0.95;
  EXPECT_EQ(sampling_in_force(request, file).text,
            "temperature 0.6 (generation_config.json), top_p 0.95 (generation_config.json)");
  request.top_p = 1;
  request.top_k = 20;
  EXPECT_EQ(sampling_in_force(request, file).text,
            "temperature 0.6 (generation_config.json), top_k 20 (option), top_p off (option)");
  file.do_sample = false;
  EXPECT_EQ(sampling_in_force(request, file).temperature, 0);
  request.temperature = 0.7;
  EXPECT_EQ(sampling_in_force(request, file).temperature, 0.7);
}

TEST(Options, FreshSeedsDiffer) {
  EXPECT_EQ(choose_seed(7, 0.6), 7u);
  EXPECT_EQ(choose_seed(std::nullopt, 0), 0u);
  // Three equal ones by chance: once in 2^64 runs.
  const uint64_t first = choose_seed(std::nullopt, 0.6);
  EXPECT_TRUE(choose_seed(std::nullopt, 0.6) != first || choose_seed(std::nullopt, 0.6) != first);
}

}  // namespace
}  // namespace fathom::cli
