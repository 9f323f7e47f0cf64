// fathom verify: is a downloaded checkpoint whole?
#include "checkpoint/verify.h"

#include <fmt/core.h>

#include <map>

#include "base/units.h"
#include "checkpoint/problem_list.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"

namespace fathom::cli {
namespace {

// Of one check, findings are shown up to this number and then counted; JSON has them all.
constexpr size_t kMostShown = 20;

std::string one_line(const Finding& finding) {
  std::string text(check_name(finding.check));
  if (!finding.file.empty()) text += ": " + finding.file;
  if (!finding.tensor.empty()) text += ": " + finding.tensor;
  if (finding.offset) text += fmt::format(" at offset {}", *finding.offset);
  return text + ": " + finding.problem;
}

std::string as_json(const VerifyReport& report) {
  std::string checks, findings, notes, downloads;
  const auto append = [](std::string* list, const std::string& item) {
    *list += (list->empty() ? "" : ",") + item;
  };
  for (const CheckCount& check : report.checks) {
    append(&checks, JsonObject()
                        .text("check", check_name(check.check))
                        .natural("checked", check.checked)
                        .text("unit", check.unit)
                        .natural("problems", check.problems)
                        .str());
  }
  for (const Finding& finding : report.findings) {
    JsonObject object;
    object.text("check", check_name(finding.check))
        .text("file", finding.file)
        .text("tensor", finding.tensor);
    if (finding.offset) {
      object.natural("offset", *finding.offset);
    } else {
      object.raw("offset", "null");
    }
    append(&findings, object.text("problem", finding.problem).str());
  }
  for (const std::string& note : report.notes) append(&notes, json_string(note));
  for (const std::string& name : report.to_download()) append(&downloads, json_string(name));
  return JsonObject()
             .text("folder", report.folder)
             .boolean("good", report.good())
             .raw("checks", "[" + checks + "]")
             .raw("findings", "[" + findings + "]")
             .raw("notes", "[" + notes + "]")
             .raw("download_again", "[" + downloads + "]")
             .natural("bytes_hashed", report.bytes_hashed)
             .natural("hashes_resumed", report.hashes_resumed)
             .natural("bytes_scanned", report.bytes_scanned)
             .str() +
         "\n";
}

}  // namespace

int run_command(const VerifyCommandOptions& options, Output& output) {
  VerifyOptions verify;
  verify.folder = options.folder;
  verify.hashes = options.hashes;
  verify.sums = options.sums;
  verify.resume_file = options.resume_file;
  verify.values = options.values;
  verify.threads = options.threads;
  verify.cancel = &interrupt_token();
  const VerifyReport report = verify_checkpoint(verify);
  const int code = report.good() ? kExitOk : kExitFailed;
  if (options.output.json) {
    output.write(as_json(report));
    return code;
  }
  for (const CheckCount& check : report.checks) {
    output.write(fmt::format("{:<10} {:>8} {:<12} {}\n", check_name(check.check), check.checked,
                             check.unit,
                             check.problems == 0 ? "ok" : fmt::format("{} wrong", check.problems)));
  }
  if (options.hashes) {
    output.write(fmt::format("{} hashed, {} files known from before\n",
                             format_size(report.bytes_hashed), report.hashes_resumed));
  }
  for (const std::string& note : report.notes) output.write_foreign("note: " + note + "\n");
  std::map<VerifyCheck, size_t> shown;
  for (const Finding& finding : report.findings) {
    if (++shown[finding.check] <= kMostShown) output.write_foreign(one_line(finding) + "\n");
  }
  for (const auto& [check, count] : shown) {
    if (count <= kMostShown) continue;
    output.write(
        fmt::format("{}: and {} more (--json has all)\n", check_name(check), count - kMostShown));
  }
  if (report.good()) {
    output.write("nothing is wrong\n");
    return code;
  }
  const std::vector<std::string> downloads = report.to_download();
  if (!downloads.empty()) output.write("download again:\n");
  for (const std::string& name : downloads) output.write_foreign("  " + name + "\n");
  return code;
}

}  // namespace fathom::cli
