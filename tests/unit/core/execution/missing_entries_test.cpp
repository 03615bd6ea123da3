#include "ppsim/core/ir/missing_entries.hpp"

#include <gtest/gtest.h>

#include "support/programs.hpp"

namespace ppsim {
namespace {

using enum OpKind;

constexpr CostClass kSend{send_forward, 0, 1, 0};
constexpr CostClass kSendBack{send_backward, 1, 0, 0};

CostTable table(const std::vector<CostClass>& keys) {
  CostTable costs;
  for (const CostClass& key : keys) costs.set(key, 0);
  return costs;
}

TEST(MissingEntries, OfEachKindTheFirst) {
  const Program program = test::two_rank_step();
  EXPECT_EQ(missing_costs(CostTable(), program),
            (std::vector<CostClass>{{forward, 0, -1, 0}, {backward, 0, -1, 0}, kSend, kSendBack}));
  EXPECT_EQ(missing_costs(table({{forward, 0}, {backward}, {send_forward}, {send_backward, 1, 0}}), program),
            (std::vector<CostClass>{{forward, 1, -1, 0}}));
}

TEST(MissingEntries, AnEntryWithFewerFieldsIsEnoughAndOneOf0Is) {
  const Program program = test::two_rank_step();
  EXPECT_TRUE(
      missing_costs(table({{forward}, {backward}, {send_forward}, {send_backward}}), program).empty());
  EXPECT_EQ(missing_costs(table({{forward}, {backward}, kSend, {send_backward, 1, 2}}), program),
            (std::vector<CostClass>{kSendBack}));
}

TEST(MissingEntries, AnOverlappedPairHasACostOfItsOwn) {
  const Pipeline one = make_chain(1, 1, 2).value();
  const Schedule schedule = ScheduleBuilder("pair", one)
                                .add(forward, StageId(0), MicrobatchId(0))
                                .add(RankId(0), Cell(make_action(forward, 0, 1), make_action(backward, 0, 0)))
                                .add(backward, StageId(0), MicrobatchId(1))
                                .build()
                                .value();
  EXPECT_EQ(missing_costs(table({{forward}, {backward}}), schedule),
            (std::vector<CostClass>{{overlap, 0, 0, 0}}));
  EXPECT_TRUE(missing_costs(table({{forward}, {backward}, {overlap}}), schedule).empty());
}

TEST(MissingEntries, SizesOfTheKindsThatAreListed) {
  const Program program = test::two_rank_step();
  SizeTable sizes;
  EXPECT_TRUE(missing_sizes(sizes, program).empty());
  sizes.set({TensorKind::saved_for_weight, 1}, 5);
  sizes.set({.kind = TensorKind::workspace, .op = forward}, 0);
  EXPECT_EQ(missing_sizes(sizes, program),
            (std::vector<SizeClass>{{TensorKind::saved_for_weight, 0, -1, 0}}));
  sizes.set({TensorKind::saved_for_weight}, 0);
  EXPECT_TRUE(missing_sizes(sizes, program).empty());
  // A workspace of B is of another kind than one of F.
  sizes.set({.kind = TensorKind::workspace, .subject = 0, .op = backward}, 0);
  EXPECT_EQ(missing_sizes(sizes, program),
            (std::vector<SizeClass>{{TensorKind::workspace, 1, -1, 0, backward}}));
}

}  // namespace
}  // namespace ppsim
