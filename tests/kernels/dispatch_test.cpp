#include "kernels/dispatch.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace fathom {
namespace {

TEST(Dispatch, ReferenceIsFirstAndSetsAreWhole) {
  const std::vector<const KernelSet*> sets = available_kernels();
  ASSERT_FALSE(sets.empty());
  EXPECT_STREQ(sets.front()->name, "reference");
  for (const KernelSet* set : sets) {
    EXPECT_NE(set->linear, nullptr);
    EXPECT_NE(set->combine, nullptr);
    EXPECT_NE(set->attention, nullptr);
    EXPECT_NE(set->norm, nullptr);
    EXPECT_NE(set->activation, nullptr);
    EXPECT_EQ(&kernels_named(set->name), set);
  }
  EXPECT_EQ(&best_kernels(), sets.back());
}

TEST(Dispatch, UnknownNameIsNamed) {
  try {
    kernels_named("sse9");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("sse9"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("reference"), std::string::npos);
  }
}

}  // namespace
}  // namespace fathom
