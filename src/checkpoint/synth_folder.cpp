#include "checkpoint/synth_folder.h"

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/model_folder.h"

namespace fathom {

namespace fs = std::filesystem;

NewFolder::NewFolder(const fs::path& path) : path_(path) {
  std::error_code error;
  if (fs::exists(path, error)) {
    refuse_if_in_use();
    return;
  }
  for (fs::path made = path; !made.empty() && !fs::exists(made, error); made = made.parent_path()) {
    made_.push_back(made);
  }
  if (!fs::create_directories(path, error) && error) {
    undo();
    fail(ErrorKind::io, "{}: cannot create the folder: {}", path.string(), error.message());
  }
}

NewFolder::~NewFolder() {
  if (!kept_) undo();
}

std::string NewFolder::add(const std::string& name) {
  files_.push_back(path_ / name);
  return files_.back().string();
}

void NewFolder::write(const std::string& name, std::string_view text) {
  OutputFile file(add(name));
  file.write(text);
  file.commit();
}

void NewFolder::refuse_if_in_use() const {
  std::error_code error;
  if (!fs::is_directory(path_, error)) fail_usage("{}: not a folder", path());
  const std::vector<std::string> shards = safetensors_names(path());
  for (const std::string& name : {std::string("config.json"), std::string(kIndexName),
                                  shards.empty() ? "model.safetensors" : shards.front()}) {
    if (path_exists((path_ / name).string())) {
      fail_usage("{}: it already holds a checkpoint ({}); give a new or an empty folder", path(),
                 name);
    }
  }
}

void NewFolder::undo() {
  std::error_code ignored;
  for (const fs::path& file : files_) fs::remove(file, ignored);
  // Deepest first; a folder that someone else has put a file into stays.
  for (const fs::path& folder : made_) fs::remove(folder, ignored);
}

}  // namespace fathom
