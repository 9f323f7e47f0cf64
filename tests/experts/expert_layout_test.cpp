#include "experts/expert_layout.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "checkpoint/synth.h"
#include "tests/experts/expert_files.h"

namespace fathom {
namespace {

// Reads every expert by its parts and compares each tensor with the checkpoint's.
void expect_all_tensors(const ExpertFiles& files, size_t* most_parts) {
  const Checkpoint checkpoint = files.open();
  const ExpertLayout layout(checkpoint, files.config(), true);
  *most_parts = 0;
  std::vector<std::byte> slot(layout.slot_bytes());
  for (ExpertId id = 0; id < layout.expert_count(); ++id) {
    const ExpertLayout::Parts parts = layout.parts(id);
    *most_parts = std::max(*most_parts, parts.count);
    uint64_t end = 0;
    for (const ExpertLayout::Part& part : parts.all()) {
      EXPECT_EQ(part.slot_offset % ExtentReader::kBlock, 0u);
      EXPECT_GE(part.slot_offset, end);
      end = part.slot_offset + ExtentReader::landing_bytes(part.extent);
      checkpoint.shards()[static_cast<size_t>(part.extent.file)].file.read_at(
          part.extent.offset,
          {slot.data() + part.slot_offset + ExtentReader::landing_offset(part.extent),
           part.extent.bytes});
    }
    EXPECT_LE(end + Buffer::kReadableTail, layout.slot_bytes());
    uint64_t bytes = 0;
    for (size_t i = 0; i < ExpertLayout::kTensors; ++i) {
      const auto tensor = layout.tensor(id, i, true);
      if (!tensor) continue;
      const TensorInfo* info = checkpoint.find(tensor->name);
      ASSERT_NE(info, nullptr) << tensor->name;
      EXPECT_EQ(tensor->offset, info->offset);
      EXPECT_EQ(tensor->file, info->shard);
      EXPECT_EQ(tensor->bytes, info->bytes);
      EXPECT_EQ(tensor->dtype, info->dtype);
      std::vector<std::byte> stored(info->bytes);
      checkpoint.read(*info, stored);
      EXPECT_EQ(std::memcmp(stored.data(), slot.data() + tensor->slot_offset, stored.size()), 0)
          << tensor->name;
      EXPECT_EQ(layout.tensor_at(id, tensor->file, tensor->offset), tensor->name);
      EXPECT_EQ(layout.tensor_at(id, tensor->file, tensor->offset + tensor->bytes - 1),
                tensor->name);
      bytes += info->bytes;
    }
    EXPECT_EQ(layout.expert_bytes(id), bytes);
    const GatedMlp mlp = layout.weights(id, slot.data());
    EXPECT_EQ(mlp.gate.rows, files.config().moe_intermediate_size);
    EXPECT_EQ(mlp.down.rows, files.config().hidden_size);
    EXPECT_EQ(mlp.down.cols, files.config().moe_intermediate_size);
  }
}

TEST(ExpertLayout, AnExpertOfTheReleasedOrderIsOneReadAndTwoWhereItStraddles) {
  const ExpertFiles files(expert_config(), {TensorOrder::released, 5, false, 1});
  size_t most_parts = 0;
  expect_all_tensors(files, &most_parts);
  EXPECT_EQ(most_parts, 2u);
  const ExpertLayout layout(files.open(), files.config(), true);
  int straddling = 0;
  for (ExpertId id = 0; id < layout.expert_count(); ++id) straddling += layout.parts(id).count == 2;
  EXPECT_EQ(straddling, 3);
  EXPECT_EQ(layout.moe_layers(), 3);
  EXPECT_FALSE(layout.has_experts(0));
  EXPECT_TRUE(layout.has_experts(3));
  EXPECT_FALSE(layout.has_experts(4));
  EXPECT_EQ(layout.layer_of(layout.id(2, 5)), 2);
  EXPECT_EQ(layout.expert_of(layout.id(2, 5)), 5);
  const ExpertLayout without(files.open(), files.config(), false);
  EXPECT_EQ(without.moe_layers(), 2);
}

TEST(ExpertLayout, TensorsInAnyOrderAndFormat) {
  size_t most_parts = 0;
  expect_all_tensors(ExpertFiles(expert_config(), {TensorOrder::shuffled, 5, true, 1}),
                     &most_parts);
  EXPECT_EQ(most_parts, 6u);
  expect_all_tensors(ExpertFiles(expert_config(), {TensorOrder::by_projection, 1, true, 4}),
                     &most_parts);
  expect_all_tensors(ExpertFiles(expert_config(), {TensorOrder::released, 1, true, 4}),
                     &most_parts);
  EXPECT_EQ(most_parts, 1u);
}

TEST(ExpertLayout, OutlivesItsCheckpointAndStaysSmall) {
  const ExpertFiles files(expert_config(64), {TensorOrder::shuffled, 3, false, 1});
  const ExpertLayout layout = [&] { return ExpertLayout(files.open(), files.config(), true); }();
  EXPECT_EQ(layout.expert_count(), 192);
  // 15,104 experts of the released model, were they in this worst of orders, stay below 2 MB.
  EXPECT_LE(layout.memory_bytes() * 15104 / 192, 2'000'000u);
  EXPECT_EQ(layout.tensor(layout.id(3, 63), 5, true)->name,
            "model.layers.3.mlp.experts.63.down_proj.weight_scale_inv");
  EXPECT_EQ(layout.paths()[1], files.path(1));
}

TEST(ExpertLayout, NamesWhatIsMissingOrMisshapen) {
  const ExpertFiles files(expert_config(12), {});
  expect_contains(error_of([&] { ExpertLayout(files.open(), expert_config(13), true); }),
                  {"no tensor model.layers.1.mlp.experts.12.gate_proj.weight"});
  DeepseekConfig config = expert_config(12);
  config.hidden_size = 64;
  expect_contains(error_of([&] { ExpertLayout(files.open(), config, true); }),
                  {"model.layers.1.mlp.experts.0.gate_proj.weight", "[40,72]", "[40,64]"});
  config = expert_config(12);
  config.weight_block_rows = 0;
  expect_contains(error_of([&] { ExpertLayout(files.open(), config, true); }),
                  {"F8_E4M3", "weight_block_size"});
}

}  // namespace
}  // namespace fathom
