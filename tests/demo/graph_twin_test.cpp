// The demo model's dense twin exported as graphs, both ways, answers as torch does.
#include <gtest/gtest.h>

#include "engine/text_folder.h"
#include "fathom/model.h"
#include "graph/export/qhx_export.h"
#include "graph/runtime.h"
#include "tests/demo/asking.h"
#include "tests/temporary_folder.h"

namespace fathom {
namespace {

class TwinAsGraphs : public testing::Test {
 protected:
  void SetUp() override {
    try {
      load_graph_runtime({});
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  Model load() const {
    LoadOptions options;
    options.folder = folder_ / "m";
    options.threads = 1;
    return Model::load(options);
  }

  // How many of the first `count` answers are torch's, to the last token.
  static int count_equal(Model& model, size_t count) {
    const nlohmann::json golden = read_document("tests/golden/demo-dense/golden.json");
    int equal = 0;
    for (size_t i = 0; i < count; ++i) {
      const nlohmann::json& expected = golden["greedy"].at(i);
      const GenerateResult result = answer_greedily(model, render_turns(model, expected["turns"]));
      equal += result.ids == expected["ids"].get<std::vector<int32_t>>() ? 1 : 0;
    }
    return equal;
  }

  TemporaryFolder folder_;
  const std::string twin_ = repository_path("models/demo-dense");
};

TEST_F(TwinAsGraphs, FourGraphsAnswerAsTorch) {
  FourGraphExport options;
  options.out_folder = folder_ / "m";
  options.max_len = 512;
  export_four_graphs(Checkpoint::open(twin_), read_decoder_shape(twin_),
                     read_generation_config(twin_), options);
  Model model = load();
  EXPECT_EQ(count_equal(model, 5), 5);
}

TEST_F(TwinAsGraphs, ABundleAnswersAsTorch) {
  QhxExport options;
  options.out_folder = folder_ / "m";
  options.max_ctx = 512;
  options.shards = 2;
  export_qhx_bundle(Checkpoint::open(twin_), read_decoder_shape(twin_),
                    read_generation_config(twin_), options);
  Model model = load();
  // In float16 two tokens that are nearly as likely may change places.
  EXPECT_GE(count_equal(model, 3), 2);
}

}  // namespace
}  // namespace fathom
