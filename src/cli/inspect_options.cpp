// What inspect takes.
#include <limits>
#include <memory>

#include "base/error.h"
#include "cli/command_options.h"

namespace fathom::cli {

FinishCommand add_inspect_options(OptionSet& set) {
  auto options = std::make_shared<InspectOptions>();
  InspectOptions* o = options.get();
  add_output(set, &o->output, "Everything as one JSON object");
  add_folder(set, &o->folder);
  set.value("directory", "DIR", "The same as --model DIR",
            [o](const std::string& value) {
              if (value.empty()) fail_usage("DIR: the folder's name is empty");
              o->folder = value;
            })
      .excludes("--model");
  set.value("--layer", "N", "Only this layer's tensors, one by one", [o](const std::string& value) {
    o->layer = parse_integer(value, "--layer", 0, std::numeric_limits<int32_t>::max());
  });
  set.value("--html", "FILE", "Also write everything as one page that needs no other file",
            [o](const std::string& value) {
              if (value.empty()) fail_usage("--html: the file's name is empty");
              o->html = value;
            });
  add_graph(set, &o->graph);
  return [options] { return *options; };
}

}  // namespace fathom::cli
