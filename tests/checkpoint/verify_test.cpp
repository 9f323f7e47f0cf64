// Checkpoints broken on purpose, each in one way.
#include "tests/checkpoint/verify_fixture.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

TEST_F(Verify, AWholeOneIsGoodAndEveryCheckCounts) {
  const VerifyReport report = verify(true);
  EXPECT_TRUE(report.good());
  EXPECT_TRUE(report.to_download().empty());
  const Checkpoint checkpoint = Checkpoint::open(model());
  const size_t tensors = checkpoint.tensors().size();
  EXPECT_EQ(counted(report, VerifyCheck::files).checked, 3u);
  EXPECT_EQ(counted(report, VerifyCheck::headers).checked, 3u);
  for (const VerifyCheck check : {VerifyCheck::extents, VerifyCheck::overlaps, VerifyCheck::gaps,
                                  VerifyCheck::index, VerifyCheck::values}) {
    EXPECT_EQ(counted(report, check).checked, tensors) << check_name(check);
  }
  EXPECT_EQ(counted(report, VerifyCheck::experts).checked, 12u);  // 2 layers and MTP, 4 each
  const uint64_t scales = counted(report, VerifyCheck::scales).checked;
  EXPECT_EQ(counted(report, VerifyCheck::tensors).checked + scales, tensors);
  EXPECT_EQ(report.bytes_scanned, checkpoint.payload_bytes());
}

TEST_F(Verify, ATruncatedFile) {
  fs::resize_file(path(shard(2)), fs::file_size(path(shard(2))) - 10);
  const VerifyReport report = verify(true);
  const Finding finding = only(report);
  EXPECT_EQ(finding.check, VerifyCheck::extents);
  EXPECT_EQ(finding.file, shard(2));
  EXPECT_EQ(finding.offset, fs::file_size(path(shard(2))));
  EXPECT_FALSE(finding.tensor.empty());
  EXPECT_EQ(report.to_download(), std::vector<std::string>{shard(2)});
}

TEST_F(Verify, GoesOnAfterABadFile) {
  write_file(path(shard(1)), "<html>busy</html>");
  fs::resize_file(path(shard(2)), fs::file_size(path(shard(2))) - 10);
  fs::remove(path(shard(3)));
  const VerifyReport report = verify();
  ASSERT_EQ(report.findings.size(), 3u);
  EXPECT_EQ(of(report, VerifyCheck::files)[0].file, shard(3));
  EXPECT_EQ(of(report, VerifyCheck::headers)[0].file, shard(1));
  expect_contains(of(report, VerifyCheck::headers)[0].problem, {"HTML"});
  EXPECT_EQ(of(report, VerifyCheck::extents)[0].file, shard(2));
  EXPECT_EQ(report.to_download(), (std::vector<std::string>{shard(1), shard(2), shard(3)}));
}

TEST_F(Verify, BytesBehindTheLastTensor) {
  std::ofstream(path(shard(1)), std::ios::app | std::ios::binary) << "more";
  const Finding finding = only(verify());
  EXPECT_EQ(finding.check, VerifyCheck::extents);
  EXPECT_EQ(finding.offset, fs::file_size(path(shard(1))) - 4);
  expect_contains(finding.problem, {"4 bytes follow"});
}

// Two tensors of four bytes; the second one's place is given.
std::string two_tensors(const std::string& second, size_t payload) {
  return container(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                   R"("b":{"dtype":"U8","shape":[4],"data_offsets":)" +
                       second + "}}",
                   std::string(payload, 'x'));
}

