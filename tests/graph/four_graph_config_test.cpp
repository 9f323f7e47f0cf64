#include "graph/four_graph_config.h"

#include "tests/graph/graph_test.h"

namespace fathom {
namespace {

const char* const kConfig = R"({"model": {"type": "decoder-pipeline", "eos_token_id": [3, 4],
 "pad_token_id": 9, "context_length": 512, "vocab_size": 11, "decoder": {
  "hidden_size": 32, "num_hidden_layers": 2, "num_key_value_heads": 1, "head_size": 16,
  "session_options": {"log_id": "x", "provider_options": [{"qnn": {"htp_arch": "73"}}]},
  "inputs": {"past_key_names": "pk.%d", "past_value_names": "pv.%d",
             "past_sequence_length": "past", "total_sequence_length": "total"},
  "outputs": {"present_key_names": "nk.%d", "present_value_names": "nv.%d"},
  "sliding_window": {"window_size": 32, "pad_value": 5, "alignment": "left",
                     "slide_key_value_cache": false},
  "pipeline": [
   {"e": {"filename": "e.onnx", "inputs": ["input_ids"], "outputs": ["h0"]}},
   {"p": {"filename": "p.onnx", "run_on_token_gen": false, "reset_session_idx": 2}},
   {"t": {"filename": "t.onnx", "run_on_prompt": false, "session_options": {
      "ep.context_enable": "1",
      "provider_options": [{"qnn": {"soc_model": "60", "htp_performance_mode": "burst"}}]}}},
   {"l": {"filename": "l.onnx", "is_lm_head": true, "inputs": ["h1"], "outputs": ["logits"]}}]}}})";

FourGraphConfig parse(const std::string& text) { return parse_genai_config(text, "g.json"); }

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kConfig;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(GenaiConfig, ReadsStagesNamesAndOptions) {
  const FourGraphConfig config = parse(kConfig);
  EXPECT_EQ(config.window, 32);
  EXPECT_EQ(config.pad_value, 5);
  EXPECT_EQ(config.eos_ids, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(numbered(config.names.past_keys, 7), "pk.7");
  EXPECT_EQ(config.names.input_hidden, "h0");
  EXPECT_EQ(config.names.output_hidden, "h1");
  EXPECT_EQ(config.names.past_length, "past");
  EXPECT_EQ(config.stage(StageRole::context).file, "p.onnx");
  EXPECT_EQ(config.stage(StageRole::context).reset, StageRole::iteration);
  const FourGraphStage& iteration = config.stage(StageRole::iteration);
  EXPECT_TRUE(iteration.wants_qnn);
  EXPECT_EQ(iteration.qnn_options.at("htp_arch"), "73");
  EXPECT_EQ(iteration.qnn_options.at("htp_performance_mode"), "burst");
  EXPECT_EQ(iteration.session_options.at("ep.context_enable"), "1");
}

TEST(GenaiConfig, NamesWhatIsWrong) {
  const auto fails = [](const std::string& text, const std::string& expected) {
    const std::string message = error_of([&] { parse(text); });
    EXPECT_TRUE(contains(message, "g.json") && contains(message, expected)) << message;
  };
  fails(changed("decoder-pipeline", "llama"), "model.type");
  fails(changed("\"slide_key_value_cache\": false", "\"slide_key_value_cache\": true"),
        "slide_key_value_cache");
  fails(changed("\"left\"", "\"right\""), "alignment");
  fails(changed("pk.%d", "pk"), "has no %d");
  fails(changed("\"run_on_prompt\": false", "\"x\": 1"), "model.decoder.pipeline.t.run_on_prompt");
  fails(changed("\"filename\": \"e.onnx\",", ""), "model.decoder.pipeline.e.filename");
  fails(changed("\"reset_session_idx\": 2", "\"reset_session_idx\": 4"), "there is no stage 4");
  fails(changed("burst", "fastest"), "htp_performance_mode: 'fastest' is not one of burst");
  fails(changed("\"soc_model\"", "\"soc\""), "has no option 'soc'");
  fails("[]", "a JSON object is expected");
  fails(R"({"model": {"type": "decoder-pipeline", "decoder": {"pipeline": []}}})",
        "there is no embedding stage");
}

TEST(FourGraphLayout, TellsFilesApartByTheirNames) {
  TemporaryFolder folder;
  const auto touch = [&](const char* name) {
    OutputFile file(folder / name);
    file.commit();
  };
  touch("model_embeddings_quant.onnx");
  touch("model_ctx_v2.onnx_ctx.onnx");
  touch("model_iter_v2.onnx_ctx.onnx");
  EXPECT_TRUE(
      contains(error_of([&] { walkthrough_config(folder.path()); }), "there is no head graph"));
  touch("model_head_quant.onnx");
  const FourGraphConfig config = walkthrough_config(folder.path());
  EXPECT_EQ(config.stage(StageRole::context).file, "model_ctx_v2.onnx_ctx.onnx");
  EXPECT_EQ(config.stage(StageRole::iteration).file, "model_iter_v2.onnx_ctx.onnx");
  touch("another_head.onnx");
  EXPECT_TRUE(
      contains(error_of([&] { walkthrough_config(folder.path()); }), "are both the head graph"));
}

}  // namespace
}  // namespace fathom
