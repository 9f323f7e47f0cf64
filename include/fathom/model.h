// The library: load a model folder, turn text into ids and back, run the forward pass, generate.
//
//   fathom::Model model = fathom::Model::load({.folder = "DeepSeek-R1"});
//   fathom::GenerateRequest request;
//   request.prompt = model.render(R"([{"role":"user","content":"What is 47+85?"}])");
//   fathom::GenerateResult answer = model.generate(request);
//   std::cout << answer.content << "\n";
//
// Every call throws fathom::Error. A Model is used by one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fathom/cancel.h"
#include "fathom/error.h"

namespace fathom {

enum class KvPrecision { f32, bf16, int8 };

// How weights are kept in memory: as stored, or quantised at load to 8 bits with a scale for each
// row, or to 4 bits with a scale for each 64 weights of a row (not the head, nor the embedding).
// Another precision gives other logits.
enum class WeightPrecision { native, int8, int4 };

// Whether generation drafts tokens with the multi-token-prediction layer and verifies them, which
// changes no token. automatic: measured, and done only where it is faster.
enum class Speculation { off, on, automatic };

// Where routed experts live: all of them in memory, or on disk with a cache. automatic: in memory
// where everything fits.
enum class ExpertsPlace { automatic, memory, disk };

// Whether experts that the next layer will probably need are read ahead. automatic: by counters.
enum class Lookahead { automatic, on, off };

// Which of a folder's text files its user cannot do without.
enum class TextNeeds { none, tokenizer, chat };

// Models that are folders of graphs (genai_config.json, or a QHexRT bundle): what runs them.
struct GraphLoadOptions {
  std::string provider;  // "cpu", "qnn"; "": as the folder says, where that provider is there
  std::vector<std::pair<std::string, std::string>> qnn;  // options of the QNN provider
  std::string qnn_library;                   // its plugin library; "": beside the runtime
  std::string runtime;                       // ONNX Runtime's library; "": looked for
  std::vector<std::string> runtime_folders;  // where, before the usual places
  bool require_npu = false;   // an error where the NPU does not take what it is there for
  bool cpu_fallback = true;   // false: an error where any operator is left to the CPU
  std::string layout;         // "four-graph": four .onnx files without a configuration
  std::string context_cache;  // a folder for compiled contexts; "": none
  std::string profile;        // prefix of profile files; "": none
  bool prefill = false;       // QHexRT: use the bundle's prefill graph
  // QHexRT: this manifest, and the folder of the files that it names; "": found in the folder.
  std::string manifest;
  std::string artifacts;
};

struct LoadOptions {
  std::string folder;   // a Hugging Face folder, a hub-cache snapshot or a hub-cache model folder
  int threads = 0;      // 0: every processor this process may use
  std::string kernels;  // "reference", "avx2", "avx512", "neon"; "": the fastest that runs here
  KvPrecision kv = KvPrecision::bf16;
  // The matrices of the layers of a dense model.
  WeightPrecision weights = WeightPrecision::native;
  // Where head and embedding are one tensor, both must be the same (Error(usage) otherwise).
  WeightPrecision head = WeightPrecision::native;
  WeightPrecision embed =
      WeightPrecision::native;  // int8: in memory, also where experts are on disk
  int64_t context = 0;          // most tokens of one sequence; 0: decided from the folder's files
  bool mtp = false;             // load the multi-token-prediction layer too
  // on: loads that layer too, and a folder without it is refused. automatic: loads it where there
  // is one.
  Speculation speculation = Speculation::off;
  TextNeeds needs = TextNeeds::none;  // what is missing of it is reported with everything else
  std::string chat_template;          // a file used instead of the folder's template; "": none
  int64_t row_chunk = 0;              // tokens worked on at once inside a layer; 0: a good default

  // Memory. The whole process stays within `ram` bytes; 0: what is available, less a reserve.
  uint64_t ram = 0;
  int64_t sequences = 1;      // that may be at full length at once
  int64_t prefill_chunk = 0;  // most tokens of a prompt in one pass; 0: all, where memory allows
  ExpertsPlace experts = ExpertsPlace::automatic;

  // Experts on disk.
  std::string io = "auto";           // "io_uring", "pread-direct", "pread"; "auto": measured
  std::vector<std::string> mirrors;  // folders with the same checkpoint, on other disks
  std::string cache_policy;          // "lru", "lfu", "layers"; "": the best known
  Lookahead lookahead = Lookahead::automatic;
  uint64_t cache_slots = 0;  // experts kept in memory; 0: as many as fit
  std::string expert_trace;  // a file that receives every choice of experts; "": none

