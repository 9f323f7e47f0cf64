// A plugin library for ONNX Runtime that stands in for QNN's in the tests: it takes EPContext nodes
// and nothing else, and runs each "context binary" as the ONNX model that it really is. It writes
// what it was told to the file that the option profiling_file_path names, and refuses binaries that
// begin with "other release" as QNN refuses those of another version.
#define ORT_API_MANUAL_INIT
#include <onnxruntime_cxx_api.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "QNNExecutionProvider";
constexpr const char* kOptionPrefix = "ep.qnnexecutionprovider.";

const OrtApi& ort() { return Ort::GetApi(); }
OrtStatus* failure(const std::string& what) {
  return ort().CreateStatus(ORT_EP_FAIL, what.c_str());
}

// Runs `work`; what it throws becomes a status.
template <typename Work>
OrtStatus* guarded(const Work& work) {
  try {
    work();
    return nullptr;
  } catch (const std::exception& error) {
    return failure(error.what());
  }
}

// One EPContext node: its binary as a session of the CPU provider.
class Context : public OrtNodeComputeInfo {
 public:
  Context(const Ort::Env& env, const fs::path& binary, Ort::ConstNode node)
      : OrtNodeComputeInfo{}, session_(env, fs::canonical(binary).c_str(), one_thread()) {
    ort_version_supported = ORT_API_VERSION;
    CreateState = [](OrtNodeComputeInfo* self, OrtNodeComputeContext*, void** state) noexcept {
      *state = self;
      return static_cast<OrtStatus*>(nullptr);
    };
    Compute = [](OrtNodeComputeInfo* self, void*, OrtKernelContext* kernel) noexcept {
      return guarded([&] { static_cast<Context*>(self)->run(Ort::KernelContext(kernel)); });
    };
    ReleaseState = [](OrtNodeComputeInfo*, void*) noexcept {};
    for (const auto& input : node.GetInputs()) inputs_.emplace_back(input.GetName());
    for (const auto& output : node.GetOutputs()) outputs_.emplace_back(output.GetName());
  }

 private:
  // The runtime's threads wait busily.
  static Ort::SessionOptions one_thread() {
    Ort::SessionOptions options;
    options.SetIntraOpNumThreads(1);
    return options;
  }

  static std::vector<const char*> pointers(const std::vector<std::string>& names) {
    std::vector<const char*> result;
    for (const std::string& name : names) result.push_back(name.c_str());
    return result;
  }

  void run(Ort::KernelContext kernel) {
    std::vector<const OrtValue*> given;
    for (size_t i = 0; i < inputs_.size(); ++i) given.push_back(kernel.GetInput(i));
    std::vector<OrtValue*> made(outputs_.size(), nullptr);
    Ort::ThrowOnError(ort().Run(session_, nullptr, pointers(inputs_).data(), given.data(),
                                given.size(), pointers(outputs_).data(), made.size(), made.data()));
    for (size_t i = 0; i < made.size(); ++i) {
      const Ort::Value value(made[i]);
      const std::vector<int64_t> shape = value.GetTensorTypeAndShapeInfo().GetShape();
      Ort::UnownedValue out = kernel.GetOutput(i, shape);
      std::memcpy(out.GetTensorMutableRawData(), value.GetTensorRawData(),
                  value.GetTensorSizeInBytes());
    }
  }

  Ort::Session session_;
  std::vector<std::string> inputs_;
  std::vector<std::string> outputs_;
};

class Provider : public OrtEp {
 public:
  Provider(const OrtSessionOptions* options) : OrtEp{}, env_(ORT_LOGGING_LEVEL_FATAL, "stand-in") {
    ort_version_supported = ORT_API_VERSION;
    GetName = [](const OrtEp*) noexcept { return kName; };
    GetCapability = [](OrtEp*, const OrtGraph* graph, OrtEpGraphSupportInfo* support) noexcept {
      return guarded([&] { take_contexts(Ort::ConstGraph(graph), support); });
    };
    Compile = [](OrtEp* self, const OrtGraph** graphs, const OrtNode**, size_t count,
                 OrtNodeComputeInfo** infos, OrtNode**) noexcept {
      return guarded([&] {
        for (size_t i = 0; i < count; ++i) {
          infos[i] = static_cast<Provider*>(self)->open(Ort::ConstGraph(graphs[i])).release();
        }
      });
    };
    ReleaseNodeComputeInfos = [](OrtEp*, OrtNodeComputeInfo** infos, size_t count) noexcept {
      for (size_t i = 0; i < count; ++i) delete static_cast<Context*>(infos[i]);
    };
    read_options(options);
  }

