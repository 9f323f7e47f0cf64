// The stored checkpoints, whose every tensor is known from the configuration alone.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/deepseek_tensors.h"
#include "checkpoint/hf_config.h"
#include "tests/paths.h"

namespace fathom {
namespace {

struct Golden {
  const char* name;
  bool has_mtp;
  size_t tensors;
};

// Attention and norms of each layer, the dense layer, router and shared experts, routed experts,
// the MTP layer's own, the globals.
constexpr size_t kWithMtp = 4 * 14 + 6 + 3 * 8 + 3 * 8 * 6 + 6 + 3;
constexpr size_t kPlain = 3 * 11 + 6 + 2 * 8 + 2 * 8 * 6 + 3;

class GoldenCheckpoint : public testing::TestWithParam<Golden> {};

TEST_P(GoldenCheckpoint, HoldsExactlyWhatItsConfigCallsFor) {
  const std::string folder = test_paths::golden() + "/" + GetParam().name;
  const std::string path = folder + "/config.json";
  const DeepseekConfig config = parse_deepseek_config(read_text(path), path);
  EXPECT_EQ(config.weight_block_rows, 128);
  const Checkpoint checkpoint = Checkpoint::open(folder);
  EXPECT_EQ(checkpoint.shards().size(), 3u);
  EXPECT_EQ(checkpoint.tensors().size(), GetParam().tensors);
  const TensorReport report = check_deepseek_tensors(checkpoint, config);
  EXPECT_EQ(report.has_mtp, GetParam().has_mtp);
  EXPECT_TRUE(report.unexpected.empty()) << report.unexpected.front();
  // Nothing but headers and tensors lies in the files.
  uint64_t bytes = checkpoint.payload_bytes();
  for (const Shard& shard : checkpoint.shards()) bytes += 8 + shard.header_bytes;
  for (const Shard& shard : checkpoint.shards()) bytes -= shard.file.size();
  EXPECT_EQ(bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenCheckpoint,
                         testing::Values(Golden{"r1-tiny", true, kWithMtp},
                                         Golden{"r1-yarn-short", true, kWithMtp},
                                         Golden{"r1-no-qlora-linear", false, kPlain}),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace fathom
