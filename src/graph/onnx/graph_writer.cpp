#include "graph/onnx/graph_writer.h"

#include <algorithm>
#include <cstring>

#include "base/file.h"
#include "graph/onnx/element_types.h"

namespace fathom::onnx {
namespace {

// Numbers of fields and enumerations in onnx.proto.
namespace field {
enum Model { ir_version = 1, producer_name = 2, graph = 7, opset_import = 8 };
enum Opset { domain = 1, version = 2 };
enum Graph { node = 1, graph_name = 2, initializer = 5, input = 11, output = 12 };
enum Node {
  node_input = 1,
  node_output = 2,
  node_name = 3,
  op_type = 4,
  attribute = 5,
  node_domain = 7
};
enum Attribute { attribute_name = 1, f = 2, i = 3, s = 4, ints = 8, type = 20 };
enum Tensor {
  dims = 1,
  data_type = 2,
  tensor_name = 8,
  raw_data = 9,
  external_data = 13,
  data_location = 14
};
enum Entry { key = 1, value = 2 };
enum Info { info_name = 1, info_type = 2 };
enum Type { tensor_type = 1 };
enum TensorType { elem_type = 1, shape = 2 };
enum Shape { dim = 1 };
enum Dim { dim_value = 1, dim_param = 2 };
}  // namespace field

enum AttributeType { kFloat = 1, kInt = 2, kString = 3, kInts = 7 };
constexpr int64_t kIrVersion = 8;
constexpr int64_t kOpset = 17;

Message entry(const std::string& key, const std::string& value) {
  Message message;
  message.text(field::key, key).text(field::value, value);
  return message;
}

Message attribute_message(const Attribute& attribute) {
  Message message;
  message.text(field::attribute_name, attribute.name);
  if (const auto* i = std::get_if<int64_t>(&attribute.value)) {
    message.integer(field::i, *i).integer(field::type, kInt);
  } else if (const auto* f = std::get_if<double>(&attribute.value)) {
    message.real(field::f, static_cast<float>(*f)).integer(field::type, kFloat);
  } else if (const auto* s = std::get_if<std::string>(&attribute.value)) {
    message.text(field::s, *s).integer(field::type, kString);
  } else {
    for (const int64_t i64 : std::get<std::vector<int64_t>>(attribute.value)) {
      message.integer(field::ints, i64);
    }
    message.integer(field::type, kInts);
  }
  return message;
}

Message tensor_head(const std::string& name, ElementType type, const std::vector<int64_t>& shape) {
  Message tensor;
  for (const int64_t dim : shape) tensor.integer(field::dims, dim);
  tensor.integer(field::data_type, onnx_type(type)).text(field::tensor_name, name);
  return tensor;
}

}  // namespace

Message GraphWriter::value_info(const TensorSpec& spec, const std::string& any) const {
  Message shape;
  for (const int64_t dim : spec.shape) {
    Message one;
    if (dim < 0) {
      one.text(field::dim_param, any);
    } else {
      one.integer(field::dim_value, dim);
    }
    shape.message(field::dim, one);
  }
  Message tensor;
  tensor.integer(field::elem_type, onnx_type(spec.type)).message(field::shape, shape);
  Message type;
  type.message(field::tensor_type, tensor);
  Message info;
  info.text(field::info_name, spec.name).message(field::info_type, type);
  return info;
}

void GraphWriter::input(const TensorSpec& spec, const std::string& any) {
  inputs_.push_back(value_info(spec, any));
}
void GraphWriter::output(const TensorSpec& spec, const std::string& any) {
  outputs_.push_back(value_info(spec, any));
}

void GraphWriter::add_node(const MicrosoftNode& node, const char* domain) {
  Message message;
  for (const std::string& name : node.inputs) message.text(field::node_input, name);
  for (const std::string& name : node.outputs) message.text(field::node_output, name);
  message.text(field::node_name, node.name).text(field::op_type, node.op);
  for (const Attribute& attribute : node.attributes) {
    message.message(field::attribute, attribute_message(attribute));
  }
  if (*domain != '\0') message.text(field::node_domain, domain);
  nodes_.push_back(std::move(message));
}

std::string GraphWriter::node(const std::string& op, const std::vector<std::string>& inputs,
                              const std::vector<Attribute>& attributes, const std::string& output) {
  const std::string name = op + "_" + std::to_string(fresh_++);
  const std::string result = output.empty() ? name + "_out" : output;
  add_node({op, name, inputs, {result}, attributes}, "");
  return result;
}

void GraphWriter::node(const MicrosoftNode& node) {
  microsoft_ = true;
  add_node(node, kMicrosoft);
}

bool GraphWriter::once(const std::string& name) {
  if (std::find(constant_names_.begin(), constant_names_.end(), name) != constant_names_.end()) {
    return false;
  }
  constant_names_.push_back(name);
  return true;
}

void GraphWriter::constant(const ExternalTensor& tensor) {
  if (!once(tensor.name)) return;
  Message message = tensor_head(tensor.name, tensor.type, tensor.shape);
  message.message(field::external_data, entry("location", tensor.file));
  message.message(field::external_data, entry("offset", std::to_string(tensor.offset)));
  message.message(field::external_data, entry("length", std::to_string(tensor.bytes)));
  message.integer(field::data_location, 1);
  constants_.push_back(std::move(message));
}

std::string GraphWriter::constant(const std::string& name, const std::vector<float>& values,
                                  const std::vector<int64_t>& shape) {
  if (once(name)) {
    Message message = tensor_head(name, ElementType::f32, shape);
    message.text(field::raw_data,
                 {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
    constants_.push_back(std::move(message));
  }
  return name;
}

std::string GraphWriter::constant(const std::string& name, const std::vector<int64_t>& values) {
  if (once(name)) {
    Message message = tensor_head(name, ElementType::i64, {static_cast<int64_t>(values.size())});
    message.text(field::raw_data,
                 {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t)});
    constants_.push_back(std::move(message));
  }
  return name;
}

std::string GraphWriter::bytes() const {
  Message graph;
  for (const Message& node : nodes_) graph.message(field::node, node);
  graph.text(field::graph_name, name_);
  for (const Message& tensor : constants_) graph.message(field::initializer, tensor);
  for (const Message& info : inputs_) graph.message(field::input, info);
  for (const Message& info : outputs_) graph.message(field::output, info);
  Message opset;
  opset.text(field::domain, "").integer(field::version, kOpset);
  Message model;
  model.integer(field::ir_version, kIrVersion).text(field::producer_name, "fathom");
  model.message(field::graph, graph).message(field::opset_import, opset);
  if (microsoft_) {
    Message own;
    own.text(field::domain, kMicrosoft).integer(field::version, 1);
    model.message(field::opset_import, own);
  }
  return model.bytes();
}

void GraphWriter::write(const std::string& path) const {
  OutputFile file(path);
  file.write(bytes());
  file.commit();
}

}  // namespace fathom::onnx