  GraphLoadOptions graph;

  const CancelToken* cancel = nullptr;
};

// How many tokens a sequence may have, and why.
struct ContextDecision {
  int64_t tokens = 0;
  std::string reason;  // a sentence
};

// Sampling as a request asks for it; what is not set comes from generation_config.json, and then
// from the defaults named here.
struct SamplingRequest {
  std::optional<double> temperature;         // 1; 0 is greedy
  std::optional<int64_t> top_k;              // 0: no limit
  std::optional<double> top_p;               // 1
  std::optional<double> min_p;               // 0
  std::optional<double> repetition_penalty;  // 1
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::vector<std::pair<int32_t, double>> logit_bias;
  uint64_t seed = 0;    // the same seed gives the same tokens on every machine
  uint64_t choice = 0;  // which of several samples of one prompt
};

// A rendered or given prompt.
struct Prompt {
  std::vector<int32_t> ids;
  bool opens_thought = false;  // it ends inside <think>, so the output begins with the thought
  // It ends within the words of the thought (opens_thought) or of the answer, which the output
  // continues; see RenderOptions::continue_final_message.
  bool continues_text = false;
};

// How a chat becomes a prompt.
struct RenderOptions {
  bool add_generation_prompt = true;
  // The last message is an assistant's and is left open for the model to continue: its text, after
  // its own `reasoning_content` where it has that (without content the thought stays open). Tags of
  // a thought at its beginning are tags. Takes the place of add_generation_prompt.
  bool continue_final_message = false;
  // OpenAI's array of tools as JSON, "" for none. Handed to a template that reads `tools`; else
  // described before the first user message, in the form that docs/generation.md gives.
  std::string tools;
};

struct CacheState;

// What one sequence has cached, for going on later. Copying shares memory until one side goes on.
class Cache {
 public:
  Cache();
  Cache(const Cache&);
  Cache(Cache&&) noexcept;
  Cache& operator=(Cache) noexcept;
  ~Cache();

  int64_t length() const;                // tokens cached
  std::span<const int32_t> ids() const;  // them; empty where the cache was filled from embeddings
  void truncate(int64_t length);         // forgets what follows

 private:
  friend struct CacheAccess;
  friend class Model;
  std::unique_ptr<CacheState> state_;
};

struct TokenLogprob {
  int32_t id = -1;
  float logprob = 0;  // natural; log softmax of the model's own logits: before penalties,
                      // temperature, filters and OutputFormat
  std::string bytes;  // the token's own, which may be part of a character; empty without tokenizer
};

struct PositionLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // the most probable, by value and then by id
};

// What the answer must look like. It is enforced token by token from the end of the thought on, or
// at once where there is no thought; the end-of-sequence token is allowed exactly where the answer
// is whole. At max_tokens an answer may be cut (FinishReason::length).
struct OutputFormat {
  enum class Kind {
    text,         // anything
    json_object,  // a JSON object
    json_schema,  // JSON that `schema` accepts
    tool_calls,   // calls of the functions in `tools`, with arguments that their schemas accept
  };
  Kind kind = Kind::text;
  // json_schema: the JSON schema. tool_calls: OpenAI's array of tools. A keyword that cannot be
  // enforced is an Error(usage) with its name and path.
  std::string schema;
  std::string tool;            // tool_calls: the only function allowed; "": any
  bool parallel_calls = true;  // tool_calls: more than one call may be made
};

// Tool calls in the answer. A call's `begins` has its name; `arguments` are pieces of its JSON
// text; then it `ends`, or it is `broken`: what came is no call, and its text, markers included, is
// handed back as content (pieces that were told before cannot be taken back, but no result counts
// them).
struct ToolEvent {
  enum class Kind { begins, arguments, ends, broken };
  Kind kind = Kind::begins;
  int64_t index = 0;  // counts the calls that began
  std::string text;
};

struct ToolCall {
  std::string name;
  std::string arguments;  // JSON text of an object, as the model wrote it
};

enum class FinishReason { stop, length, cancelled, error };
const char* finish_reason_name(FinishReason reason);

