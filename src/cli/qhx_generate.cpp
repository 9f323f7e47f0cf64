#include "cli/qhx_generate.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/shared_library.h"
#include "cli/answer.h"
#include "cli/ask_options.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/program.h"
#include "engine/graph_backend.h"
#include "graph/qhexrt/bundle.h"

namespace fathom::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage =
    "qhx_generate MANIFEST LIBQNNHTP LIBQNNSYSTEM ARTIFACTS_ROOT N_TOKENS 'PROMPT'\n\n"
    "Continues PROMPT greedily by N_TOKENS tokens with a QHexRT bundle.\n"
    "  MANIFEST        the bundle's run plan, such as v81/manifest.json\n"
    "  LIBQNNHTP       QNN's HTP backend (libQnnHtp.so, QnnHtp.dll)\n"
    "  LIBQNNSYSTEM    libQnnSystem.so, which must lie beside it\n"
    "  ARTIFACTS_ROOT  the folder of the files that the manifest names\n"
    "- instead of both libraries runs a bundle of ONNX contexts (fathom export-qhx) on the CPU.\n\n"
    "The DSP loads libQnnHtpV81Skel.so (by the device's generation) itself: it must be in a "
    "folder\n"
    "that ADSP_LIBRARY_PATH names. ONNX Runtime and its QNN provider are looked for in\n"
    "$ONNXRUNTIME_ROOT, then where the system looks.\n";

struct Line {
  std::string manifest, htp, system, root;
  int64_t tokens = 0;
  std::string prompt;
  bool on_cpu() const { return htp == "-"; }
};

Line parse(int argc, const char* const* argv) {
  if (argc != 7) fail_usage("{} arguments are given, 6 are expected\n\n{}", argc - 1, kUsage);
  Line line{
      argv[1], argv[2], argv[3], argv[4], parse_integer(argv[5], "N_TOKENS", 1, int64_t{1} << 24),
      argv[6]};
  if (line.prompt.empty()) fail_usage("PROMPT: the text is empty");
  return line;
}

// The provider takes the backend's path and looks for the other library beside it.
void check_libraries(const Line& line) {
  const fs::path htp = line.htp;
  const fs::path system = line.system;
  if (line.on_cpu() != (line.system == "-")) {
    fail_usage("- stands for both libraries or for none: {} {}", line.htp, line.system);
  }
  if (line.on_cpu()) return;
  const std::string expected = shared_library_name("QnnSystem");
  if (system.filename() != expected) {
    fail_usage("LIBQNNSYSTEM: {} is not a {}", line.system, expected);
  }
  std::error_code ignored;
  const bool searched = !htp.has_parent_path() && !system.has_parent_path();  // by the system
  if (searched) return;
  if (!fs::exists(htp, ignored)) fail(ErrorKind::io, "LIBQNNHTP: {} is not there", line.htp);
  if (!fs::exists(system, ignored)) {
    fail(ErrorKind::io, "LIBQNNSYSTEM: {} is not there", line.system);
  }
  if (fs::weakly_canonical(htp).parent_path() != fs::weakly_canonical(system).parent_path()) {
    fail_input(
        "LIBQNNSYSTEM: {} does not lie beside {}: the QNN provider looks for it there and nowhere "
        "else",
        line.system, line.htp);
  }
}

// The DSP's own part of QNN is found by the DSP, whose message says nothing of it.
void warn_of_skeleton(const Line& line, const QhexrtManifest& manifest) {
  if (line.on_cpu() || manifest.dsp_arch == 0 || std::getenv("ADSP_LIBRARY_PATH") != nullptr) {
    return;
  }
  log::info(
      "ADSP_LIBRARY_PATH is not set: the DSP will look for libQnnHtpV{}Skel.so in the system's "
      "folders alone; where loading fails, set it to the folder of that file",
      manifest.dsp_arch);
}

Model load(const Line& line) {
  LoadOptions options;
  options.folder = fs::absolute(line.manifest).parent_path().string();
  options.needs = TextNeeds::tokenizer;
  options.cancel = &interrupt_token();
  options.graph.manifest = line.manifest;
  options.graph.artifacts = line.root;
  if (const char* root = std::getenv("ONNXRUNTIME_ROOT"); root != nullptr && *root != '\0') {
    options.graph.runtime_folders.emplace_back(root);
  }
  options.graph.provider = line.on_cpu() ? "cpu" : "qnn";
  options.graph.require_npu = !line.on_cpu();
  if (!line.on_cpu()) options.graph.qnn = {{"backend_path", line.htp}};
  const QhexrtManifest manifest =
      read_qhexrt_manifest(options.folder, graph_choice_of(options.graph));
  warn_of_skeleton(line, manifest);
  return Model::load(options);
}

int generate(const Line& line, Output& output) {
  check_libraries(line);
  Model model = load(line);
  for (const std::string& graph : model.info().graphs) log::info("{}", graph);
  GenerateRequest request;
  request.prompt = model.raw_prompt(line.prompt);
  request.sampling.temperature = 0;
  request.max_tokens = line.tokens;
  request.split_reasoning = false;
  request.cancel = &interrupt_token();
  AnswerPrinter printer(output, true);
  request.on_step = [&printer](const GenerateStep& step) {
    printer.step(step);
    return true;
  };
  const GenerateResult result = model.generate(request);
  printer.finish();
  output.flush();
  const auto count = static_cast<double>(std::max<size_t>(result.ids.size(), 1));
  log::info("{} tokens, {:.1f} ms per token", result.ids.size(),
            1000 * result.decode_seconds / count);
  return result.finish_reason == FinishReason::cancelled ? interrupt_exit_code() : kExitOk;
}

}  // namespace

int run_qhx_generate(int argc, const char* const* argv) {
  return run_main(false, [&](Output& output) {
    if (argc == 2 && (std::string(argv[1]) == "--help" || std::string(argv[1]) == "-h")) {
      output.write(kUsage);
      return kExitOk;
    }
    const Line line = parse(argc, argv);
    watch_interrupts();
    return generate(line, output);
  });
}

}  // namespace fathom::cli
