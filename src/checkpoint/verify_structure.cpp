#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/join.h"
#include "base/json_sax.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/model_tensors.h"
#include "checkpoint/verify.h"
#include "checkpoint/weight_index.h"

namespace fathom {
namespace {

constexpr uint64_t kMostIndexBytes = uint64_t{1} << 30;
constexpr uint64_t kMostConfigBytes = uint64_t{1} << 20;
constexpr size_t kNamed = 5;  // of things that a note names

std::string some_of(const std::vector<std::string>& names) {
  std::vector<std::string> some(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamed)));
  if (names.size() > kNamed) some.push_back("...");
  return join(some, ", ");
}

class StructureCheck {
 public:
  StructureCheck(std::string folder, VerifyReport* report)
      : folder_(std::move(folder)), report_(report) {}

  VerifySubject run() {
    read_index();
    name_files();
    std::vector<Shard> shards;
    std::vector<TensorInfo> tensors;
    read_headers(&shards, &tensors);
    subject_.checkpoint = Checkpoint::of_parts(folder_, std::move(shards), std::move(tensors));
    check_index();
    read_config();
    if (subject_.config) check_tensors();
    return std::move(subject_);
  }

 private:
  void count(VerifyCheck check, uint64_t checked, const char* unit) {
    const auto problems =
        std::count_if(report_->findings.begin(), report_->findings.end(),
                      [check](const Finding& finding) { return finding.check == check; });
    report_->checks.push_back({check, checked, unit, static_cast<uint64_t>(problems)});
  }
  Finding& find(VerifyCheck check, const std::string& file, const std::string& tensor,
                std::string problem) {
    report_->findings.push_back({check, file, tensor, std::nullopt, std::move(problem), true});
    return report_->findings.back();
  }
  std::string path(const std::string& name) const {
    return (std::filesystem::path(folder_) / name).string();
  }
  // An error's text without the path that a finding shows anyway.
  std::string without_path(std::string text, const std::string& name) const {
    const std::string beginning = path(name);
    if (!text.starts_with(beginning)) return text;
    text.erase(0, beginning.size());
    if (text.starts_with(": ")) text.erase(0, 2);
    return text;
  }
  const std::string& shard_of(const TensorInfo& tensor) const {
    return subject_.checkpoint.shards()[static_cast<size_t>(tensor.shard)].name;
  }

  void read_index() {
    if (!path_exists(path(kIndexName))) return;
    try {
      if (const std::string why = why_absent(folder_, kIndexName); !why.empty()) {
        fail_input("it {}", why);
      }
      WeightIndex index =
          parse_weight_index(read_text(path(kIndexName), kMostIndexBytes), path(kIndexName));
      if (index.files.empty()) fail_input("'weight_map' is empty");
      index_ = std::move(index);
    } catch (const Error& error) {
      find(VerifyCheck::index, kIndexName, "", without_path(error.what(), kIndexName));
    }
  }

  // Which files there should be, and which of them are not.
  void name_files() {
    const std::vector<std::string> present = safetensors_names(folder_);
    std::vector<std::string>& names = subject_.shard_names;
    if (index_) {
      names = index_->files;
      std::vector<std::string> others;
      std::set_difference(present.begin(), present.end(), names.begin(), names.end(),
                          std::back_inserter(others));
      if (!others.empty()) {
        report_->notes.push_back(fmt::format("{} safetensors files are not named by {}: {}",
                                             others.size(), kIndexName, some_of(others)));
      }
    } else {
      names = present;
      for (const ShardSet& set : shard_sets(present)) {
        names.insert(names.end(), set.missing.begin(), set.missing.end());
      }
      std::sort(names.begin(), names.end());
      if (names.empty()) {
        find(VerifyCheck::files, "", "",
             fmt::format("no checkpoint here: looked for {} and for *.safetensors{}", kIndexName,
                         hint_without_safetensors(folder_)));
      }
    }
    for (const std::string& name : names) {
      const std::string why = why_absent(folder_, name);
      if (why.empty()) continue;
      find(VerifyCheck::files, name, "", "it " + why);
      subject_.unreadable.push_back(name);
    }
    count(VerifyCheck::files, names.size(), "files");
  }

  void read_headers(std::vector<Shard>* shards, std::vector<TensorInfo>* tensors) {
    uint64_t headers = 0;
    for (const std::string& name : subject_.shard_names) {
      if (unreadable(name)) continue;
      ++headers;
      try {
        Shard shard{name, File(path(name)), 0};
        std::vector<ExtentProblem> problems;
        SafetensorsHeader header = read_safetensors_header(shard.file, &problems);
        shard.header_bytes = header.header_bytes;
        for (const ExtentProblem& problem : problems) take_in(name, problem);
        find_gaps(name, header, shard.file.size());
        for (TensorInfo& tensor : header.tensors) {
          tensor.shard = static_cast<int>(shards->size());
          tensors->push_back(std::move(tensor));
        }
        shards->push_back(std::move(shard));
      } catch (const Error& error) {
        find(VerifyCheck::headers, name, "", without_path(error.what(), name));
        subject_.unreadable.push_back(name);
        std::sort(subject_.unreadable.begin(), subject_.unreadable.end());
      }
    }
    count(VerifyCheck::headers, headers, "files");
    count(VerifyCheck::extents, tensors->size(), "tensors");
    count(VerifyCheck::overlaps, tensors->size(), "tensors");
    count(VerifyCheck::gaps, tensors->size(), "tensors");
  }

