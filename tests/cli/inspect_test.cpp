#include <algorithm>
#include <cctype>
#include <map>

#include "tests/cli/program.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Every file below `folder` with its size and time of change.
std::map<std::string, std::pair<uintmax_t, fs::file_time_type>> state_of(
    const std::string& folder) {
  std::map<std::string, std::pair<uintmax_t, fs::file_time_type>> state;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const uintmax_t size = entry.is_regular_file() ? entry.file_size() : 0;
    state[entry.path().string()] = {size, entry.last_write_time()};
  }
  return state;
}

TEST(CliInspect, ShowsAModelIn100Columns) {
  const TextModel model;
  const auto before = state_of(model.path());
  const Finished finished = run({"inspect", model.path()});
  ASSERT_EQ(finished.code, 0) << finished.err;
  for (const char* part :
       {"DeepseekV3ForCausalLM", "Traps in this checkpoint", "adds up to the payload to the byte",
        "Tensors by family", "Shards and their layers", "Special tokens", "Context length"}) {
    EXPECT_NE(finished.out.find(part), std::string::npos) << part;
  }
  size_t width = 0;
  for (const char c : finished.out) {
    width = c == '\n' ? 0 : width + 1;
    ASSERT_LE(width, 100u) << finished.out;
  }
  EXPECT_EQ(run({"inspect", "--model", model.path()}).out, finished.out);
  EXPECT_TRUE(state_of(model.path()) == before);
}

TEST(CliInspect, JsonIsComplete) {
  const TextModel model;
  const Finished finished = run({"inspect", model.path(), "--json", "--layer", "1"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  const json all = finished.json();
  const json& total = all["accounting"]["total"];
  EXPECT_EQ(total["bytes"], all["identity"]["payload_bytes"]);
  EXPECT_TRUE(all["accounting"]["adds_up"].get<bool>());
  uint64_t tensors = 0;
  for (const json& shard : all["shards"]) tensors += shard["tensors"].get<uint64_t>();
  EXPECT_EQ(tensors, all["identity"]["tensors"].get<uint64_t>());
  uint64_t families = 0;
  for (const json& row : all["census"]["families"]) families += row["bytes"].get<uint64_t>();
  EXPECT_EQ(families, total["bytes"].get<uint64_t>());
  EXPECT_GT(all["tokenizer"]["ids"].get<int64_t>(), 256);
  EXPECT_FALSE(all["special_tokens"].empty());
  EXPECT_TRUE(all["problems"].empty());
  uint64_t bytes = 0;
  for (const json& tensor : all["manifest"]["tensors"]) bytes += tensor["bytes"].get<uint64_t>();
  EXPECT_EQ(bytes, all["layers"][1]["bytes"].get<uint64_t>());
}

TEST(CliInspect, ALayerTensorByTensor) {
  const Finished finished = run({"inspect", golden("r1-tiny"), "--layer", "0"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_NE(finished.out.find("self_attn.kv_b_proj.weight_scale_inv"), std::string::npos);
  const Finished none = run({"inspect", golden("r1-tiny"), "--layer", "99"});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("--layer 99"), std::string::npos) << none.err;
}

TEST(CliInspect, ABrokenFolderIsShownAndFails) {
  const TextModel model;
  for (const auto& entry : fs::directory_iterator(model.path())) {
    const std::string name = entry.path().filename();
    if (name.starts_with("model-00001")) fs::remove(entry.path());
  }
  std::ofstream(model.path() + "/tokenizer.json") << "{";
  const Finished finished = run({"inspect", model.path()});
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.out.find("Wrong:"), std::string::npos);
  EXPECT_NE(finished.out.find("is missing"), std::string::npos);
  EXPECT_NE(finished.out.find("tokenizer.json"), std::string::npos);
  EXPECT_EQ(run({"inspect", model.path() + "/none"}).code, 1);
}

// All elements that must be closed are, in the right order.
void expect_balanced(const std::string& html) {
  std::vector<std::string> open;
  const size_t script = html.find("<script>");
  ASSERT_NE(script, std::string::npos);
  for (size_t at = html.find('<'); at < script; at = html.find('<', at + 1)) {
    const size_t end = html.find_first_of(" >/", at + 2);
    const bool closing = html[at + 1] == '/';
    const std::string name = html.substr(at + 1 + closing, end - at - 1 - closing);
    const size_t close = html.find('>', at);
    ASSERT_NE(close, std::string::npos);
    if (name == "!DOCTYPE" || name == "meta" || name == "br" || html[close - 1] == '/') continue;
    if (!closing) {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty()) << name;
    ASSERT_EQ(open.back(), name) << html.substr(at > 200 ? at - 200 : 0, 220);
    open.pop_back();
  }
  EXPECT_EQ(open, (std::vector<std::string>{"html", "body"}));
  EXPECT_TRUE(html.ends_with("</script>\n</body></html>\n"));
}

TEST(CliInspect, OnePageWithoutOtherFiles) {
  const TextModel model;
  const TemporaryFolder folder;
  const std::string page = folder / "page.html";
  const auto before = state_of(model.path());
  const Finished finished = run({"inspect", model.path(), "--html", page});
  ASSERT_EQ(finished.code, 0) << finished.err;
  const std::string html = file_text(page);
  expect_balanced(html);
  for (const char* part : {"src=", "href=", "http:", "https:", "url(", "@import"}) {
    EXPECT_EQ(html.find(part), std::string::npos) << part;
  }
  for (const char* part : {"aria-label=\"Treemap\"", "aria-label=\"Shard map\"",
                           "class=\"sortable\"", "data-v=", "experts"}) {
    EXPECT_NE(html.find(part), std::string::npos) << part;
  }
  EXPECT_TRUE(state_of(model.path()) == before);
  const Finished inside = run({"inspect", model.path(), "--html", model.path() + "/page.html"});
  EXPECT_EQ(inside.code, 2);
  EXPECT_NE(inside.err.find("nothing is written"), std::string::npos) << inside.err;
  EXPECT_TRUE(state_of(model.path()) == before);
}

TEST(CliInspect, NamesFromFilesStayText) {
  const TemporaryFolder folder;
  const std::string bad = "</title><script>alert('1')</script>&\\u001b[31m";
  const std::string model = folder / "<img src=x onerror=y>";
  fs::create_directory(model);
  const std::string header = "{\"" + bad +
                             ".layers.0.a\":{\"dtype\":\"U8\",\"shape\":[4],"
                             "\"data_offsets\":[0,4]}}";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  std::ofstream(model + "/model.safetensors", std::ios::binary) << bytes << header << "abcd";
  std::ofstream(model + "/config.json") << "{\"architectures\":[\"" << bad << "\"]}";
  const std::string page = folder / "page.html";
  const Finished finished = run({"inspect", model, "--html", page});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.out.find('\x1b'), std::string::npos);
  const std::string html = file_text(page);
  expect_balanced(html);
  EXPECT_EQ(html.find("alert('1')"), std::string::npos);
  EXPECT_EQ(html.find("<img"), std::string::npos);
  EXPECT_EQ(html.find('\x1b'), std::string::npos);
  EXPECT_NE(html.find("&lt;script&gt;alert(&#39;1&#39;)"), std::string::npos);
  EXPECT_NE(html.find("&lt;img src=x onerror=y&gt;"), std::string::npos);
  EXPECT_EQ(run({"inspect", model, "--json"}).json()["identity"]["architecture"],
            "</title><script>alert('1')</script>&\x1b[31m");
}

}  // namespace
}  // namespace fathom
