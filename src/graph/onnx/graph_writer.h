// An ONNX model put together node by node and written as a file.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/onnx/protobuf.h"
#include "graph/tensor.h"

namespace fathom::onnx {

using AttributeValue = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
struct Attribute {
  std::string name;
  AttributeValue value;
};

// A constant whose bytes lie in a file beside the model.
struct ExternalTensor {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<int64_t> shape;
  std::string file;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

inline constexpr const char* kMicrosoft = "com.microsoft";

class GraphWriter {
 public:
  explicit GraphWriter(std::string name) : name_(std::move(name)) {}

  // A dimension of -1 gets the name `any`.
  void input(const TensorSpec& spec, const std::string& any = "seq");
  void output(const TensorSpec& spec, const std::string& any = "seq");

  // A node with one output, whose name is returned: that of `output`, or a fresh one where it is
  // empty. An empty input name leaves an optional input out.
  std::string node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<Attribute>& attributes = {}, const std::string& output = "");
  // Any number of outputs, of an operator of com.microsoft.
  struct MicrosoftNode {
    std::string op;
    std::string name;
    std::vector<std::string> inputs;
    std::vector<std::string> outputs;
    std::vector<Attribute> attributes;
  };
  void node(const MicrosoftNode& node);

  void constant(const ExternalTensor& tensor);
  // Small ones, kept in the model itself. Returns the name; equal names are kept once.
  std::string constant(const std::string& name, const std::vector<float>& values,
                       const std::vector<int64_t>& shape);
  std::string constant(const std::string& name, const std::vector<int64_t>& values);

  // The whole model (opset 17), which appears under its name when it is complete.
  void write(const std::string& path) const;
  std::string bytes() const;

 private:
  bool once(const std::string& name);
  Message value_info(const TensorSpec& spec, const std::string& any) const;
  void add_node(const MicrosoftNode& node, const char* domain);

  std::string name_;
  std::vector<Message> nodes_;
  std::vector<Message> constants_;
  std::vector<Message> inputs_;
  std::vector<Message> outputs_;
  std::vector<std::string> constant_names_;
  bool microsoft_ = false;
  int64_t fresh_ = 0;
};

}  // namespace fathom::onnx
