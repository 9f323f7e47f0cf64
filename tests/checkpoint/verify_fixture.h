// A checkpoint to be broken on purpose.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "checkpoint/deepseek_tensors.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/synth.h"
#include "checkpoint/verify.h"
#include "tests/checkpoint/configs.h"
#include "tests/checkpoint/toy.h"

namespace fathom {

// A whole checkpoint of three shards, to be broken.
class Verify : public testing::Test {
 protected:
  void SetUp() override {
    write_file(folder_ / "given.json", small_config().dump());
    SynthOptions o;
    o.config_path = folder_ / "given.json";
    o.out_folder = model();
    o.seed = 3;
    o.shards = 3;
    synthesise_checkpoint(o, 1);
  }
  std::string model() const { return folder_ / "model"; }
  std::string shard(int number) const {
    return "model-0000" + std::to_string(number) + "-of-000003.safetensors";
  }
  std::string path(const std::string& name) const { return model() + "/" + name; }

  VerifyReport verify(bool values = false) const {
    VerifyOptions o;
    o.folder = model();
    o.values = values;
    o.threads = 2;
    return verify_checkpoint(o);
  }
  VerifyReport verify_hashed(const std::string& sums = "", const std::string& resume = "") const {
    VerifyOptions o;
    o.folder = model();
    o.hashes = true;
    o.sums = sums;
    o.resume_file = resume;
    o.threads = 2;
    return verify_checkpoint(o);
  }

  TensorInfo place(const std::string& name) const {
    const Checkpoint checkpoint = Checkpoint::open(model());
    const TensorInfo* tensor = checkpoint.find(name);
    EXPECT_NE(tensor, nullptr) << name;
    return tensor == nullptr ? TensorInfo() : *tensor;
  }
  std::string file_of(const TensorInfo& tensor) const { return shard(tensor.shard + 1); }
  void overwrite(const std::string& name, uint64_t offset, const std::string& bytes) const {
    std::fstream file(path(name), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(offset));
    file << bytes;
    ASSERT_TRUE(file.good());
  }
  // Replaces text of the header by text of the same length, keeping all else.
  void replace_in(const std::string& name, const std::string& from, const std::string& to) const {
    std::string text = read_text(path(name));
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    write_file(path(name), text);
  }
  // Rewrites a shard with its tensors passed through `change`.
  template <typename Change>
  void rewrite(const std::string& name, const Change& change) const {
    const File file(path(name));
    std::vector<ToyTensor> tensors;
    for (const TensorInfo& tensor : read_safetensors_header(file).tensors) {
      std::string bytes(tensor.bytes, '\0');
      file.read_at(tensor.offset, std::as_writable_bytes(std::span(bytes)));
      tensors.push_back({tensor.name, std::string(dtype_name(tensor.dtype)), tensor.shape, bytes});
    }
    change(&tensors);
    write_file(path(name), safetensors_of(tensors));
  }
  void erase(const std::string& tensor) const {
    rewrite(file_of(place(tensor)), [&](std::vector<ToyTensor>* tensors) {
      std::erase_if(*tensors, [&](const ToyTensor& t) { return t.name == tensor; });
    });
    std::string index = read_text(path(kIndexName));
    const size_t at = index.find("\"" + tensor + "\"");
    ASSERT_NE(at, std::string::npos);
    size_t end = index.find(',', at);
    index.erase(at, end + 1 - at);
    write_file(path(kIndexName), index);
  }

  static std::vector<Finding> of(const VerifyReport& report, VerifyCheck check) {
    std::vector<Finding> found;
    for (const Finding& finding : report.findings) {
      if (finding.check == check) found.push_back(finding);
    }
    return found;
  }
  // The only finding of the report.
  static Finding only(const VerifyReport& report) {
    std::string all;
    for (const Finding& f : report.findings) {
      all += "\n" + std::string(check_name(f.check)) + " " + f.file + " " + f.tensor + ": " +
             f.problem;
    }
    EXPECT_EQ(report.findings.size(), 1u) << all;
    return report.findings.empty() ? Finding() : report.findings.front();
  }
  static CheckCount counted(const VerifyReport& report, VerifyCheck check) {
    for (const CheckCount& count : report.checks) {
      if (count.check == check) return count;
    }
    ADD_FAILURE() << check_name(check);
    return {};
  }
  static std::string floats(const std::vector<float>& values) {
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }

  TemporaryFolder folder_;
  const std::string expert_ = names::expert(2, 1, "up_proj");
};

}  // namespace fathom
