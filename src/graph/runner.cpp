#include "graph/runner.h"

#include <algorithm>

#include "base/error.h"
#include "base/join.h"

namespace fathom {
namespace {

const TensorSpec* find(const std::vector<TensorSpec>& specs, std::string_view name) {
  const auto at = std::find_if(specs.begin(), specs.end(),
                               [name](const TensorSpec& spec) { return spec.name == name; });
  return at == specs.end() ? nullptr : &*at;
}

std::string names_of(const std::vector<TensorSpec>& specs) {
  constexpr size_t kShown = 12;
  std::vector<std::string> names;
  for (const TensorSpec& spec : specs) {
    if (names.size() == kShown) {
      names.push_back("... (" + std::to_string(specs.size()) + " in all)");
      break;
    }
    names.push_back(spec.name);
  }
  return join(names, ", ");
}

bool shapes_agree(const std::vector<int64_t>& declared, const std::vector<int64_t>& given) {
  const bool one = declared.size() <= 1 && given.size() <= 1;
  if (declared.size() != given.size()) {
    return one && (declared.empty() || declared[0] == 1) && (given.empty() || given[0] == 1);
  }
  for (size_t i = 0; i < declared.size(); ++i) {
    if (declared[i] >= 0 && declared[i] != given[i]) return false;
  }
  return true;
}

}  // namespace

GraphRunner::GraphRunner(std::string name, std::string file, std::unique_ptr<GraphSession> session)
    : name_(std::move(name)), file_(std::move(file)), session_(std::move(session)) {
  bound_inputs_.resize(session_->inputs().size());
  bound_outputs_.resize(session_->outputs().size());
}

const TensorSpec& GraphRunner::input(const std::string& tensor) const {
  if (const TensorSpec* spec = find(inputs(), tensor)) return *spec;
  fail_input("{}: graph {}: there is no input '{}'; its inputs are {}", file_, name_, tensor,
             names_of(inputs()));
}

const TensorSpec& GraphRunner::output(const std::string& tensor) const {
  if (const TensorSpec* spec = find(outputs(), tensor)) return *spec;
  fail_input("{}: graph {}: there is no output '{}'; its outputs are {}", file_, name_, tensor,
             names_of(outputs()));
}

bool GraphRunner::has_input(const std::string& tensor) const {
  return find(inputs(), tensor) != nullptr;
}
bool GraphRunner::has_output(const std::string& tensor) const {
  return find(outputs(), tensor) != nullptr;
}

TensorView* GraphRunner::slot(const TensorView& view, bool is_input) {
  const std::string tensor(view.name);
  const TensorSpec& spec = is_input ? input(tensor) : output(tensor);
  if (spec.type != view.type) {
    fail_input("{}: graph {}: tensor {}: the graph has {} and not {}", file_, name_, spec.name,
               element_name(spec.type), element_name(view.type));
  }
  if (!shapes_agree(spec.shape, view.shape)) {
    fail_input("{}: graph {}: tensor {}: the graph has shape {} and not {}", file_, name_,
               spec.name, dims_text(spec.shape), dims_text(view.shape));
  }
  const std::vector<TensorSpec>& specs = is_input ? inputs() : outputs();
  std::vector<TensorView>& bound = is_input ? bound_inputs_ : bound_outputs_;
  TensorView* to = &bound[static_cast<size_t>(&spec - specs.data())];
  *to = view;
  to->name = spec.name;
  if (spec.is_static()) to->shape = spec.shape;
  return to;
}

void GraphRunner::bind_input(const TensorView& view) { slot(view, true); }
void GraphRunner::bind_output(const TensorView& view) { slot(view, false); }

void GraphRunner::run() {
  const auto require_bound = [this](const std::vector<TensorView>& bound,
                                    const std::vector<TensorSpec>& specs) {
    for (size_t i = 0; i < bound.size(); ++i) {
      if (bound[i].data != nullptr) continue;
      fail_input("{}: graph {}: nothing was given for tensor {}", file_, name_, describe(specs[i]));
    }
  };
  require_bound(bound_inputs_, inputs());
  require_bound(bound_outputs_, outputs());
  session_->run(bound_inputs_, bound_outputs_);
}

}  // namespace fathom