  bool unreadable(const std::string& name) const {
    return std::binary_search(subject_.unreadable.begin(), subject_.unreadable.end(), name);
  }

  void take_in(const std::string& file, const ExtentProblem& problem) {
    const bool overlap = problem.kind == ExtentProblem::Kind::overlap;
    find(overlap ? VerifyCheck::overlaps : VerifyCheck::extents, file, problem.tensor, problem.what)
        .offset = problem.offset;
  }

  // The format leaves no bytes between tensors; other readers refuse such a file.
  void find_gaps(const std::string& file, const SafetensorsHeader& header, uint64_t file_size) {
    std::vector<const TensorInfo*> order;
    for (const TensorInfo& tensor : header.tensors) order.push_back(&tensor);
    std::sort(order.begin(), order.end(),
              [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
    uint64_t end = 8 + header.header_bytes;
    for (const TensorInfo* tensor : order) {
      if (tensor->bytes > 0 && tensor->offset > end && end < file_size) {
        find(VerifyCheck::gaps, file, tensor->name,
             fmt::format("{} bytes before it belong to no tensor", tensor->offset - end))
            .offset = end;
      }
      end = std::max(end, tensor->offset + tensor->bytes);
    }
  }

  void check_index() {
    const Checkpoint& checkpoint = subject_.checkpoint;
    std::unordered_map<std::string_view, std::vector<const TensorInfo*>> holders;
    for (const TensorInfo& tensor : checkpoint.tensors()) holders[tensor.name].push_back(&tensor);
    if (!index_) {
      for (const TensorInfo& tensor : checkpoint.tensors()) {
        const TensorInfo* first = holders[tensor.name].front();
        if (first == &tensor) continue;
        find(VerifyCheck::index, shard_of(tensor), tensor.name,
             fmt::format("it is in {} too, and no index decides", shard_of(*first)));
      }
      report_->notes.push_back(fmt::format("there is no readable {}", kIndexName));
      return count(VerifyCheck::index, 0, "entries");
    }
    for (const TensorInfo& tensor : checkpoint.tensors()) {
      const auto entry = index_->file_of_tensor.find(tensor.name);
      if (entry == index_->file_of_tensor.end()) {
        find(VerifyCheck::index, shard_of(tensor), tensor.name,
             fmt::format("{} does not list it", kIndexName));
        continue;
      }
      const std::string& listed = index_->files[static_cast<size_t>(entry->second)];
      if (listed != shard_of(tensor)) {
        find(VerifyCheck::index, shard_of(tensor), tensor.name,
             fmt::format("{} says that it is in {}", kIndexName, listed));
      }
    }
    std::vector<std::pair<std::string, std::string>> absent;  // file, tensor
    for (const auto& [name, file] : index_->file_of_tensor) {
      const std::string& listed = index_->files[static_cast<size_t>(file)];
      if (unreadable(listed)) continue;  // which was said already
      const auto at = holders.find(name);
      const bool held = at != holders.end() &&
                        std::any_of(at->second.begin(), at->second.end(), [&](const auto* tensor) {
                          return shard_of(*tensor) == listed;
                        });
      if (!held) absent.emplace_back(listed, name);
    }
    std::sort(absent.begin(), absent.end());
    for (const auto& [file, name] : absent) {
      find(VerifyCheck::index, file, name,
           fmt::format("{} lists it here, but this file does not hold it", kIndexName));
    }
    count(VerifyCheck::index, index_->file_of_tensor.size(), "entries");
  }

  void read_config() {
    const std::string name = "config.json";
    try {
      const std::string text = read_text(path(name), kMostConfigBytes);
      const std::string architecture = architecture_of(text, path(name));
      if (is_supported_architecture(architecture)) {
        subject_.config = parse_model_config(text, path(name));
      } else {
        report_->notes.push_back(
            fmt::format("the architecture is {}: which tensors it needs is not known here",
                        quoted_for_message(architecture)));
      }
    } catch (const Error& error) {
      find(VerifyCheck::config, name, "", without_path(error.what(), name));
      report_->notes.emplace_back("tensors were not compared with config.json");
    }
    count(VerifyCheck::config, 1, "files");
  }

  // The file that should hold a tensor; "" where nobody says.
  std::string listed_file(const std::string& tensor) const {
    if (const TensorInfo* held = subject_.checkpoint.find(tensor)) return shard_of(*held);
    if (!index_) return "";
    const auto entry = index_->file_of_tensor.find(tensor);
    return entry == index_->file_of_tensor.end()
               ? ""
               : index_->files[static_cast<size_t>(entry->second)];
  }
  // Absent only because its file is.
  bool lost_with_file(const std::string& tensor) const {
    const std::string file = listed_file(tensor);
    return file.empty() ? !index_ && !subject_.unreadable.empty() : unreadable(file);
  }

  void check_tensors() {
    const Checkpoint& checkpoint = subject_.checkpoint;
    const TensorComparison comparison = compare_tensors(checkpoint, *subject_.config);
    uint64_t lost = 0;
    for (const ProblemList::Problem& problem : comparison.problems.all()) {
      // Of a weight without scales, it is the scales that lie in a lost file.
      const bool no_scale = problem.kind == "no scale";
      const std::string absent =
          no_scale ? problem.tensor + std::string(names::kScaleSuffix) : problem.tensor;
      if ((no_scale || problem.kind == "missing") && lost_with_file(absent)) {
        ++lost;
        continue;
      }
      VerifyCheck check = VerifyCheck::shapes;
      if (problem.kind == "missing") check = VerifyCheck::tensors;
      if (no_scale || problem.tensor.ends_with(names::kScaleSuffix)) check = VerifyCheck::scales;
      Finding& finding =
          find(check, listed_file(absent), problem.tensor,
               problem.detail.empty() ? problem.kind : problem.kind + ": " + problem.detail);
      if (const TensorInfo* held = checkpoint.find(problem.tensor)) finding.offset = held->offset;
    }
    if (lost > 0) {
      report_->notes.push_back(
          fmt::format("{} tensors are in files that cannot be read, and were not looked at", lost));
    }
    const std::vector<std::string>& unexpected = comparison.report.unexpected;
    if (!unexpected.empty()) {
      report_->notes.push_back(
          fmt::format("{} tensors are not used: {}", unexpected.size(), some_of(unexpected)));
    }
    const std::vector<ExpectedTensor> expected =
        expected_tensors(*subject_.config, comparison.report.has_mtp);
    uint64_t held = 0;
    uint64_t quantised = 0;
    for (const ExpectedTensor& tensor : expected) {
      const TensorInfo* found = checkpoint.find(tensor.name);
      held += found != nullptr ? 1 : 0;
      quantised += found != nullptr && found->dtype == Dtype::f8_e4m3 ? 1 : 0;
    }
    count(VerifyCheck::tensors, expected.size(), "tensors");
    count(VerifyCheck::shapes, held, "tensors");
    count(VerifyCheck::scales, quantised, "FP8 weights");
    if (const auto* deepseek = std::get_if<DeepseekConfig>(&*subject_.config)) {
      check_experts(*deepseek, comparison.report.has_mtp);
    }
  }

  void check_experts(const DeepseekConfig& config, bool with_mtp) {
    uint64_t experts = 0;
    for (int64_t layer = 0; layer < config.num_hidden_layers + (with_mtp ? 1 : 0); ++layer) {
      if (!config.is_moe_layer(layer)) continue;
      for (int64_t expert = 0; expert < config.n_routed_experts; ++expert, ++experts) {
        check_expert(layer, expert);
      }
    }
    count(VerifyCheck::experts, experts, "experts");
  }

  void check_expert(int64_t layer, int64_t expert) {
    std::vector<std::string> missing;
    std::set<std::string> files;
    for (const char* projection : {"gate_proj", "up_proj", "down_proj"}) {
      const std::string weight = names::expert(layer, expert, projection);
      const TensorInfo* held = subject_.checkpoint.find(weight);
      std::string absent;
      if (held == nullptr) {
        absent = weight;
      } else if (held->dtype == Dtype::f8_e4m3) {
        const std::string scale = weight + std::string(names::kScaleSuffix);
        if (subject_.checkpoint.find(scale) == nullptr) absent = scale;
      }
      if (absent.empty() || lost_with_file(absent)) continue;
      missing.push_back(absent.substr(absent.find(projection)));
      files.insert(listed_file(absent));
    }
    if (missing.empty()) return;
    find(VerifyCheck::experts, *files.begin(),
         names::layer(layer, fmt::format("mlp.experts.{}", expert)),
         fmt::format("incomplete: {} {} missing", join(missing, ", "),
                     missing.size() == 1 ? "is" : "are"));
  }

  std::string folder_;
  VerifyReport* report_;
  VerifySubject subject_;
  std::optional<WeightIndex> index_;
};

}  // namespace

VerifySubject verify_structure(const std::string& folder, VerifyReport* report) {
  return StructureCheck(folder, report).run();
}

}  // namespace fathom
