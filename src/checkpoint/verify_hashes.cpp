#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>

#include "base/error.h"
#include "checkpoint/hashes.h"
#include "checkpoint/verify.h"
#include "checkpoint/verify_parallel.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

std::string_view kind_name(HashKind kind) {
  return kind == HashKind::sha256 ? "SHA-256" : "git blob SHA-1";
}

// Links followed as far as they lead, be the file itself not there yet.
fs::path final_place(fs::path path) {
  std::error_code error;
  for (int links = 0; links < 40 && fs::is_symlink(path, error); ++links) {
    const fs::path target = fs::read_symlink(path, error);
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return fs::weakly_canonical(fs::absolute(path));
}

bool lies_in(const fs::path& path, const fs::path& folder) {
  const fs::path relative = path.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

// The folder is somebody's download: what keeps our place in it must lie elsewhere.
void refuse_inside(const std::string& resume_file, const VerifyOptions& options,
                   const std::string& folder) {
  const fs::path place = final_place(resume_file);
  for (const std::string& forbidden : {folder, options.folder}) {
    if (lies_in(place, fs::canonical(forbidden))) {
      fail_usage("--resume-file: {} lies in the checkpoint's folder, where nothing is written",
                 resume_file);
    }
  }
}

class HashCheck {
 public:
  HashCheck(const VerifyOptions& options, const VerifySubject& subject, VerifyReport* report)
      : options_(options), subject_(subject), report_(report), folder_(report->folder) {}

  void run() {
    KnownHashes known =
        options_.sums.empty() ? hashes_of_download(folder_) : hashes_of_list(options_.sums);
    if (known.files.empty()) {
      fail_input(
          "{}: no hashes are known: there is no .cache/huggingface/download/*.metadata; give a "
          "list of sha256sum with --sums",
          folder_);
    }
    for (std::string& note : known.notes) report_->notes.push_back(std::move(note));
    if (!options_.resume_file.empty()) {
      refuse_inside(options_.resume_file, options_, folder_);
      record_ = std::make_unique<HashRecord>(options_.resume_file, fs::canonical(folder_).string());
    }
    choose(known);
    FileWork work;
    work.label = "hashing";
    work.files = jobs_.size();
    work.threads = file_threads(options_.threads);
    work.cancel = options_.cancel;
    for (const Job& job : jobs_) work.bytes += job.bytes;
    work.task = [this](size_t file, const auto& advance) { hash(jobs_[file], advance); };
    run_file_work(work);
    finish(known);
  }

 private:
  struct Job {
    const KnownHash* known = nullptr;
    uint64_t bytes = 0;
    std::string computed;
    std::string failed;
  };

  void find(const KnownHash& known, std::string problem) {
    report_->findings.push_back(
        {VerifyCheck::hashes, known.name, "", std::nullopt, std::move(problem), true});
  }

  // What has to be hashed: neither absent nor known from before.
  void choose(const KnownHashes& known) {
    for (const KnownHash& file : known.files) {
      const fs::path path = fs::path(folder_) / file.name;
      std::error_code error;
      const uint64_t bytes = fs::file_size(path, error);
      if (error) {
        absent(file);
        continue;
      }
      if (record_) {
        if (const auto before = record_->find(file.name, file.hash.kind)) {
          ++report_->hashes_resumed;
          jobs_done_.push_back({&file, bytes, *before, ""});
          continue;
        }
      }
      jobs_.push_back({&file, bytes, "", ""});
    }
  }

  // What the client downloaded may have been deleted on purpose, but for what a checkpoint needs.
  void absent(const KnownHash& file) {
    bool needed = !options_.sums.empty() || file.name == "config.json";
    for (const std::string& shard : subject_.shard_names) needed |= shard == file.name;
    if (needed) {
      find(file, "it is missing");
    } else {
      report_->notes.push_back(file.name + " was downloaded once and is not there any more");
    }
  }

  void hash(Job& job, const std::function<void(uint64_t)>& advance) {
    const std::string path = (fs::path(folder_) / job.known->name).string();
    try {
      const int64_t changed = HashRecord::change_time(path);
      const File file(path);
      job.bytes = file.size();
      job.computed = hash_file(file, job.known->hash.kind, advance);
      if (record_) {
        record_->add(job.known->name, {job.known->hash.kind, job.computed}, job.bytes, changed);
      }
    } catch (const Error& error) {
      // The record cannot be written or all stops: that is no fault of the file.
      const bool of_file = std::string_view(error.what()).starts_with(path);
      if (error.kind() == ErrorKind::cancelled || !of_file) throw;
      job.failed = error.what();
    }
  }

  void finish(const KnownHashes& known) {
    for (const Job& job : jobs_) {
      report_->bytes_hashed += job.bytes;
      jobs_done_.push_back(job);
    }
    for (const Job& job : jobs_done_) {
      const ContentHash& wanted = job.known->hash;
      if (!job.failed.empty()) {
        find(*job.known, job.failed);
      } else if (job.computed != wanted.hex) {
        find(*job.known, fmt::format("its {} is {}, and {} by {}", kind_name(wanted.kind),
                                     job.computed, wanted.hex, job.known->source));
      }
    }
    std::map<std::string, bool> has_hash;
    for (const std::string& shard : subject_.shard_names) has_hash[shard] = false;
    for (const KnownHash& file : known.files) {
      if (const auto at = has_hash.find(file.name); at != has_hash.end()) at->second = true;
    }
    uint64_t unknown = 0;
    for (const auto& [name, known_hash] : has_hash) unknown += known_hash ? 0 : 1;
    if (unknown > 0) {
      report_->notes.push_back(
          fmt::format("of {} of {} shards no hash is known", unknown, has_hash.size()));
    }
    uint64_t problems = 0;
    for (const Finding& finding : report_->findings) {
      problems += finding.check == VerifyCheck::hashes ? 1 : 0;
    }
    report_->checks.push_back({VerifyCheck::hashes, known.files.size(), "files", problems});
  }

  const VerifyOptions& options_;
  const VerifySubject& subject_;
  VerifyReport* report_;
  std::string folder_;
  std::unique_ptr<HashRecord> record_;
  std::vector<Job> jobs_;       // each written by one thread
  std::vector<Job> jobs_done_;  // known from before, then all
};

}  // namespace

void verify_hashes(const VerifyOptions& options, const VerifySubject& subject,
                   VerifyReport* report) {
  HashCheck(options, subject, report).run();
}

}  // namespace fathom
