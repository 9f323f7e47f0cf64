// What verify and plan take.
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/units.h"
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

// "1.2G" is 1.2 thousand million; rates are not counted in powers of two.
double parse_rate(const std::string& value, const std::string& option) {
  std::string number = value;
  double unit = 1;
  if (!number.empty()) {
    const size_t letter = std::string("KMGT").find(number.back());
    if (letter != std::string::npos) {
      unit = std::pow(1000.0, static_cast<double>(letter + 1));
      number.pop_back();
    }
  }
  const double rate = parse_real(number, option) * unit;
  if (!(rate > 0) || rate > 1e18) {
    fail_usage("{}: '{}' is no rate; 1.2G is expected, or 500M", option, value);
  }
  return rate;
}

void add_rate(OptionSet& set, const std::string& name, const std::string& help,
              std::optional<double>* rate) {
  set.value(name, "RATE", help + ", such as 1.2G; default: measured",
            [name, rate](const std::string& v) {
              if (v == "measured") {
                rate->reset();
              } else {
                *rate = parse_rate(v, name);
              }
            });
}

}  // namespace

FinishCommand add_plan_options(OptionSet& set) {
  auto options = std::make_shared<PlanOptions>();
  PlanOptions* o = options.get();
  add_output(set, &o->output, "{resident_bytes, streamed_per_token, memory: [...], decode, ...}");
  add_folder_argument(set, &o->folder);
  set.value("--ram", "SIZE",
            "Memory that a run may take, such as 25G (default: what is available, less a reserve)",
            [o](const std::string& v) {
              o->ram = parse_size(v, "--ram");
              if (o->ram == 0) fail_usage("--ram: 0 is no budget");
            });
  set.value("--ctx", "N", kContextHelp,
            [o](const std::string& v) { o->context = parse_token_count(v, "--ctx"); });
  add_rate(set, "--disk-bandwidth", "Bytes per second from the disk", &o->disk);
  add_rate(set, "--memory-bandwidth", "Bytes per second from memory", &o->memory);
  add_rate(set, "--flops", "Float32 operations per second", &o->operations);
  add_threads(set, &o->threads);
  return [options] { return *options; };
}

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