// One step of a generation. Text is whole characters; what may still become part of a stop string
// or a tag is held back.
struct GenerateStep {
  int32_t id = 0;
  std::string text;       // the raw output's new text
  std::string reasoning;  // its share of the thought
  std::string content;    // its share of the answer
  int64_t sample = 0;     // which of several samples of the request
  bool resumed = false;   // one of GenerateRequest::resume
  // Where GenerateRequest::logprobs asks for it; none for resumed tokens, and none for the last
  // step of id -1, which brings text that was held back.
  std::optional<PositionLogprobs> logprobs = {};
  std::vector<ToolEvent> tools = {};  // with GenerateRequest::parse_tool_calls
};

struct GenerateRequest {
  Prompt prompt;
  SamplingRequest sampling;
  int64_t max_tokens =
      0;  // of the thought and the answer together; 0: as many as the context takes
  std::vector<std::string> stop;  // never shown, found across tokens; in the answer only, where the
                                  // output is split, else anywhere
  std::vector<int32_t> stop_ids;  // besides the model's own end-of-sequence ids
  bool ignore_eos = false;
  bool split_reasoning = true;  // tell thought and answer apart (else all is content)
  // Recognise tool calls in the answer (with split_reasoning): they are no content then.
  bool parse_tool_calls = false;
  OutputFormat format;
  // So many tokens of thought at the most: then </think> is put, and what follows is sampled as
  // usual. 0: no thought.
  std::optional<int64_t> reasoning_budget;

  // How many of the most probable tokens to tell at each position, besides the chosen one.
  std::optional<int64_t> logprobs;
  bool prompt_logprobs = false;  // for the prompt's tokens too; nothing is taken from a cache then

  // Called after every token, on the calling thread; false ends the generation. The cache then
  // holds the prompt and all tokens but the last one or two, and may be saved (fathom/session.h).
  std::function<bool(const GenerateStep&)> on_step;
  // Called while the prompt is worked on, with the share that is done (0..1).
  std::function<void(double)> on_prefill;
  const CancelToken* cancel =
      nullptr;             // looked at between layers: ends with FinishReason::cancelled
  Cache* cache = nullptr;  // reused as far as it matches the prompt, left with what was generated

  // Ids of this very answer that an earlier call generated: the answer goes on behind them as if it
  // had never been interrupted (penalties, positions, stop strings, max_tokens and the result count
  // them). on_step gets them again first.
  std::vector<int32_t> resume;
};

// What drafting did for one result.
struct SpeculationReport {
  int64_t drafts = 0;    // drafted and verified
  int64_t accepted = 0;  // of them, what would have been sampled anyway
  bool on = false;       // in force when the result was finished
  std::string reason;    // why; empty where speculation was not asked for
};

struct GenerateResult {
  std::vector<int32_t> ids;  // generated, the end-of-sequence id included where it came
  std::string text;          // all of it; empty without a tokenizer
  std::string reasoning;
  std::string content;
  std::vector<ToolCall> tool_calls;  // whole ones
  // Of ids but the resumed ones, and of the prompt's ids but the first (entry i is id i + 1).
  std::vector<PositionLogprobs> logprobs;
  std::vector<PositionLogprobs> prompt_logprobs;
  FinishReason finish_reason = FinishReason::stop;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;     // of the prompt, taken from the cache
  int64_t resumed_tokens = 0;    // of ids, taken from GenerateRequest::resume
  int64_t reasoning_tokens = 0;  // of ids, before and with </think>
  double prefill_seconds = 0;
  double decode_seconds = 0;
  SpeculationReport speculation;
  std::optional<Error> error;  // with FinishReason::error, where several are generated at once
};

// One forward pass over one sequence, as the reference implementation's forward() does it.
struct ForwardInput {
  std::vector<int32_t> ids;
  std::vector<float> embeddings;   // [n, hidden_size] instead of ids
  std::vector<int64_t> positions;  // [n] for RoPE; empty: counted on from the cache
  // [n] of 0 and 1, empty: all 1. Zeros may only stand on the left (padding): those rows take no
  // part and their outputs are zero; the others come out as without padding, to the bit.
  std::vector<uint8_t> attention_mask;
  std::vector<int32_t> labels;  // [n]; asks for the loss; -100 is ignored
  Cache* cache = nullptr;       // goes on from there, and is left with this pass added
  bool logits = true;
  bool last_logits_only = false;  // only the last row's
  bool mtp_logits = false;
  bool hidden_states = false;
  bool attentions = false;
  const CancelToken* cancel = nullptr;
};

