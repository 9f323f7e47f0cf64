// The folder that a checkpoint is written into: all of it, or nothing.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fathom {

// The output folder and what has been put into it; all removed again unless keep() is called. A
// path that is no folder, or a folder that already holds a checkpoint, is an Error(usage).
class NewFolder {
 public:
  explicit NewFolder(const std::filesystem::path& path);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  std::string path() const { return path_.string(); }
  // The path of a file that is about to be written.
  std::string add(const std::string& name);
  void write(const std::string& name, std::string_view text);
  void keep() { kept_ = true; }

 private:
  void refuse_if_in_use() const;
  void undo();

  std::filesystem::path path_;
  std::vector<std::filesystem::path> files_;
  std::vector<std::filesystem::path> made_;
  bool kept_ = false;
};

}  // namespace fathom
