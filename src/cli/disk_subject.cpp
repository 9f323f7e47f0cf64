#include "cli/disk_subject.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "base/system.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/hf_config.h"

namespace fathom::cli {
namespace {

// An expert of DeepSeek-R1: three FP8 matrices of 7168 x 2048 with their scales.
constexpr uint64_t kReleasedExpertBytes = 44'050'944;
constexpr size_t kReleasedExpertsPerToken = 8;

}  // namespace

DiskSubject::DiskSubject(std::string name, std::vector<std::string> paths)
    : name_(std::move(name)), paths_(std::move(paths)) {
  for (const std::string& path : paths_) sizes_.push_back(File(path).size());
  by_size_.resize(paths_.size());
  std::iota(by_size_.begin(), by_size_.end(), 0);
  std::stable_sort(by_size_.begin(), by_size_.end(),
                   [this](int a, int b) { return size(a) > size(b); });
  if (size(largest(0)) == 0) fail_input("{}: there is nothing to read", name_);
}

DiskSubject DiskSubject::of_file(const std::string& path) {
  DiskSubject subject(path, {path});
  subject.use_plain_places();
  return subject;
}

DiskSubject DiskSubject::of_model(const std::string& folder) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  std::vector<std::string> paths;
  for (const Shard& shard : checkpoint.shards()) paths.push_back(shard.file.path());
  DiskSubject subject(folder, std::move(paths));
  const std::string config_path = checkpoint.folder() + "/config.json";
  const std::string text = read_text(config_path);
  if (architecture_of(text, config_path) == "DeepseekV3ForCausalLM") {
    const DeepseekConfig config = parse_deepseek_config(text, config_path);
    if (config.n_routed_experts > 0) subject.use_layout({checkpoint, config, false});
  }
  if (!subject.layout_) subject.use_plain_places();
  return subject;
}

void DiskSubject::use_layout(ExpertLayout layout) {
  if (layout.expert_count() == 0) return;
  layout_.emplace(std::move(layout));
  size_t parts = 1;
  for (ExpertId id = 0; id < layout_->expert_count(); ++id) {
    expert_bytes_ = std::max(expert_bytes_, layout_->expert_bytes(id));
    const ExpertLayout::Parts of = layout_->parts(id);
    parts = std::max(parts, of.count);
    for (const ExpertLayout::Part& part : of.all()) {
      slot_bytes_ = std::max(slot_bytes_, ExtentReader::landing_bytes(part.extent));
    }
  }
  expert_slots_ = static_cast<size_t>(layout_->experts_per_token()) * parts;
  const uint64_t memory = system::available_memory() / 2;
  while (memory > 0 && expert_slots_ > 1 && expert_slots_ * slot_bytes_ > memory) --expert_slots_;
}

void DiskSubject::use_plain_places() {
  expert_bytes_ = std::min(kReleasedExpertBytes, size(largest(0)));
  slot_bytes_ =
      (expert_bytes_ + 2 * ExtentReader::kBlock) / ExtentReader::kBlock * ExtentReader::kBlock;
  expert_slots_ = kReleasedExpertsPerToken;
}

std::vector<std::vector<std::string>> DiskSubject::copies() const {
  std::vector<std::vector<std::string>> copies;
  for (const std::string& path : paths_) copies.push_back({path});
  return copies;
}

uint64_t DiskSubject::random_below(uint64_t end) {
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  return (random_ >> 11) % end;
}

Extent DiskSubject::random_extent(uint64_t bytes) {
  const int file = static_cast<int>(random_below(paths_.size()));
  const uint64_t length = std::min(bytes - ExtentReader::kBlock, size(file));
  return {file, random_below(size(file) - length + 1), length};
}

Extent DiskSubject::next_of_expert() {
  if (!layout_) {
    const int file = largest(0);
    return {file, random_below(size(file) - expert_bytes_ + 1), expert_bytes_};
  }
  if (queue_.empty()) {
    const auto count = static_cast<uint64_t>(layout_->expert_count());
    const ExpertLayout::Parts parts = layout_->parts(static_cast<ExpertId>(random_below(count)));
    for (const ExpertLayout::Part& part : parts.all()) queue_.push_back(part.extent);
  }
  const Extent extent = queue_.front();
  queue_.pop_front();
  return extent;
}

}  // namespace fathom::cli
