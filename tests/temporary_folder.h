// A folder for one test's files, removed with all that is in it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace fathom {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(test->test_suite_name()) + "." + test->name();
    for (char& c : name) {
      if (c == '/') c = '_';
    }
    path_ = std::filesystem::path(testing::TempDir()) / ("fathom." + unique() + "." + name);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path() const { return path_.string(); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  // Names of all files, to see that nothing was left behind.
  int count() const {
    int files = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_)) ++files;
    return files;
  }

 private:
  // Tests of one program run in several processes at once.
  static std::string unique() {
    static int counter = 0;
    const auto now = std::filesystem::file_time_type::clock::now().time_since_epoch().count();
    return std::to_string(now) + "-" + std::to_string(counter++);
  }

  std::filesystem::path path_;
};

}  // namespace fathom
