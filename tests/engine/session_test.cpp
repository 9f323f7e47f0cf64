// A generation that is interrupted and resumed from its file is the one that was not.
#include "fathom/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/file.h"
#include "fathom/model.h"
#include "tests/paths.h"
#include "tests/temporary_folder.h"

namespace fathom {
namespace {

LoadOptions tiny(KvPrecision kv = KvPrecision::bf16, bool mtp = false) {
  LoadOptions options;
  options.folder = test_paths::golden() + "/r1-tiny";
  options.kv = kv;
  options.threads = 1;
  options.mtp = mtp;
  return options;
}

GenerateRequest drawn_request() {
  GenerateRequest request;
  for (int32_t i = 0; i < 58; ++i) request.prompt.ids.push_back((i * 37 + 5) % 263);
  request.sampling.temperature = 0.9;
  request.sampling.seed = 11;
  request.sampling.choice = 3;
  // All of these depend on which tokens count as output.
  request.sampling.presence_penalty = 0.4;
  request.sampling.frequency_penalty = 0.3;
  request.sampling.repetition_penalty = 1.1;
  request.max_tokens = 14;  // over the end of a page
  request.ignore_eos = true;
  return request;
}

std::vector<int32_t> joined(const std::vector<int32_t>& a, std::span<const int32_t> b) {
  std::vector<int32_t> all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

std::vector<float> last_logits(Model& model, Cache& cache, const std::vector<int32_t>& ids) {
  ForwardInput input;
  const auto cached = static_cast<size_t>(cache.length());
  input.ids.assign(ids.begin() + static_cast<std::ptrdiff_t>(cached), ids.end());
  input.cache = &cache;
  input.last_logits_only = true;
  return model.forward(input).logits;
}

struct Kept {
  KvPrecision kv;
  const char* name;
};
class SessionFormats : public testing::TestWithParam<Kept> {};

TEST_P(SessionFormats, ResumingAtEveryTokenGivesTheSameBits) {
  Model model = Model::load(tiny(GetParam().kv));
  const GenerateRequest plain = drawn_request();
  const GenerateResult whole = model.generate(plain);
  ASSERT_EQ(whole.ids.size(), 14u);
  Cache fresh;
  const std::vector<float> expected =
      last_logits(model, fresh, joined(plain.prompt.ids, whole.ids));

  const TemporaryFolder folder;
  for (size_t stop = 1; stop < whole.ids.size(); ++stop) {
    const std::string path = folder / ("s" + std::to_string(stop));
    {
      Session session = Session::open(model, path);
      EXPECT_TRUE(session.is_new());
      GenerateRequest request = plain;
      request.cache = &session.cache();
      std::vector<int32_t> ids = request.prompt.ids;
      request.on_step = [&](const GenerateStep& step) {
        ids.push_back(step.id);
        session.save(ids, "at " + std::to_string(ids.size()));
        return ids.size() < request.prompt.ids.size() + stop;
      };
      model.generate(request);
    }
    // Another process would load the model again; its bits are the same.
    Session session = Session::open(model, path);
    ASSERT_FALSE(session.is_new());
    const auto answered = std::span(session.ids()).subspan(plain.prompt.ids.size());
    ASSERT_EQ(answered.size(), stop);
    EXPECT_EQ(session.note(), "at " + std::to_string(plain.prompt.ids.size() + stop));
    EXPECT_EQ(session.cache().length(), static_cast<int64_t>(session.ids().size()) - 1);

    GenerateRequest request = plain;
    request.resume.assign(answered.begin(), answered.end());
    request.cache = &session.cache();
    std::vector<int32_t> seen;
    size_t resumed = 0;
    request.on_step = [&](const GenerateStep& step) {
      seen.push_back(step.id);
      resumed += step.resumed ? 1 : 0;
      return true;
    };
    const GenerateResult result = model.generate(request);
    EXPECT_EQ(result.ids, whole.ids) << "resumed at " << stop;
    EXPECT_EQ(seen, whole.ids);
    EXPECT_EQ(resumed, stop);
    EXPECT_EQ(result.resumed_tokens, static_cast<int64_t>(stop));
    EXPECT_EQ(result.finish_reason, FinishReason::length);
    EXPECT_EQ(result.cached_tokens, result.prompt_tokens);

    const std::vector<float> logits =
        last_logits(model, session.cache(), joined(plain.prompt.ids, result.ids));
    ASSERT_EQ(logits.size(), expected.size());
    EXPECT_EQ(std::memcmp(logits.data(), expected.data(), logits.size() * sizeof(float)), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Session, SessionFormats,
                         testing::Values(Kept{KvPrecision::f32, "f32"},
                                         Kept{KvPrecision::bf16, "bf16"},
                                         Kept{KvPrecision::int8, "int8"}),
                         [](const auto& info) { return info.param.name; });

TEST(Session, DraftsAndSessionsChangeNoToken) {
  LoadOptions options = tiny();
  const GenerateResult whole = Model::load(options).generate(drawn_request());
  options.speculation = Speculation::on;
  Model model = Model::load(options);
  const TemporaryFolder folder;
  for (size_t stop = 1; stop < whole.ids.size(); stop += 3) {
    const std::string path = folder / ("s" + std::to_string(stop));
    GenerateRequest request = drawn_request();
    {
      Session session = Session::open(model, path);
      request.cache = &session.cache();
      std::vector<int32_t> ids = request.prompt.ids;
      request.on_step = [&](const GenerateStep& step) {
        ids.push_back(step.id);
        session.save(ids, "");
        return ids.size() < request.prompt.ids.size() + stop;
      };
      model.generate(request);
    }
    for (Speculation speculation : {Speculation::on, Speculation::off}) {
      LoadOptions again = tiny();
      again.speculation = speculation;
      Model other = Model::load(again);
      Session session = Session::open(other, path);
      GenerateRequest rest = drawn_request();
      rest.cache = &session.cache();
      rest.resume.assign(session.ids().begin() + 58, session.ids().end());
      EXPECT_EQ(other.generate(rest).ids, whole.ids) << stop;
    }
  }
}

TEST(Session, ACompleteAnswerIsResumedWithoutComputing) {
  Model model = Model::load(tiny());
  GenerateRequest request = drawn_request();
  const GenerateResult whole = model.generate(request);
  request.resume = whole.ids;
  GenerateResult result = model.generate(request);
  EXPECT_EQ(result.ids, whole.ids);
  EXPECT_EQ(result.finish_reason, FinishReason::length);
  EXPECT_EQ(result.prefill_seconds, 0);

  request.stop_ids = {whole.ids[5]};
  const auto first =
      std::find(whole.ids.begin(), whole.ids.end(), whole.ids[5]) - whole.ids.begin();
  result = model.generate(request);
  EXPECT_EQ(result.finish_reason, FinishReason::stop);
  EXPECT_EQ(result.ids.size(), static_cast<size_t>(first) + 1);
}

TEST(Session, ResumingIsCheckedLikeEverythingElse) {
  Model model = Model::load(tiny());
  GenerateRequest request = drawn_request();
  request.resume = {263};
  EXPECT_THROW(model.generate(request), Error);
  request.resume = {1};
  EXPECT_THROW(model.generate_samples(request, 2), Error);
}

std::string refusal(const auto& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Session, OtherModelsAndPrecisionsAreRefusedByName) {
  const TemporaryFolder folder;
  const std::string path = folder / "s";
  Model model = Model::load(tiny());
  {
    Session session = Session::open(model, path);
    GenerateRequest request = drawn_request();
    request.cache = &session.cache();
    const GenerateResult result = model.generate(request);
    session.save(joined(request.prompt.ids, result.ids), "");
    EXPECT_NE(refusal([&] { Session::open(model, path); }).find("another program"),
              std::string::npos);
  }
  const std::string before = read_text(path);
  Model int8 = Model::load(tiny(KvPrecision::int8));
  EXPECT_NE(refusal([&] { Session::open(int8, path); }).find("is bf16, here it is int8"),
            std::string::npos);
  LoadOptions options = tiny();
  options.embed = WeightPrecision::int8;
  Model embedding = Model::load(options);
  EXPECT_NE(refusal([&] { Session::open(embedding, path); }).find("--embed int8"),
            std::string::npos);
  options = tiny();
  options.head = WeightPrecision::int8;  // what is cached does not depend on it
  Model head = Model::load(options);
  EXPECT_FALSE(Session::open(head, path).is_new());
  options = tiny();
  options.folder = test_paths::golden() + "/r1-yarn-short";
  Model other = Model::load(options);
  EXPECT_NE(refusal([&] { Session::open(other, path); }).find("another model"), std::string::npos);
  options = tiny();
  options.context = 64;
  Model narrow = Model::load(options);
  EXPECT_NE(refusal([&] { Session::open(narrow, path); }).find("room for 64"), std::string::npos);
  EXPECT_EQ(read_text(path), before);
}

TEST(SavedCache, GivesAPromptToOtherRuns) {
  const TemporaryFolder folder;
  Model model = Model::load(tiny());
  GenerateRequest request = drawn_request();
  const GenerateResult whole = model.generate(request);
  Cache cache;
  request.cache = &cache;
  bool saved = false;
  request.on_step = [&](const GenerateStep&) {
    if (!saved) Session::save_cache(model, cache, folder / "p");
    saved = true;
    return true;
  };
  EXPECT_EQ(model.generate(request).ids, whole.ids);
  Cache loaded = Session::load_cache(model, folder / "p");
  EXPECT_EQ(loaded.length(), 58);
  request.cache = &loaded;
  request.on_step = nullptr;
  const GenerateResult again = model.generate(request);
  EXPECT_EQ(again.ids, whole.ids);
  EXPECT_EQ(again.cached_tokens, 57);

  std::ofstream(folder / "empty");
  EXPECT_EQ(Session::load_cache(model, folder / "empty").length(), 0);
  EXPECT_THROW(Session::load_cache(model, folder / "missing"), Error);
}

}  // namespace
}  // namespace fathom
