// Finding and loading the library, and its environment.
#include <charconv>
#include <filesystem>
#include <mutex>

#include "base/join.h"
#include "base/shared_library.h"
#include "graph/onnxruntime/session.h"

namespace fathom {
namespace ort {

void check(const Api& api, OrtStatus* status, const std::string& what) {
  if (status == nullptr) return;
  const std::string message = api.table->GetErrorMessage(status);
  api.table->ReleaseStatus(status);
  fail_input("{}: {}", what, message);
}

std::basic_string<ORTCHAR_T> file_name(const std::string& path) {
  return std::filesystem::path(path).native();
}

Environment::~Environment() {
  if (env != nullptr) api.table->ReleaseEnv(env);
}

namespace {

// 22 of "1.22.0"; 0 where it is no such version.
int minor_of(const std::string& version) {
  const size_t dot = version.find('.');
  if (version.substr(0, dot) != "1" || dot == std::string::npos) return 0;
  int minor = 0;
  std::from_chars(version.data() + dot + 1, version.data() + version.size(), minor);
  return minor;
}

// The functions of a loaded library; Error(input) where it is too old.
Api api_of(const SharedLibrary& library, std::string* version) {
  using GetBase = const OrtApiBase*(ORT_API_CALL*)();
  const auto get_base = reinterpret_cast<GetBase>(library.symbol("OrtGetApiBase"));
  if (get_base == nullptr) {
    fail_input("{}: this is not ONNX Runtime: it has no OrtGetApiBase", library.path());
  }
  const OrtApiBase* base = get_base();
  *version = base->GetVersionString();
  Api api;
  api.version = std::min(minor_of(*version), ORT_API_VERSION);
  if (api.version >= kOldest) api.table = base->GetApi(static_cast<uint32_t>(api.version));
  if (api.table == nullptr) {
    fail_input("{}: ONNX Runtime {} is too old: 1.{} or later is needed", library.path(), *version,
               kOldest);
  }
  return api;
}

// Warnings of the runtime (a graph's constants, threads) would be in everybody's way.
void ORT_API_CALL drop_message(void*, OrtLoggingLevel, const char*, const char*, const char*,
                               const char*) {}

class Runtime : public GraphRuntime {
 public:
  explicit Runtime(const SharedLibrary& library) : environment_(std::make_shared<Environment>()) {
    environment_->library = library.path();
    environment_->api = api_of(library, &environment_->version);
    check(environment_->api,
          ort().CreateEnvWithCustomLogger(drop_message, nullptr, ORT_LOGGING_LEVEL_FATAL, "fathom",
                                          &environment_->env),
          library.path());
  }

  const std::string& version() const override { return environment_->version; }
  const std::string& library() const override { return environment_->library; }

  std::vector<std::string> providers() const override {
    char** names = nullptr;
    int count = 0;
    check(environment_->api, ort().GetAvailableProviders(&names, &count), library());
    std::vector<std::string> providers(names, names + count);
    check(environment_->api, ort().ReleaseAvailableProviders(names, count), library());
    if (!environment_->qnn_plugin.empty()) providers.emplace_back(kQnnProvider);
    return providers;
  }

  std::vector<GraphDevice> devices() const override {
    std::vector<GraphDevice> result;
    if (environment_->api.version < kPluginProviders) return result;
    const OrtEpDevice* const* devices = nullptr;
    size_t count = 0;
    check(environment_->api, ort().GetEpDevices(environment_->env, &devices, &count), library());
    for (size_t i = 0; i < count; ++i) {
      const OrtHardwareDevice* hardware = ort().EpDevice_Device(devices[i]);
      GraphDevice device;
      device.provider = ort().EpDevice_EpName(devices[i]);
      device.vendor = ort().HardwareDevice_Vendor(hardware);
      switch (ort().HardwareDevice_Type(hardware)) {
        case OrtHardwareDeviceType_CPU:
          device.type = "CPU";
          break;
        case OrtHardwareDeviceType_GPU:
          device.type = "GPU";
          break;
        case OrtHardwareDeviceType_NPU:
          device.type = "NPU";
          break;
      }
      result.push_back(std::move(device));
    }
    return result;
  }

  void register_qnn(const std::string& plugin) override {
    if (environment_->qnn_plugin == plugin) return;
    if (!environment_->qnn_plugin.empty()) {
      fail_usage("{}: cannot be registered as {}: {} is already", plugin, kQnnProvider,
                 environment_->qnn_plugin);
    }
    if (environment_->api.version < kPluginProviders) {
      fail_input(
          "{}: ONNX Runtime {} ({}) takes no plugin libraries: 1.{} or later does, or one with QNN "
          "built in",
          plugin, version(), library(), kPluginProviders);
    }
    check(environment_->api,
          ort().RegisterExecutionProviderLibrary(environment_->env, kQnnProvider,
                                                 file_name(plugin).c_str()),
          plugin + ": cannot be registered as " + kQnnProvider + " with ONNX Runtime " + version());
    environment_->qnn_plugin = plugin;
  }

  std::unique_ptr<GraphSession> open(const SessionRequest& request) override {
    return open_session(environment_, request);
  }

 private:
  const OrtApi& ort() const { return *environment_->api.table; }
  std::shared_ptr<Environment> environment_;
};

SharedLibrary find_library(const RuntimePlaces& places) {
  if (!places.library.empty()) return SharedLibrary::load(places.library);
  const std::string name = shared_library_name("onnxruntime");
  std::vector<std::string> candidates;
  std::vector<std::string> folders = places.folders;
#ifdef FATHOM_ONNXRUNTIME_ROOT
  folders.emplace_back(FATHOM_ONNXRUNTIME_ROOT);
#endif
  for (const std::string& folder : folders) {
    for (const char* inside : {"", "lib", "bin"}) {
      const std::filesystem::path file = std::filesystem::path(folder) / inside / name;
      std::error_code ignored;
      if (std::filesystem::exists(file, ignored)) return SharedLibrary::load(file.string());
    }
    candidates.push_back(folder);
  }
  try {
    return SharedLibrary::load(name);
  } catch (const Error& error) {
    fail(ErrorKind::io,
         "ONNX Runtime, which runs graphs, was not found: {} is in none of the folders [{}] (nor "
         "in their lib/), and the system says: {}. Set ONNXRUNTIME_ROOT to its folder, or give "
         "--onnxruntime FILE",
         name, join(candidates, ", "), error.what());
  }
}

}  // namespace
}  // namespace ort

std::shared_ptr<GraphRuntime> load_graph_runtime(const RuntimePlaces& places) {
  // One environment for each library: its thread pools and registered plugins are the process's.
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<GraphRuntime>> loaded;
  const SharedLibrary library = ort::find_library(places);
  const std::lock_guard lock(mutex);
  std::shared_ptr<GraphRuntime>& runtime = loaded[library.path()];
  if (!runtime) runtime = std::make_shared<ort::Runtime>(library);
  return runtime;
}

}  // namespace fathom
