#include "graph/qnn_options.h"

#include "graph/qnn_versions.h"
#include "tests/graph/graph_test.h"

namespace fathom {
namespace {

TEST(QnnOptions, TakesWhatTheProviderKnows) {
  EXPECT_EQ(parse_qnn_option("htp_arch=81", "--qnn"),
            std::pair(std::string("htp_arch"), std::string("81")));
  EXPECT_EQ(parse_qnn_option("backend_path=a=b.so", "--qnn").second, "a=b.so");
  for (const char* text :
       {"backend_type=htp", "htp_performance_mode=burst", "vtcm_mb=8", "profiling_level=detailed",
        "qnn_context_priority=normal_high", "enable_htp_fp16_precision=1",
        "htp_graph_finalization_optimization_mode=3"}) {
    EXPECT_NO_THROW(parse_qnn_option(text, "--qnn")) << text;
  }
}

TEST(QnnOptions, RefusesTheRestByName) {
  const auto fails = [](const char* text, const std::string& expected) {
    const std::string message = error_of([&] { parse_qnn_option(text, "--qnn"); });
    EXPECT_TRUE(contains(message, expected)) << text << ": " << message;
  };
  fails("htp_arch", "--qnn: 'htp_arch' is not key=value");
  fails("=1", "is not key=value");
  fails("htp_ach=81", "has no option 'htp_ach'");
  fails("htp_arch=80", "htp_arch: '80' is not one of 68, 69, 73, 75, 79, 81");
  fails("vtcm_mb=-1", "not a whole number");
  fails("vtcm_mb=8MB", "not a whole number");
  fails("backend_path=", "not a path");
  EXPECT_TRUE(contains(error_of([] {
                         check_qnn_options({{"backend_path", "x"}, {"backend_type", "htp"}}, "q");
                       }),
                       "exclude each other"));
}

TEST(QnnOptions, KnowsChips) {
  EXPECT_EQ(wanted_arch({{"soc_model", "60"}}, "q"), 73);
  EXPECT_EQ(wanted_arch({{"htp_arch", "81"}, {"soc_model", "87"}}, "q"), 81);
  EXPECT_EQ(wanted_arch({}, "q"), std::nullopt);
  EXPECT_TRUE(contains(error_of([] {
                         wanted_arch({{"htp_arch", "81"}, {"soc_model", "60"}}, "--qnn");
                       }),
                       "soc_model 60 is Snapdragon X Elite with Hexagon v73, but htp_arch is 81"));
}

TEST(QnnVersions, BothAreNamedWithTheRemedy) {
  TemporaryFolder folder;
  const auto write = [&](const char* name, const std::string& text) {
    OutputFile file(folder / name);
    file.write(text);
    file.commit();
    return folder / name;
  };
  write("decode.bin", std::string(5'000'000, 'x') + "v2.28.0.241029232508_102474\0");
  const std::string backend = write("libQnnHtp.so", "..12.3.1 v2.31.0.250130151446_114721");
  const std::string model = write("decode.onnx", "");
  EXPECT_EQ(qnn_version_in(backend), "2.31.0.250130151446");
  EXPECT_EQ(qnn_version_mismatch("error 5000", model, {}), std::nullopt);
  const auto text =
      qnn_version_mismatch("Failed to create context: 1008", model, {{"backend_path", backend}});
  ASSERT_TRUE(text);
  EXPECT_TRUE(contains(*text, "made by QNN 2.28.0.241029232508")) << *text;
  EXPECT_TRUE(contains(*text, "is QNN 2.31.0.250130151446")) << *text;
  EXPECT_TRUE(contains(*text, "Use the QNN libraries of the release that made the binary"));
}

}  // namespace
}  // namespace fathom