struct ForwardOutput {
  int64_t rows = 0;  // n
  int64_t vocab = 0;
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t positions = 0;             // cached positions that were attended to
  std::vector<float> logits;         // [n, vocab] (or [1, vocab])
  std::vector<float> mtp_logits;     // [n - 1, vocab]: row i from hidden state i and token i + 1
  std::vector<float> hidden_states;  // [layers + 1, n, hidden]: embedding output, then after each
                                     // layer, the last one after the final norm
  std::vector<float> attentions;     // [layers, heads, n, positions]
  std::optional<double> loss;        // mean negative log-likelihood of shifted labels
};

// A part of the memory that a model was given.
struct MemoryShare {
  std::string name;
  uint64_t bytes = 0;
};

struct ModelInfo {
  std::string folder;
  std::string text_folder;  // of tokenizer.json and generation_config.json; mostly the same
  std::string name;         // the folder's own name
  std::string architecture;
  std::string kernels;
  int threads = 0;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t num_hidden_layers = 0;
  std::string identity;  // tells this model from every other one, wherever it lies
  uint64_t weight_bytes = 0;
  double load_seconds = 0;
  bool has_mtp = false;
  KvPrecision kv = KvPrecision::bf16;
  WeightPrecision weights = WeightPrecision::native;
  WeightPrecision head = WeightPrecision::native;
  WeightPrecision embed = WeightPrecision::native;
  uint64_t kv_bytes_per_token = 0;
  ContextDecision context;
  uint64_t memory_budget = 0;
  std::string memory_reason;        // a phrase: where the budget comes from
  std::vector<MemoryShare> memory;  // how it is divided
  bool experts_on_disk = false;
  std::string experts;        // a phrase: where routed experts live and how they are read
  int64_t prefill_chunk = 0;  // most tokens of a prompt in one pass
  // Models of graphs: which provider took what of each graph, and what such a model cannot do.
  std::vector<std::string> graphs;
  std::string remark;
};

// What a model has done since it was loaded.
struct ModelStats {
  uint64_t peak_memory = 0;  // of the process, in bytes
  uint64_t swap = 0;         // of the process, now
  // Routed experts.
  uint64_t expert_hits = 0;  // uses of an expert that was in memory
  uint64_t expert_misses = 0;
  uint64_t expert_slots = 0;  // that fit into memory; 0 where all are there
  uint64_t slot_bytes = 0;
  std::string cache_policy;
  uint64_t bytes_read = 0;
  uint64_t reads_repeated = 0;
  uint64_t lookahead_reads = 0;
  uint64_t lookahead_used = 0;
  bool lookahead = false;
  double disk_seconds = 0;     // with a read outstanding that somebody waits for
  double wait_seconds = 0;     // of them, with nothing to compute
  double compute_seconds = 0;  // computing routed experts
  // Passes through the layers, by part.
  double attention_seconds = 0;
  double experts_seconds = 0;  // routed experts, their reading included
  double mlp_seconds = 0;      // dense layers and shared experts
  double head_seconds = 0;
};

class Model {
 public:
  static Model load(const LoadOptions& options);
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  const ModelInfo& info() const;
  ModelStats stats() const;

  // Text. All of these need the folder's tokenizer; Error(input) says which file is missing.
  bool has_tokenizer() const;
  // `control_tokens`: whether added tokens in the text become their ids.
  std::vector<int32_t> tokenize(std::string_view text, bool control_tokens = true) const;
  // A raw prompt: tokenize(), with the beginning-of-sequence token in front where the tokenizer
  // asks for one and the text does not already begin with it.
  Prompt raw_prompt(std::string_view text) const;
  std::string detokenize(std::span<const int32_t> ids) const;
  // A chat: `messages_json` is an OpenAI messages array. Control tokens inside messages stay text.
  Prompt render(std::string_view messages_json, const RenderOptions& options = {}) const;

  ForwardOutput forward(const ForwardInput& input);
  GenerateResult generate(const GenerateRequest& request);
  // `count` samples of one prompt, which is computed once: sample i is what generate() gives for
  // sampling.choice + i. At most `parallel` are worked on at once; the result of one that fails has
  // its `error`. request.cache is left with sample 0.
  std::vector<GenerateResult> generate_samples(const GenerateRequest& request, int64_t count,
                                               int64_t parallel = 8);
  // All of them in shared passes, each as if it were alone; results in order of requests. What is
  // wrong with one request is the `error` of its result. See Scheduler (fathom/scheduler.h) for
  // requests that come one after another.
  std::vector<GenerateResult> generate(std::span<const GenerateRequest> requests,
                                       int64_t parallel = 8);

 private:
  friend class Scheduler;
  friend class Session;
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