TEST(VerifyToy, AGapAndAnOverlap) {
  const TemporaryFolder folder;
  write_file(folder / "config.json", R"({"architectures":["Toy"]})");
  VerifyOptions o;
  o.folder = folder / "";
  struct Case {
    const char* second;
    size_t payload;
    VerifyCheck check;
    uint64_t relative;
    const char* problem;
  };
  for (const Case& c : {Case{"[4,8]", 8, VerifyCheck::count, 0, ""},
                        Case{"[7,11]", 11, VerifyCheck::gaps, 4, "3 bytes"},
                        Case{"[2,6]", 6, VerifyCheck::overlaps, 2, "overlaps tensor 'a'"}}) {
    const std::string file = two_tensors(c.second, c.payload);
    write_file(folder / "model.safetensors", file);
    const VerifyReport report = verify_checkpoint(o);
    ASSERT_EQ(report.findings.size(), c.check == VerifyCheck::count ? 0u : 1u) << c.second;
    if (c.check == VerifyCheck::count) continue;
    EXPECT_EQ(report.findings[0].check, c.check);
    EXPECT_EQ(report.findings[0].tensor, "b");
    EXPECT_EQ(report.findings[0].offset, file.size() - c.payload + c.relative);
    expect_contains(report.findings[0].problem, {c.problem});
  }
}

TEST_F(Verify, AnIndexThatNamesAnAbsentTensor) {
  std::string index = read_text(path(kIndexName));
  index.insert(index.find('{', index.find("\"weight_map\"")) + 1,
               "\"model.ghost.weight\":\"" + shard(2) + "\",");
  write_file(path(kIndexName), index);
  const VerifyReport report = verify();
  const Finding finding = only(report);
  EXPECT_EQ(finding.check, VerifyCheck::index);
  EXPECT_EQ(finding.file, shard(2));
  EXPECT_EQ(finding.tensor, "model.ghost.weight");
  EXPECT_EQ(report.to_download(), (std::vector<std::string>{shard(2), kIndexName}));
}

TEST_F(Verify, ATensorThatTheIndexDoesNotList) {
  rewrite(shard(2), [](std::vector<ToyTensor>* tensors) { tensors->push_back(toy("extra", "x")); });
  const VerifyReport report = verify();
  EXPECT_EQ(only(report).check, VerifyCheck::index);
  EXPECT_EQ(only(report).tensor, "extra");
  bool noted = false;
  for (const std::string& note : report.notes) noted |= note.find("extra") != std::string::npos;
  EXPECT_TRUE(noted);
}

TEST_F(Verify, ATensorInAnotherFileThanTheIndexSays) {
  const TensorInfo norm = place("model.norm.weight");
  const std::string other = shard(norm.shard == 0 ? 2 : 1);
  const std::string before = "\"model.norm.weight\":\"" + file_of(norm) + "\"";
  std::string index = read_text(path(kIndexName));
  std::erase(index, ' ');
  ASSERT_NE(index.find(before), std::string::npos);
  index.replace(index.find(before), before.size(), "\"model.norm.weight\":\"" + other + "\"");
  write_file(path(kIndexName), index);
  const std::vector<Finding> found = of(verify(), VerifyCheck::index);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].file, file_of(norm));
  EXPECT_EQ(found[1].file, other);
}

TEST_F(Verify, WithoutAnIndexAMissingShardIsKnownByItsNumber) {
  fs::remove(path(kIndexName));
  EXPECT_TRUE(verify().good());
  fs::remove(path(shard(2)));
  const Finding finding = only(verify());
  EXPECT_EQ(finding.check, VerifyCheck::files);
  EXPECT_EQ(finding.file, shard(2));
}

TEST_F(Verify, AWrongShape) {
  const TensorInfo norm = place("model.norm.weight");
  replace_in(file_of(norm), R"("model.norm.weight":{"dtype":"BF16","shape":[20])",
             R"("model.norm.weight":{"dtype":"F16","shape":[4,5])");
  const Finding finding = only(verify());
  EXPECT_EQ(finding.check, VerifyCheck::shapes);
  EXPECT_EQ(finding.tensor, "model.norm.weight");
  EXPECT_EQ(finding.offset, norm.offset);
  expect_contains(finding.problem, {"[4,5]", "[20]"});
}

TEST_F(Verify, AMissingTensor) {
  erase("model.layers.0.self_attn.o_proj.weight");
  const VerifyReport report = verify();
  const Finding finding = only(report);
  EXPECT_EQ(finding.check, VerifyCheck::tensors);
  EXPECT_EQ(finding.tensor, "model.layers.0.self_attn.o_proj.weight");
}

