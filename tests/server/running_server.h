// A server with the committed demo model, on a free port of this machine.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "server/server.h"
#include "tests/paths.h"
#include "tests/server/client.h"

namespace fathom::server {

inline Model load_demo(int64_t context = 0) {
  LoadOptions options;
  options.folder = test_paths::models() + "/demo";
  options.threads = 1;
  options.sequences = 2;
  options.context = context;
  options.needs = TextNeeds::chat;
  return Model::load(options);
}

inline ServerOptions on_a_free_port() {
  ServerOptions options;
  options.port = 0;
  return options;
}

// Ready when it is constructed.
class RunningServer {
 public:
  explicit RunningServer(ServerOptions options = on_a_free_port(), int64_t context = 0)
      : server_(std::move(options), [context] { return load_demo(context); }) {
    server_.runner().wait_loaded();
    while (server_.runner().model() == nullptr &&
           server_.runner().status().state == RunnerStatus::State::ready) {
      std::this_thread::yield();
    }
    EXPECT_NE(server_.runner().model(), nullptr) << server_.runner().status().problem;
  }
  Server& operator*() { return server_; }
  Server* operator->() { return &server_; }
  uint16_t port() const { return server_.port(); }

  Answer get(const std::string& path, const std::string& head = "") const {
    return ask(port(), "GET", path, "", head);
  }
  Answer post(const std::string& path, const nlohmann::json& body,
              const std::string& head = "") const {
    return ask(port(), "POST", path, body.dump(), head);
  }
  // A number of /metrics whose line begins so; -1 where there is none.
  double metric(const std::string& name) const {
    const std::string text = get("/metrics").body;
    const size_t at = text.find("\n" + name);
    if (at == std::string::npos) return -1;
    const size_t end = text.find('\n', at + 1);
    const size_t space = text.rfind(' ', end);
    return std::stod(text.substr(space + 1, end - space - 1));
  }
  // Waits (as long as only a hang takes) until a metric is that large.
  bool reaches(const std::string& name, double least) const {
    for (int i = 0; i < 6000 && metric(name) < least; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return metric(name) >= least;
  }
  // Waits (as long as only a hang takes) until nothing is generated any more.
  bool becomes_idle() const {
    for (int i = 0; i < 6000 && metric_idle() == false; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return metric_idle();
  }

 private:
  bool metric_idle() const {
    const SchedulerStatus status = const_cast<Server&>(server_).runner().status().scheduler;
    return status.running == 0 && status.waiting == 0 &&
           const_cast<Server&>(server_).runner().in_work() == 0;
  }
  Server server_;
};

// The one of a test suite: loading takes longer than most tests.
class SharedServer : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new RunningServer(); }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  static RunningServer& server() { return *server_; }

 private:
  static inline RunningServer* server_ = nullptr;
};

inline nlohmann::json question(const std::string& text, double temperature = 0) {
  return {{"messages", {{{"role", "user"}, {"content", text}}}}, {"temperature", temperature}};
}

}  // namespace fathom::server