 private:
  static void take_contexts(Ort::ConstGraph graph, OrtEpGraphSupportInfo* support) {
    for (const Ort::ConstNode& node : graph.GetNodes()) {
      if (node.GetOperatorType() != "EPContext") continue;
      const OrtNode* one = node;
      OrtNodeFusionOptions options{};
      options.ort_version_supported = ORT_API_VERSION;
      Ort::ThrowOnError(
          Ort::GetEpApi().EpGraphSupportInfo_AddNodesToFuse(support, &one, 1, &options));
    }
  }

  void read_options(const OrtSessionOptions* options) {
    OrtKeyValuePairs* pairs = nullptr;
    Ort::ThrowOnError(ort().GetSessionOptionsConfigEntries(options, &pairs));
    const char* const* keys = nullptr;
    const char* const* values = nullptr;
    size_t count = 0;
    ort().GetKeyValuePairs(pairs, &keys, &values, &count);
    for (size_t i = 0; i < count; ++i) {
      const std::string key = keys[i];
      report_ += key + "=" + values[i] + "\n";
      if (key == std::string(kOptionPrefix) + "profiling_file_path") report_file_ = values[i];
    }
    ort().ReleaseKeyValuePairs(pairs);
  }

  static std::string text_of(Ort::ConstNode node, const char* attribute) {
    Ort::ConstOpAttr value;
    Ort::ThrowOnError(node.GetAttributeByName(attribute, value));
    std::string text;
    Ort::ThrowOnError(value.GetValue(text));
    return text;
  }

  std::unique_ptr<Context> open(Ort::ConstGraph graph) {
    const Ort::ConstNode node = graph.GetNodes().at(0);
    const std::string file = text_of(node, "ep_cache_context");
    if (text_of(node, "source") != "Qnn") throw std::runtime_error("source is not Qnn");
    if (fs::path(file).is_absolute() || file.find("..") != std::string::npos) {
      throw std::runtime_error(file + ": the path of a context binary leaves the model's folder");
    }
    const fs::path binary = fs::path(graph.GetModelPath()).parent_path() / file;
    report_ += "graph " + node.GetName() + " from " + file + "\n";
    if (!report_file_.empty()) std::ofstream(report_file_, std::ios::app) << report_;
    report_.clear();
    std::string begin(13, '\0');
    std::ifstream(binary, std::ios::binary).read(begin.data(), 13);
    if (begin == "other release") {
      throw std::runtime_error("Failed to create context from binary, error code: 1008");
    }
    return std::make_unique<Context>(env_, binary, node);
  }

  Ort::Env env_;
  std::string report_;
  std::string report_file_;
};

class Factory : public OrtEpFactory {
 public:
  Factory() : OrtEpFactory{} {
    ort_version_supported = ORT_API_VERSION;
    GetName = [](const OrtEpFactory*) noexcept { return kName; };
    GetVendor = [](const OrtEpFactory*) noexcept { return "stand-in"; };
    GetVendorId = [](const OrtEpFactory*) noexcept { return uint32_t{0}; };
    GetVersion = [](const OrtEpFactory*) noexcept { return "0.0.0"; };
    GetSupportedDevices = [](OrtEpFactory* self, const OrtHardwareDevice* const* devices,
                             size_t count, OrtEpDevice** found, size_t most,
                             size_t* made) noexcept {
      *made = 0;
      if (count == 0 || most == 0) return static_cast<OrtStatus*>(nullptr);
      OrtStatus* status =
          Ort::GetEpApi().CreateEpDevice(self, devices[0], nullptr, nullptr, &found[0]);
      if (status == nullptr) *made = 1;
      return status;
    };
    CreateEp = [](OrtEpFactory*, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const*,
                  size_t, const OrtSessionOptions* options, const OrtLogger*,
                  OrtEp** ep) noexcept { return guarded([&] { *ep = new Provider(options); }); };
    ReleaseEp = [](OrtEpFactory*, OrtEp* ep) noexcept { delete static_cast<Provider*>(ep); };
    CreateAllocator = [](OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*,
                         OrtAllocator** allocator) noexcept {
      *allocator = nullptr;
      return static_cast<OrtStatus*>(nullptr);
    };
    ReleaseAllocator = [](OrtEpFactory*, OrtAllocator*) noexcept {};
    CreateDataTransfer = [](OrtEpFactory*, OrtDataTransferImpl** transfer) noexcept {
      *transfer = nullptr;
      return static_cast<OrtStatus*>(nullptr);
    };
    IsStreamAware = [](const OrtEpFactory*) noexcept { return false; };
  }
};

}  // namespace

extern "C" {

OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base, const OrtLogger*,
                             OrtEpFactory** factories, size_t most, size_t* count) {
  Ort::InitApi(base->GetApi(ORT_API_VERSION));
  if (most == 0) return failure("there is no room for a factory");
  factories[0] = new Factory();
  *count = 1;
  return nullptr;
}

OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  delete static_cast<Factory*>(factory);
  return nullptr;
}
}