TEST_F(Verify, AMissingScale) {
  erase("model.layers.0.self_attn.o_proj.weight_scale_inv");
  const Finding finding = only(verify());
  EXPECT_EQ(finding.check, VerifyCheck::scales);
  EXPECT_EQ(finding.tensor, "model.layers.0.self_attn.o_proj.weight");
  expect_contains(finding.problem, {"weight_scale_inv"});
}

TEST_F(Verify, AnIncompleteExpert) {
  erase(expert_);
  const VerifyReport report = verify();
  const std::vector<Finding> found = of(report, VerifyCheck::experts);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].tensor, "model.layers.2.mlp.experts.1");
  expect_contains(found[0].problem, {"up_proj.weight is missing"});
  EXPECT_EQ(of(report, VerifyCheck::tensors).size(), 1u);
}

TEST_F(Verify, AConfigThatCannotBeRead) {
  write_file(path("config.json"), "{");
  EXPECT_EQ(only(verify()).check, VerifyCheck::config);
}

TEST_F(Verify, AnFp8CodeThatIsNoNumber) {
  const TensorInfo weight = place(expert_);
  overwrite(file_of(weight), weight.offset + 7, "\xff");
  const Finding finding = only(verify(true));
  EXPECT_EQ(finding.check, VerifyCheck::values);
  EXPECT_EQ(finding.file, file_of(weight));
  EXPECT_EQ(finding.tensor, expert_);
  EXPECT_EQ(finding.offset, weight.offset + 7);
  EXPECT_TRUE(verify(false).good());  // values are looked at only when asked for
}

TEST_F(Verify, ScalesThatCannotBe) {
  const TensorInfo scale = place(expert_ + "_scale_inv");
  struct Case {
    float value;
    const char* problem;
  };
  for (const Case& c : {Case{0.0f, "is 0"}, Case{-1.0f, "is negative"},
                        Case{std::numeric_limits<float>::infinity(), "is not finite"},
                        Case{std::numeric_limits<float>::quiet_NaN(), "is not finite"}}) {
    overwrite(file_of(scale), scale.offset + 4, floats({c.value}));
    const Finding finding = only(verify(true));
    EXPECT_EQ(finding.tensor, scale.name);
    EXPECT_EQ(finding.offset, scale.offset + 4);
    expect_contains(finding.problem, {c.problem});
  }
}

TEST_F(Verify, InvertedScales) {
  const TensorInfo scale = place(expert_ + "_scale_inv");
  const Checkpoint checkpoint = Checkpoint::open(model());
  std::vector<float> values(scale.bytes / 4);
  checkpoint.read(scale, std::as_writable_bytes(std::span(values)));
  for (float& value : values) value = 1 / value;
  overwrite(file_of(scale), scale.offset, floats(values));
  const Finding finding = only(verify(true));
  EXPECT_EQ(finding.tensor, scale.name);
  EXPECT_EQ(finding.offset, scale.offset);
  expect_contains(finding.problem, {"inverted", "wrong way round"});
}

TEST_F(Verify, OneAbsurdScale) {
  const TensorInfo scale = place(expert_ + "_scale_inv");
  overwrite(file_of(scale), scale.offset + 8, floats({1e9f}));
  const Finding finding = only(verify(true));
  EXPECT_EQ(finding.offset, scale.offset + 8);
  expect_contains(finding.problem, {"1 of ", "absurd"});
}

TEST_F(Verify, ValuesThatAreNotFiniteOrNeverWritten) {
  const TensorInfo norm = place("model.norm.weight");
  overwrite(file_of(norm), norm.offset + 6, "\x80\x7f");
  EXPECT_EQ(only(verify(true)).offset, norm.offset + 6);
  overwrite(file_of(norm), norm.offset, std::string(norm.bytes, '\0'));
  expect_contains(only(verify(true)).problem, {"never written"});
  overwrite(file_of(norm), norm.offset, std::string(norm.bytes, '\x3f'));
  const TensorInfo weight = place(expert_);
  overwrite(file_of(weight), weight.offset, std::string(weight.bytes, '\0'));
  EXPECT_EQ(only(verify(true)).tensor, expert_);
}

}  // namespace
}  // namespace fathom
