// A graph whose tensors are bound by name: dtype and shape are checked before anything is run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/runtime.h"

namespace fathom {

class GraphRunner {
 public:
  // `name` is what messages call the graph; `file` where it comes from.
  GraphRunner(std::string name, std::string file, std::unique_ptr<GraphSession> session);

  const std::string& name() const { return name_; }
  const std::string& file() const { return file_; }
  const std::vector<TensorSpec>& inputs() const { return session_->inputs(); }
  const std::vector<TensorSpec>& outputs() const { return session_->outputs(); }
  const std::vector<ProviderShare>& assignment() const { return session_->assignment(); }
  std::string end_profiling() { return session_->end_profiling(); }

  // Error(input) naming the graph, the tensor and what the graph has instead.
  const TensorSpec& input(const std::string& tensor) const;
  const TensorSpec& output(const std::string& tensor) const;
  bool has_input(const std::string& tensor) const;
  bool has_output(const std::string& tensor) const;

  // Memory for one tensor, from now on until bound again; it must outlive the runs. A scalar may be
  // given as [1] and the other way round: both are one element.
  void bind_input(const TensorView& view);
  void bind_output(const TensorView& view);
  // Error(usage) where a tensor is not bound.
  void run();

 private:
  TensorView* slot(const TensorView& view, bool is_input);

  std::string name_;
  std::string file_;
  std::unique_ptr<GraphSession> session_;
  std::vector<TensorView> bound_inputs_;  // in the order of the session's
  std::vector<TensorView> bound_outputs_;
};

}  // namespace fathom
