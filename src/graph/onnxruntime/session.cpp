#include "graph/onnxruntime/session.h"

#include <filesystem>

#include "base/join.h"
#include "graph/qnn_versions.h"

namespace fathom::ort {
namespace {

ElementType element_type(ONNXTensorElementDataType type) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      return ElementType::f32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
      return ElementType::f16;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
      return ElementType::i32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
      return ElementType::i64;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8:
      return ElementType::u8;
    default:
      return ElementType::other;
  }
}

ONNXTensorElementDataType onnx_type(ElementType type) {
  switch (type) {
    case ElementType::f32:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    case ElementType::f16:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
    case ElementType::i32:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
    case ElementType::i64:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
    case ElementType::u8:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8;
    case ElementType::other:
      break;
  }
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

// Keys and values as two arrays of C strings.
struct OptionArrays {
  std::vector<const char*> keys;
  std::vector<const char*> values;
  explicit OptionArrays(const GraphOptions& options) {
    for (const auto& [key, value] : options) {
      keys.push_back(key.c_str());
      values.push_back(value.c_str());
    }
  }
};

// The plugin's devices, the NPU first; without one the plugin's others.
std::vector<const OrtEpDevice*> qnn_devices(const Environment& environment) {
  const OrtApi& ort = *environment.api.table;
  const OrtEpDevice* const* devices = nullptr;
  size_t count = 0;
  check(environment.api, ort.GetEpDevices(environment.env, &devices, &count),
        "listing the providers' devices");
  std::vector<const OrtEpDevice*> npu;
  std::vector<const OrtEpDevice*> others;
  for (size_t i = 0; i < count; ++i) {
    if (std::string(ort.EpDevice_EpName(devices[i])) != kQnnProvider) continue;
    const bool is_npu =
        ort.HardwareDevice_Type(ort.EpDevice_Device(devices[i])) == OrtHardwareDeviceType_NPU;
    (is_npu ? npu : others).push_back(devices[i]);
  }
  std::vector<const OrtEpDevice*>& chosen = npu.empty() ? others : npu;
  if (chosen.empty()) return {};
  return {chosen.front()};
}

void append_qnn(const Environment& environment, const SessionRequest& request,
                OrtSessionOptions* options) {
  const OrtApi& ort = *environment.api.table;
  const OptionArrays arrays(request.provider_options);
  const std::string what = request.file + ": graph " + request.name + ": the QNN provider";
  if (!environment.qnn_plugin.empty()) {
    const std::vector<const OrtEpDevice*> devices = qnn_devices(environment);
    if (devices.empty()) {
      fail_input("{}: the plugin library offers no device on this machine", what);
    }
    check(environment.api,
          ort.SessionOptionsAppendExecutionProvider_V2(options, environment.env, devices.data(),
                                                       devices.size(), arrays.keys.data(),
                                                       arrays.values.data(), arrays.keys.size()),
          what);
    return;
  }
  // Before plugins the provider was part of the library.
  OrtStatus* status = ort.SessionOptionsAppendExecutionProvider(
      options, "QNN", arrays.keys.data(), arrays.values.data(), arrays.keys.size());
  if (status != nullptr) {
    const std::string why = ort.GetErrorMessage(status);
    ort.ReleaseStatus(status);
    fail_input(
        "{} is not there: {} (ONNX Runtime {}) was built without it and no plugin library was "
        "registered; give --qnn-library FILE ({})",
        what, environment.library, environment.version, why);
  }
}

class Session : public GraphSession {
 public:
  Session(std::shared_ptr<Environment> environment, const SessionRequest& request)
      : environment_(std::move(environment)),
        what_(request.file + ": graph " + request.name),
        memory_(ort().ReleaseMemoryInfo),
        session_(ort().ReleaseSession),
        profiled_(!request.profile_prefix.empty()) {
    check(api(), ort().CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, memory_.out()),
          what_);
    Owned<OrtSessionOptions> options(ort().ReleaseSessionOptions);
    check(api(), ort().CreateSessionOptions(options.out()), what_);
    if (request.threads > 0) {
      check(api(), ort().SetIntraOpNumThreads(options.get(), request.threads), what_);
    }
    GraphOptions entries = request.session_options;
    const bool assigns = api().version >= kGraphAssignment;
    if (assigns) entries["session.record_ep_graph_assignment_info"] = "1";
    for (const auto& [key, value] : entries) {
      check(api(), ort().AddSessionConfigEntry(options.get(), key.c_str(), value.c_str()),
            what_ + ": " + key);
    }
    if (profiled_) {
      check(api(), ort().EnableProfiling(options.get(), file_name(request.profile_prefix).c_str()),
            what_ + ": profiling");
    }
    if (request.provider == Provider::qnn) append_qnn(*environment_, request, options.get());
    OrtStatus* status = ort().CreateSession(environment_->env, file_name(request.file).c_str(),
                                            options.get(), session_.out());
    if (status != nullptr && request.provider == Provider::qnn) {
      const std::string message = ort().GetErrorMessage(status);
      if (const auto text = qnn_version_mismatch(message, request.file, request.provider_options)) {
        ort().ReleaseStatus(status);
        fail_input("{}: {}", what_, *text);
      }
    }
    check(api(), status, what_ + ": cannot be loaded");
    read_specs(true, &inputs_);
    read_specs(false, &outputs_);
    if (assigns) read_assignment();
  }

  const std::vector<TensorSpec>& inputs() const override { return inputs_; }
  const std::vector<TensorSpec>& outputs() const override { return outputs_; }
  const std::vector<ProviderShare>& assignment() const override { return assignment_; }

  void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs) override {
    std::vector<Owned<OrtValue>> values;
    std::vector<const char*> input_names;
    std::vector<const char*> output_names;
    std::vector<const OrtValue*> given;
    std::vector<OrtValue*> wanted;
    for (const TensorView& view : inputs) {
      values.push_back(wrap(view));
      input_names.push_back(view.name.data());  // names of specs: zero-terminated
      given.push_back(values.back().get());
    }
    for (const TensorView& view : outputs) {
      values.push_back(wrap(view));
      output_names.push_back(view.name.data());
      wanted.push_back(values.back().get());
    }
    check(api(),
          ort().Run(session_.get(), nullptr, input_names.data(), given.data(), given.size(),
                    output_names.data(), wanted.size(), wanted.data()),
          what_ + ": running it failed");
  }

  std::string end_profiling() override {
    if (!std::exchange(profiled_, false)) return "";
    OrtAllocator* allocator = nullptr;
    check(api(), ort().GetAllocatorWithDefaultOptions(&allocator), what_);
    char* name = nullptr;
    check(api(), ort().SessionEndProfiling(session_.get(), allocator, &name),
          what_ + ": profiling");
    std::string file = name;
    check(api(), ort().AllocatorFree(allocator, name), what_);
    return file;
  }

 private:
  const Api& api() const { return environment_->api; }
  const OrtApi& ort() const { return *environment_->api.table; }

  Owned<OrtValue> wrap(const TensorView& view) const {
    Owned<OrtValue> value(ort().ReleaseValue);
    check(api(),
          ort().CreateTensorWithDataAsOrtValue(
              memory_.get(), view.data,
              static_cast<size_t>(view.elements() * element_bytes(view.type)), view.shape.data(),
              view.shape.size(), onnx_type(view.type), value.out()),
          what_ + ": tensor " + std::string(view.name));
    return value;
  }

  void read_specs(bool input, std::vector<TensorSpec>* specs) const {
    OrtAllocator* allocator = nullptr;
    check(api(), ort().GetAllocatorWithDefaultOptions(&allocator), what_);
    size_t count = 0;
    check(api(),
          input ? ort().SessionGetInputCount(session_.get(), &count)
                : ort().SessionGetOutputCount(session_.get(), &count),
          what_);
    for (size_t i = 0; i < count; ++i) {
      char* name = nullptr;
      check(api(),
            input ? ort().SessionGetInputName(session_.get(), i, allocator, &name)
                  : ort().SessionGetOutputName(session_.get(), i, allocator, &name),
            what_);
      TensorSpec spec;
      spec.name = name;
      check(api(), ort().AllocatorFree(allocator, name), what_);
      Owned<OrtTypeInfo> info(ort().ReleaseTypeInfo);
      check(api(),
            input ? ort().SessionGetInputTypeInfo(session_.get(), i, info.out())
                  : ort().SessionGetOutputTypeInfo(session_.get(), i, info.out()),
            what_);
      const OrtTensorTypeAndShapeInfo* tensor = nullptr;
      check(api(), ort().CastTypeInfoToTensorInfo(info.get(), &tensor), what_);
      if (tensor != nullptr) {
        ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
        check(api(), ort().GetTensorElementType(tensor, &type), what_);
        spec.type = element_type(type);
        size_t dims = 0;
        check(api(), ort().GetDimensionsCount(tensor, &dims), what_);
        spec.shape.resize(dims);
        check(api(), ort().GetDimensions(tensor, spec.shape.data(), dims), what_);
      }
      specs->push_back(std::move(spec));
    }
  }

  void read_assignment() {
    const OrtEpAssignedSubgraph* const* graphs = nullptr;
    size_t count = 0;
    check(api(), ort().Session_GetEpGraphAssignmentInfo(session_.get(), &graphs, &count), what_);
    std::map<std::string, ProviderShare> shares;
    for (size_t i = 0; i < count; ++i) {
      const char* provider = nullptr;
      check(api(), ort().EpAssignedSubgraph_GetEpName(graphs[i], &provider), what_);
      const OrtEpAssignedNode* const* nodes = nullptr;
      size_t node_count = 0;
      check(api(), ort().EpAssignedSubgraph_GetNodes(graphs[i], &nodes, &node_count), what_);
      ProviderShare& share = shares[provider];
      share.provider = provider;
      for (size_t n = 0; n < node_count; ++n) {
        const char* domain = nullptr;
        const char* type = nullptr;
        check(api(), ort().EpAssignedNode_GetDomain(nodes[n], &domain), what_);
        check(api(), ort().EpAssignedNode_GetOperatorType(nodes[n], &type), what_);
        const std::string prefix =
            domain != nullptr && *domain != '\0' ? std::string(domain) + "." : std::string();
        ++share.operators[prefix + type];
      }
    }
    for (auto& [name, share] : shares) assignment_.push_back(std::move(share));
  }

  std::shared_ptr<Environment> environment_;
  std::string what_;
  Owned<OrtMemoryInfo> memory_;
  Owned<OrtSession> session_;
  std::vector<TensorSpec> inputs_;
  std::vector<TensorSpec> outputs_;
  std::vector<ProviderShare> assignment_;
  bool profiled_;
};

}  // namespace

std::unique_ptr<GraphSession> open_session(std::shared_ptr<Environment> environment,
                                           const SessionRequest& request) {
  return std::make_unique<Session>(std::move(environment), request);
}

}  // namespace fathom::ort
