#include "checkpoint/problem_list.h"

#include <map>

#include "base/error.h"
#include "base/join.h"

namespace fathom {

std::string tensor_family(std::string_view name) {
  std::string family;
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find('.'));
    const bool number =
        !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    family += number ? "*" : part;
    name.remove_prefix(part.size());
    if (!name.empty()) {
      family += '.';
      name.remove_prefix(1);
    }
  }
  return family;
}

void ProblemList::add(std::string_view kind, const std::string& tensor, const std::string& detail) {
  problems_.push_back({std::string(kind), tensor, detail});
}

std::vector<std::string> ProblemList::each() const {
  std::vector<std::string> lines;
  for (const Problem& problem : problems_) {
    lines.push_back(fmt::format("{}: {}{}{}", problem.kind, problem.tensor,
                                problem.detail.empty() ? "" : ": ", problem.detail));
  }
  return lines;
}

std::vector<std::string> ProblemList::by_family() const {
  struct Family {
    const Problem* first = nullptr;
    const Problem* last = nullptr;
    size_t count = 0;
  };
  std::vector<std::string> order;  // of first appearance
  std::map<std::string, Family> families;
  for (const Problem& problem : problems_) {
    const std::string key = problem.kind + ": " + tensor_family(problem.tensor);
    Family& family = families[key];
    if (family.count++ == 0) {
      family.first = &problem;
      order.push_back(key);
    }
    family.last = &problem;
  }
  std::vector<std::string> lines;
  for (const std::string& key : order) {
    if (lines.size() == kMostFamilies) {
      lines.push_back(fmt::format("and {} more kinds", order.size() - kMostFamilies));
      break;
    }
    const Family& family = families[key];
    std::string line = fmt::format("{}: {} tensors, ", key, family.count);
    line += family.first->tensor;
    if (family.count > 1) line += " to " + family.last->tensor;
    if (!family.first->detail.empty()) line += " (the first: " + family.first->detail + ")";
    lines.push_back(line);
  }
  return lines;
}

void ProblemList::fail_if_any(const std::string& where) const {
  if (problems_.empty()) return;
  const std::vector<std::string> lines = problems_.size() <= kMostLines ? each() : by_family();
  if (lines.size() == 1) fail_input("{}: {}", where, lines.front());
  fail_input("{}: {} tensors are missing or wrong:\n  {}", where, problems_.size(),
             join(lines, "\n  "));
}

}  // namespace fathom
