#include <gtest/gtest.h>

#include "support/closed_forms.hpp"
#include "support/row_text.hpp"

// Vocab-1 and Vocab-2, Yeung et al., arXiv 2411.05288.

namespace ppsim {
namespace {

using test::generated;
using test::row_text;

const IdVector<CollectiveId, Collective>& collectives_of(const Schedule& schedule) {
  return schedule.pipeline().spec().collectives;
}

// Figure 8: C1 and C2 in Algorithm 1, C1 alone in Algorithm 2; section 5 and figure 10: p + 2 and p + 1
// microbatches. Tables that give one barrier to Vocab-1 have the two swapped.
TEST(Vocabulary, Vocab1HasTwoBarriersAndVocab2One) {
  const Schedule two = generated("vocab-1", {.ranks = 2, .microbatches = 4});
  ASSERT_EQ(collectives_of(two).size(), 2U);
  EXPECT_EQ(collectives_of(two)[CollectiveId(0)].after.kind, OpKind::forward);
  EXPECT_EQ(collectives_of(two)[CollectiveId(1)].after.kind, OpKind::backward);
  EXPECT_EQ(two.pipeline().gradient_sum(StageId(1)), CollectiveId(1));
  const Schedule one = generated("vocab-2", {.ranks = 2, .microbatches = 4});
  ASSERT_EQ(collectives_of(one).size(), 1U);
  EXPECT_EQ(one.pipeline().gradient_sum(StageId(1)), CollectiveId(0));
  // Forwards of the first stage before its first backward.
  EXPECT_EQ(row_text(two, 0),
            "0F0 0F1 2F0 0COLL0 0F2 2B0 1COLL0 2F1 0COLL1 0F3 2B1 1COLL1 2F2 0COLL2 0B0 2B2 1COLL2 2F3 "
            "0COLL3 2B3 1COLL3 0B1 0B2 0B3");
  EXPECT_EQ(row_text(one, 0),
            "0F0 0F1 2F0 0COLL0 0F2 2B0 2F1 0COLL1 0B0 2B1 2F2 0COLL2 0F3 0B1 2B2 2F3 0COLL3 2B3 0B2 0B3");
}

TEST(Vocabulary, ShardsTheInputLayerOnDemand) {
  const Schedule schedule =
      generated("vocab-2", {.ranks = 2, .microbatches = 2, .settings = {{"input", "sharded"}}});
  EXPECT_EQ(schedule.pipeline().stages(), 6);
  EXPECT_EQ(schedule.pipeline().input_sum(StageId(0)), CollectiveId(1));
  EXPECT_EQ(schedule.pipeline().rank_of(StageId(5)), RankId(1));
}

}  // namespace
}  // namespace ppsim
