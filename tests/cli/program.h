// Runs the built program as a child process, as a stranger would.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/paths.h"
#include "tests/temporary_folder.h"

namespace fathom {

inline std::string golden(const std::string& name) { return test_paths::golden() + "/" + name; }

inline std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

struct Finished {
  int code = -1;  // 128 + signal where one ended it
  std::string out;
  std::string err;
  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

// A running program with files for standard input, output and errors.
class Program {
 public:
  Program(const std::vector<std::string>& arguments, const std::string& input,
          const std::string& output_path = "", const std::string& program = test_paths::program())
      : out_(output_path.empty() ? folder_ / "out" : output_path) {
    std::ofstream(folder_ / "in", std::ios::binary) << input;
    std::vector<std::string> words;
    if (!test_paths::emulator().empty()) words.push_back(test_paths::emulator());
    words.push_back(program);
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const std::string in = folder_ / "in", err = folder_ / "err";
    child_ = fork();
    if (child_ != 0) return;
    dup2(open(in.c_str(), O_RDONLY), STDIN_FILENO);
    dup2(open(out_.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  ~Program() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

  void signal(int number) { kill(child_, number); }
  std::string out_so_far() const { return file_text(out_); }
  // True while it runs, for at most `seconds` more.
  bool wait_for_output(int seconds) const {
    for (int i = 0; i < seconds * 100; ++i) {
      if (!out_so_far().empty()) return true;
      usleep(10'000);
    }
    return false;
  }

  Finished wait() {
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = -1;
    Finished finished;
    finished.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (std::filesystem::is_regular_file(out_)) finished.out = file_text(out_);
    finished.err = file_text(folder_ / "err");
    return finished;
  }

 private:
  TemporaryFolder folder_;
  std::string out_;
  pid_t child_ = -1;
};

inline Finished run(const std::vector<std::string>& arguments, const std::string& input = "") {
  return Program(arguments, input).wait();
}

// The random model with a tokenizer: weights made by `fathom synth`. Another config must have its
// vocabulary.
class TextModel {
 public:
  explicit TextModel(const std::string& config = test_paths::models() + "/random/config.json") {
    const std::string source = test_paths::models() + "/random";
    const Finished synth = run(
        {"synth", "--config", config, "--out", path(), "--seed", "1", "--shards", "2", "--json"});
    EXPECT_EQ(synth.code, 0) << synth.err;
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
      std::filesystem::copy_file(source + "/" + name, path() + "/" + name);
    }
  }
  std::string path() const { return folder_ / "model"; }

 private:
  TemporaryFolder folder_;
};

}  // namespace fathom
