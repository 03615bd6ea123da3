// Ranges of ids, and what the table of kinds says of ids.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "ppsim/core/ir/op_kind.hpp"
#include "ppsim/core/ir/program.hpp"
#include "support/programs.hpp"

namespace ppsim {
namespace {

template <class Id>
std::vector<int> values(const IdRange<Id>& ids) {
  std::vector<int> result;
  for (const Id id : ids) result.push_back(id.value());
  return result;
}

TEST(IdRange, HasTheIdsFromTheFirstToTheOneBeforeTheLast) {
  EXPECT_EQ(values(IdRange(RankId(2), RankId(5))), (std::vector{2, 3, 4}));
  EXPECT_TRUE(values(IdRange(RankId(2), RankId(2))).empty());
  EXPECT_EQ(values(IdVector<StageId, char>(3).ids()), (std::vector{0, 1, 2}));
}

TEST(IdRange, OfRanksOneAfterTheOtherAreThoseOfTheProgram) {
  const Program program = test::two_rank_step();
  std::vector<int> all;
  for (const RankId rank : program.pipeline().rank_ids()) {
    for (const InstructionId id : program.ids_of(rank)) {
      EXPECT_EQ(program.rank_of(id), rank);
      all.push_back(id.value());
    }
  }
  EXPECT_EQ(all, values(program.ids()));
  EXPECT_EQ(all.size(), program.size());
}

TEST(Program, HasTheKindsOfItsActions) {
  const Program program = test::two_rank_step();
  for (const OpInfo& row : kOpTable) {
    const auto is_it = [&](const Action& action) { return action.kind == row.kind; };
    EXPECT_EQ(program.has(row.kind), std::ranges::any_of(program.all_actions(), is_it)) << row.text;
  }
}

TEST(OpKind, OnlyTransfersHaveAPeerAndBothEndsNameItAlike) {
  for (const OpInfo& row : kOpTable) {
    EXPECT_EQ(row.peer != Peer::none, is_transfer(row.kind)) << row.text;
    EXPECT_EQ(row.peer, info(row.counterpart).peer) << row.text;
    EXPECT_EQ(names_peer_rank(row.kind),
              row.kind == OpKind::send_activation || row.kind == OpKind::recv_activation)
        << row.text;
    EXPECT_EQ(computes_stage(row.kind), is_pass(row.kind) || row.kind == OpKind::recompute) << row.text;
  }
}

}  // namespace
}  // namespace ppsim
