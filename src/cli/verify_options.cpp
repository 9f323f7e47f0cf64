// What verify takes.
#include <memory>

#include "base/error.h"
#include "cli/command_options.h"

namespace fathom::cli {
namespace {

void add_folder_argument(OptionSet& set, std::string* folder) {
  set.value("DIR", "DIR", "Model folder: plain, a hub-cache snapshot or a hub-cache model folder",
            [folder](const std::string& v) {
              if (v.empty()) fail_usage("DIR: the folder's name is empty");
              *folder = v;
            })
      .required();
}

void add_file(OptionSet& set, const std::string& name, const std::string& help, std::string* file) {
  set.value(name, "FILE", help, [name, file](const std::string& v) {
    if (v.empty()) fail_usage("{}: the file's name is empty", name);
    *file = v;
  });
}

}  // namespace

FinishCommand add_verify_options(OptionSet& set) {
  auto options = std::make_shared<VerifyCommandOptions>();
  VerifyCommandOptions* o = options.get();
  add_output(set, &o->output, "{good, checks: [...], findings: [...], download_again: [...], ...}");
  add_folder_argument(set, &o->folder);
  set.flag("--hashes",
           "Also every file's content, against what the hub's client noted when it downloaded",
           &o->hashes);
  add_file(set, "--sums", "Hashes from a list that sha256sum wrote instead", &o->sums);
  add_file(set, "--resume-file",
           "Remember hashes in this file (outside of DIR), and go on from there the next time",
           &o->resume_file);
  set.flag("--values", "Also every weight: no NaN, no scale of 0, no absurd magnitudes",
           &o->values);
  add_threads(set, &o->threads);
  return [options] {
    if (!options->sums.empty()) options->hashes = true;
    if (!options->resume_file.empty() && !options->hashes) {
      fail_usage("--resume-file: give --hashes or --sums too");
    }
    return *options;
  };
}

}  // namespace fathom::cli
