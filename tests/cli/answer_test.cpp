// What is said about an answer's speed.
#include "cli/answer.h"

#include <gtest/gtest.h>

namespace fathom::cli {
namespace {

TEST(Pace, SaysWhatIsDoneAndWhatIsLeft) {
  EXPECT_EQ(pace_text(12, 100, 16.2),
            "12 tokens, 16.2 s each; the other 88 take about 23 min 46 s");
  EXPECT_EQ(pace_text(12, 0, 16.2), "12 tokens, 16.2 s each");
  EXPECT_EQ(pace_text(100, 100, 2), "100 tokens, 2.0 s each");
}

}  // namespace
}  // namespace fathom::cli
