#include "ppsim/core/execution/well_formed.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/programs.hpp"

namespace ppsim {
namespace {

using test::one;
using enum OpKind;

std::vector<std::string> violations(const Program& program) {
  std::vector<std::string> texts;
  for (const Violation& violation : well_formed_violations(program)) texts.push_back(violation.message);
  return texts;
}

std::vector<Communicator> alone() { return {{"zero", {RankId(0)}, -1}, {"one", {RankId(1)}, -1}}; }

TEST(WellFormed, AStepHasNothingToReport) {
  EXPECT_TRUE(violations(test::two_rank_step()).empty());
  EXPECT_TRUE(violations(test::deferred_receives(false)).empty()) << "a deadlock is not a broken rule";
}

TEST(WellFormed, NamesWhatIsMissing) {
  ProgramDraft draft = to_draft(test::two_rank_step());
  draft.rows[RankId(1)].pop_back();
  const auto found = violations(test::program(test::chain(2, 2, 1), draft));
  EXPECT_EQ(found, (std::vector<std::string>{"rank 0: 0RECV_B0<1 has no counterpart on its channel"}));
}

TEST(WellFormed, NamesWhatIsDoubled) {
  ProgramDraft draft = to_draft(test::two_rank_step());
  draft.rows[RankId(0)].push_back(one(make_action(backward, 0, 0)));
  const auto found = violations(test::program(test::chain(2, 2, 1), draft));
  EXPECT_EQ(found, (std::vector<std::string>{"rank 0: 0B0 is there 2 times, expected once"}));
}

/// The instruction of a row that is this action.
InstructionDraft the(const std::vector<InstructionDraft>& row, const Action& action) {
  return *std::ranges::find(row, std::vector{action}, &InstructionDraft::actions);
}

TEST(WellFormed, NamesTransfersThatAreDoubled) {
  ProgramDraft draft = to_draft(test::two_rank_step());
  std::vector<InstructionDraft>& sender = draft.rows[RankId(0)];
  std::vector<InstructionDraft>& receiver = draft.rows[RankId(1)];
  sender.push_back(the(sender, make_transfer(send_forward, 0, 0, 1)));
  receiver.push_back(the(receiver, make_transfer(recv_forward, 1, 0, 0)));
  const auto found = violations(test::program(test::chain(2, 2, 1), draft));
  EXPECT_EQ(found, (std::vector<std::string>{"rank 0: 0SEND_F0>1 is there twice",
                                             "rank 1: 1RECV_F0<0 is there twice"}));
}

TEST(WellFormed, NamesWhatStandsLaterThanItIsNeeded) {
  ProgramDraft draft;
  draft.rows.push_back({one(make_action(backward, 0, 0)), one(make_action(forward, 0, 0))});
  const auto found = violations(test::program(test::chain(1, 1, 1), draft));
  EXPECT_EQ(found, (std::vector<std::string>{"rank 0: 0B0 waits for 0F0, which stands later in the list"}));
}

TEST(WellFormed, OffloadedActivationsComeBack) {
  ProgramDraft draft;
  draft.rows.push_back(
      {one(make_action(forward, 0, 0)), one(make_action(offload, 0, 0)), one(make_action(backward, 0, 0))});
  const auto found = violations(test::program(test::chain(1, 1, 1), draft));
  EXPECT_EQ(found, (std::vector<std::string>{"rank 0: 0OFFLOAD0 has no 0RELOAD0 on its rank"}));
}

TEST(WellFormed, ACollectiveMeetsOnAllItsMembers) {
  PipelineSpec spec;
  spec.ranks = 2;
  spec.stages = 2;
  spec.edges = {{StageId(0), StageId(1)}};
  spec.collectives = {{"barrier", {RankId(0), RankId(1)}}};
  ProgramDraft draft = to_draft(test::two_rank_step());
  for (Communicator& communicator : alone()) draft.communicators.push_back(communicator);
  const Action barrier{0, -1, -1, 0, collective};
  draft.rows[RankId(0)].push_back(one(barrier, 2));
  draft.rows[RankId(1)].push_back(one(barrier, 3));
  EXPECT_EQ(violations(test::program(*Pipeline::make(spec), draft)).size(), 2U)
      << "each is alone on its communicator";
}

TEST(WellFormed, AReductionMeetsOnAllRanksOfItsBlock) {
  PipelineSpec spec;
  spec.ranks = 2;
  spec.stages = 2;
  spec.edges = {{StageId(0), StageId(1)}};
  spec.blocks = {ParameterBlock{{StageId(0), StageId(1)}}};
  ProgramDraft draft = to_draft(test::two_rank_step());
  for (Communicator& communicator : alone()) draft.communicators.push_back(communicator);
  draft.communicators.push_back({"both", {RankId(0), RankId(1)}, -1});
  const Action reduce{0, 0, -1, 0, reduce_grad};
  draft.rows[RankId(0)].push_back(one(reduce, 2));
  draft.rows[RankId(1)].push_back(one(reduce, 3));
  EXPECT_EQ(violations(test::program(*Pipeline::make(spec), draft)).size(), 2U);
  draft.rows[RankId(0)].back() = one(reduce, 4);
  draft.rows[RankId(1)].back() = one(reduce, 4);
  EXPECT_TRUE(violations(test::program(*Pipeline::make(spec), draft)).empty());
}

TEST(Match, NamesBothEnds) {
  ProgramDraft draft = to_draft(test::deferred_receives(true));
  std::swap(draft.rows[RankId(1)][0], draft.rows[RankId(1)][4]);
  const auto found = match_violations(test::program(test::chain(2, 2, 2), draft));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].message, "rank 0: 0SEND_F0>1 meets rank 1: 1RECV_F1<0");
}

}  // namespace
}  // namespace ppsim
