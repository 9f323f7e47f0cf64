#include "tests/cli/program.h"

namespace fathom {
namespace {

std::string some_ids(int count) {
  std::string ids;
  for (int i = 0; i < count; ++i) {
    if (i > 0) ids += ",";
    ids += std::to_string((i * 37 + i * i * 11) % 263);
  }
  return ids;
}

TEST(CliCompare, AModelWithItself) {
  const Finished finished = run({"compare", golden("r1-tiny"), golden("r1-tiny"), "--tokens",
                                 some_ids(50), "--ctx", "20", "--json"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  const nlohmann::json json = finished.json();
  EXPECT_EQ(json["predicted"], 19 + 19 + 9);
  EXPECT_EQ(json["windows"], 3);
  EXPECT_EQ(json["kl_max"], 0);
  EXPECT_EQ(json["top1_agreement"], 1);
  const Finished perplexity = run({"perplexity", "--model", golden("r1-tiny"), "--tokens",
                                   some_ids(50), "--ctx", "20", "--json"});
  ASSERT_EQ(perplexity.code, 0) << perplexity.err;
  for (const char* side : {"a", "b"}) {
    EXPECT_NEAR(json[side]["mean_nll"], perplexity.json()["mean_nll"].get<double>(), 1e-6);
  }
}

TEST(CliCompare, AQuantisedCopy) {
  const TemporaryFolder place;
  const std::string copy = place / "copy";
  const std::string scratch = place / "scratch";
  std::filesystem::create_directory(scratch);
  const Finished made = run(
      {"quantize", golden("r1-tiny"), "--to", "int4", "--out", copy, "--ram", "200M", "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_GT(made.json()["matrices"], 0);
  EXPECT_LT(made.json()["packed_bytes"], made.json()["matrix_bytes"]);
  const Finished finished = run({"compare", golden("r1-tiny"), copy, "--tokens", some_ids(60),
                                 "--scratch", scratch, "--json"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  const nlohmann::json json = finished.json();
  EXPECT_GT(json["kl_mean"], 0);
  EXPECT_GE(json["kl_max"], json["kl_mean"]);
  EXPECT_LT(json["kl_max_position"], 59);
  EXPECT_LE(json["top1_agreement"], 1);
  EXPECT_TRUE(std::filesystem::is_empty(scratch));
  // --head is the second model's, so that a model can be compared with itself in 8 bits.
  const Finished head = run({"compare", golden("r1-tiny"), golden("r1-tiny"), "--tokens",
                             some_ids(60), "--head", "int8", "--json"});
  ASSERT_EQ(head.code, 0) << head.err;
  EXPECT_GT(head.json()["kl_mean"], 0);
}

TEST(CliCompare, MessagesNameWhatIsWrong) {
  const std::string model = golden("r1-tiny");
  const Finished scratch =
      run({"compare", model, model, "--tokens", "1,2,3", "--scratch", "/no/such/folder"});
  EXPECT_EQ(scratch.code, 2);
  EXPECT_NE(scratch.err.find("/no/such/folder"), std::string::npos) << scratch.err;
  EXPECT_EQ(run({"compare", model, model}).code, 2);
  EXPECT_EQ(run({"quantize", model, "--to", "int5", "--out", "x"}).code, 2);
}

}  // namespace
}  // namespace fathom
