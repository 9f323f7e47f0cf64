#include <memory>

#include "base/error.h"
#include "cli/command_options.h"

namespace fathom::cli {

FinishCommand add_bench_disk_options(OptionSet& set) {
  auto options = std::make_shared<BenchDiskOptions>();
  BenchDiskOptions* o = options.get();
  add_output(set, &o->output,
             "{subject, files, expert_bytes, results: [...], refused: [...], chosen: {...}}");
  const auto name = [](std::string* into, const char* option) {
    return [into, option](const std::string& v) {
      if (v.empty()) fail_usage("{}: the name is empty", option);
      *into = v;
    };
  };
  set.value("--model", "DIR", "A model's folder: its experts are read",
            name(&o->folder, "--model"));
  set.value("--file", "FILE", "Any large file instead, as if it held experts",
            name(&o->file, "--file"))
      .excludes("--model");
  set.value("--seconds", "S", "How long to measure, all together (default: 20)",
            [o](const std::string& v) { o->seconds = parse_seconds(v, "--seconds"); });
  return [options] {
    if (options->folder.empty() && options->file.empty()) {
      fail_usage("give --model or --file: something large on the disk to be measured");
    }
    return *options;
  };
}

}  // namespace fathom::cli
