#include "checkpoint/verify.h"

#include <set>

#include "checkpoint/model_folder.h"

namespace fathom {

std::string_view check_name(VerifyCheck check) {
  switch (check) {
    case VerifyCheck::files:
      return "files";
    case VerifyCheck::headers:
      return "headers";
    case VerifyCheck::extents:
      return "extents";
    case VerifyCheck::overlaps:
      return "overlaps";
    case VerifyCheck::gaps:
      return "gaps";
    case VerifyCheck::index:
      return "index";
    case VerifyCheck::config:
      return "config";
    case VerifyCheck::tensors:
      return "tensors";
    case VerifyCheck::shapes:
      return "shapes";
    case VerifyCheck::scales:
      return "scales";
    case VerifyCheck::experts:
      return "experts";
    case VerifyCheck::hashes:
      return "hashes";
    case VerifyCheck::values:
      return "values";
    case VerifyCheck::count:
      break;
  }
  return "";
}

std::vector<std::string> VerifyReport::to_download() const {
  std::set<std::string> files;
  for (const Finding& finding : findings) {
    if (finding.damaged && !finding.file.empty()) files.insert(finding.file);
    // Where index and headers disagree, either may be of another revision.
    if (finding.check == VerifyCheck::index && finding.damaged) files.insert(kIndexName);
  }
  return {files.begin(), files.end()};
}

VerifyReport verify_checkpoint(const VerifyOptions& options) {
  VerifyReport report;
  report.folder = resolve_model_folder(options.folder);
  const VerifySubject subject = verify_structure(report.folder, &report);
  if (options.hashes) verify_hashes(options, subject, &report);
  if (options.values) verify_values(options, subject, &report);
  return report;
}

}  // namespace fathom
