#include "cli/options.h"

#include "cli/command_options.h"

namespace fathom::cli {
namespace {

const std::vector<CommandGroup> kGroups = {
    {"bench", "Measure this machine.", "Example:\n  fathom bench kernels --json"},
};

const std::vector<CommandEntry> kCommands = {
    {"chat", "Talk with a model.",
     "In a chat, /help lists the commands, Ctrl-C stops the answer and Ctrl-D quits. A line that "
     "ends\nwith a backslash goes on in the next one. In a pipe every line is a message; with "
     "--json a line\nmay also be {\"content\": TEXT}, and one object per answer is printed.\n\n"
     "Example:\n  fathom chat --model DeepSeek-R1 --temp 0.6\n"
     "  echo \"What is 47+85?\" | fathom chat --model DeepSeek-R1 --think hide",
     add_chat_options},
    {"generate", "Continue a text, or answer one message.",
     "Example:\n  fathom generate --model DeepSeek-R1 --chat \"What is 47+85?\" -n 1000\n"
     "  fathom generate --model DIR --tokens 0,5,9 -n 8 --temp 0 --json",
     add_generate_options},
    {"batch", "Answer a file of requests in shared passes over the model.",
     "A line is {\"custom_id\", \"method\": \"POST\", \"url\": \"/v1/chat/completions\", "
     "\"body\": {...}} (or\n/v1/completions). Ctrl-C stops; the same command goes on, also after "
     "a kill.\n\n"
     "Example:\n  fathom batch requests.jsonl --out answers.jsonl --model DeepSeek-R1 --parallel 8",
     add_batch_options},
    {"serve", "Answer over HTTP, as the OpenAI API does.",
     "Clients set their base URL to http://HOST:PORT/v1. Ctrl-C or a termination lets requests "
     "finish\nfirst; a second one ends at once.\n\n"
     "Example:\n  fathom serve --model DeepSeek-R1 --port 8080\n"
     "  curl http://127.0.0.1:8080/v1/chat/completions -d "
     "'{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}'",
     add_serve_options},
    {"logits", "Write the logits of a sequence (and what leads to them) as .npy files.",
     "Example:\n  fathom logits --model DIR --tokens 0,5,9 --out logits.npy --kv f32",
     add_logits_options},
    {"tokenize", "Text to token ids; needs only the tokenizer's files.",
     "Example:\n  echo -n \"Hello\" | fathom tokenize --model DIR", add_tokenize_options},
    {"detokenize", "Token ids to text; needs only the tokenizer's files.",
     "Example:\n  fathom detokenize --model DIR --tokens 19923,14", add_detokenize_options},
    {"render", "Messages to a prompt's text and ids, by the model's template.",
     "Example:\n  echo '[{\"role\":\"user\",\"content\":\"Hi\"}]' | fathom render --model DIR -",
     add_render_options},
    {"perplexity", "Mean negative log-likelihood and perplexity of a text.",
     "The text is cut into windows of --ctx tokens that do not overlap.\n\n"
     "Example:\n  fathom perplexity --model DeepSeek-R1 --file text.txt --ctx 2048",
     add_perplexity_options},
    {"inspect", "What is in a checkpoint, from its headers alone.",
     "Nothing is written into its folder and no weight is read. The exit code is 1 where something "
     "is\nwrong with it; the rest is shown all the same.\n\n"
     "Example:\n  fathom inspect DeepSeek-R1\n  fathom inspect DeepSeek-R1 --html report.html",
     add_inspect_options},
    {"verify", "Check that a downloaded checkpoint is whole.",
     "Everything that is wrong is listed, with what to download again; the exit code is then 1. "
     "Nothing\nis written into the folder.\n\n"
     "Example:\n  fathom verify DeepSeek-R1 --hashes --resume-file hashes.state --values",
     add_verify_options},
    {"plan", "What a model takes on this machine, and how fast it would be.",
     "From headers alone; the disk, the memory and the processor are measured for about three "
     "seconds,\nunless told.\n\n"
     "Example:\n  fathom plan DeepSeek-R1 --ram 25G --disk-bandwidth 1.2G --ctx 16K",
     add_plan_options},
    {"synth", "Write a random checkpoint in the released layout.",
     "Example:\n  fathom synth --config config.json --out random --seed 1 --shards 4\n"
     "  fathom synth --config config.json --out empty --skeleton --live --shards 163",
     add_synth_options},
    {"quantize", "Write a copy of a checkpoint with its large matrices in fewer bits.",
     "Routed experts of DeepseekV3 models, the layers' matrices of others; the rest is copied. "
     "After an\ninterrupt the same command goes on where it was.\n\n"
     "Example:\n  fathom quantize DeepSeek-R1 --to int4 --out DeepSeek-R1-int4",
     add_quantize_options},
    {"compare", "How far the next-token distributions of two models lie apart.",
     "Perplexity of both on a text, mean and largest KL divergence from the first to the second, "
     "and how\noften both have the same likeliest token. --weights, --head and --embed "
     "are the second one's.\n\n"
     "Example:\n  fathom compare Qwen-1.5B Qwen-1.5B-int4 --file text.txt --ctx 1024",
     add_compare_options},
    {"export-onnx", "Write a Qwen2 or Llama checkpoint as four ONNX graphs.",
     "The folder can be given to --model, here and in other programs that know "
     "genai_config.json.\n\n"
     "Example:\n  fathom export-onnx --model DeepSeek-R1-Distill-Qwen-1.5B --out graphs",
     add_export_onnx_options},
    {"export-qhx", "Write it as a QHexRT bundle whose contexts are ONNX files.",
     "It runs without an NPU, and shows the whole way from a manifest to tokens.\n\n"
     "Example:\n  fathom export-qhx --model DeepSeek-R1-Distill-Qwen-1.5B --out bundle",
     add_export_qhx_options},
    {"npu-check", "Run a QHexRT bundle on this machine's NPU and compare it with its card.",
     "Prints a report: what the machine has, ten tokens beside the card's, an answer, the time per "
     "token.\nThe exit code is 0 where tokens and answer are right. --provider cpu rehearses it "
     "with a bundle\nof export-qhx.\n\n"
     "Example:\n  fathom npu-check bundle/v81 --qnn backend_path=/data/qnn/libQnnHtp.so",
     add_npu_check_options},
    {"bench kernels",
     "Each kernel's speed beside the read bandwidth and the multiply-add peak of this machine.",
     "Example:\n  fathom bench kernels --threads 2 --seconds 20", add_bench_kernels_options},
    {"bench cache", "How often a cache of experts would have hit, by policy and size.",
     "The best that is possible stands beside it: a cache that knows the future.\n\n"
     "Example:\n  fathom generate --model DIR --ram 8G --chat Hi --trace-experts routes\n"
     "  fathom bench cache --trace routes --slots 50,100,200",
     add_bench_cache_options},
    {"bench disk", "How fast the disk gives experts, by pattern and by way of reading.",
     "It reads only, and leaves nothing in the page cache.\n\n"
     "Example:\n  fathom bench disk --model DeepSeek-R1 --seconds 20",
     add_bench_disk_options},
    {"bench decode",
     "A model's time per token, part by part, beside the disk or the memory it lies in.",
     "The prompt is random, ends are ignored. Several numbers of sequences show what is shared.\n\n"
     "Example:\n  fathom bench decode --model DIR --ram 8G --sequences 1,2,4,8",
     add_bench_decode_options},
    {"bench prefill", "The same for a prompt.",
     "Example:\n  fathom bench prefill --model DIR --ram 8G --prompt-tokens 512",
     add_bench_prefill_options},
};

}  // namespace

ParsedLine parse_command_line(int argc, const char* const* argv) {
  return parse_with(kGroups, kCommands, argc, argv);
}

}  // namespace fathom::cli
