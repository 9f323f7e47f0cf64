// What bench disk reads: a model's experts, or a file as if it held some.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/extent_reader.h"
#include "experts/expert_layout.h"

namespace fathom::cli {

class DiskSubject {
 public:
  // Where the model has no routed experts, its largest files are read like of_file().
  static DiskSubject of_model(const std::string& folder);
  // Experts of the released size at random places.
  static DiskSubject of_file(const std::string& path);

  const std::string& name() const { return name_; }
  size_t files() const { return paths_.size(); }
  const std::string& path(int file) const { return paths_[static_cast<size_t>(file)]; }
  uint64_t size(int file) const { return sizes_[static_cast<size_t>(file)]; }
  // One copy each.
  std::vector<std::vector<std::string>> copies() const;
  // The files by falling size, from the first one again after the last.
  int largest(size_t rank) const { return by_size_[rank % by_size_.size()]; }

  // Weights and scales of one expert.
  uint64_t expert_bytes() const { return expert_bytes_; }
  // Reads in flight when all experts of one token in a layer are wanted, and the memory of each.
  size_t expert_slots() const { return expert_slots_; }
  uint64_t slot_bytes() const { return slot_bytes_; }

  // The next read of random experts.
  Extent next_of_expert();
  // Anywhere in any file; shorter where the file is.
  Extent random_extent(uint64_t bytes);

 private:
  DiskSubject(std::string name, std::vector<std::string> paths);
  void use_layout(ExpertLayout layout);
  void use_plain_places();
  uint64_t random_below(uint64_t end);

  std::string name_;
  std::vector<std::string> paths_;
  std::vector<uint64_t> sizes_;
  std::vector<int> by_size_;
  std::optional<ExpertLayout> layout_;
  std::deque<Extent> queue_;  // the rest of an expert that has several extents
  uint64_t expert_bytes_ = 0;
  size_t expert_slots_ = 0;
  uint64_t slot_bytes_ = 0;
  uint64_t random_ = 1;
};

}  // namespace fathom::cli
