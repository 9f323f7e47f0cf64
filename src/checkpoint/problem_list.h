// Problems with tensors, collected into one message that stays readable however many there are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fathom {

class ProblemList {
 public:
  struct Problem {
    std::string kind;
    std::string tensor;
    std::string detail;
  };

  // `kind` ("missing", "wrong shape") and `tensor` group similar problems; `detail` is shown.
  void add(std::string_view kind, const std::string& tensor, const std::string& detail);
  bool empty() const { return problems_.empty(); }
  const std::vector<Problem>& all() const { return problems_; }

  // Error(input) with every problem on a line of its own, or from kMostLines problems on with one
  // line for each kind and family of names (layer and expert numbers set aside).
  void fail_if_any(const std::string& where) const;

 private:
  static constexpr size_t kMostLines = 100;
  static constexpr size_t kMostFamilies = 20;

  std::vector<std::string> each() const;
  std::vector<std::string> by_family() const;

  std::vector<Problem> problems_;
};

// "model.layers.*.mlp.experts.*.up_proj.weight" of "model.layers.3.mlp.experts.17.up_proj.weight".
std::string tensor_family(std::string_view name);

}  // namespace fathom
