#include "engine/context_length.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace fathom {
namespace {

ModelShape r1() {
  ModelShape config;
  config.max_position_embeddings = 163840;
  return config;
}

TEST(ContextLength, TheSmallerStatedLengthIsTakenAndExplained) {
  const ContextDecision decision = decide_context(r1(), 16384, 0);
  EXPECT_EQ(decision.tokens, 16384);
  EXPECT_NE(decision.reason.find("163840"), std::string::npos);
  EXPECT_NE(decision.reason.find("tokenizer_config.json 16384"), std::string::npos);
  EXPECT_EQ(decide_context(r1(), std::nullopt, 0).tokens, 163840);
  EXPECT_EQ(decide_context(r1(), 1000000, 0).tokens, 163840);
}

TEST(ContextLength, WhatIsAskedForWinsUpToTheModelsOwnLimit) {
  EXPECT_EQ(decide_context(r1(), 16384, 100000).tokens, 100000);
  EXPECT_EQ(decide_context(r1(), 16384, 163840).tokens, 163840);
  EXPECT_THROW(decide_context(r1(), 16384, 163841), Error);
  EXPECT_THROW(decide_context(r1(), 16384, -1), Error);
}

TEST(ContextLength, DynamicScalingMayGoBeyondAndSaysWhatThatMeans) {
  ModelShape config = r1();
  config.dynamic_rope = true;
  const ContextDecision decision = decide_context(config, std::nullopt, 200000);
  EXPECT_EQ(decision.tokens, 200000);
  EXPECT_NE(decision.reason.find("depend on how a prompt is cut"), std::string::npos);
}

}  // namespace
}  // namespace fathom
