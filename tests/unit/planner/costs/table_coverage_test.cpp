#include "ppsim/planner/costs/table_coverage.hpp"

#include <gtest/gtest.h>

#include "support/programs.hpp"

namespace ppsim {
namespace {

using enum OpKind;

TEST(TableCoverage, SaysWhatIsMissingAndWhatWouldDo) {
  CostTable costs;
  costs.set({forward}, 1);
  costs.set({send_backward}, 0);
  const auto checked = check_costs(costs, test::two_rank_step(), "t.json");
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::bad_file);
  EXPECT_EQ(
      to_string(checked.error()),
      "t.json: the table lacks the costs of actions (found no cost of B of stage 0, SEND_F of stage 0 with "
      "peer 1, expected an entry such as {\"kind\":\"B\",\"ns\":...} and "
      "{\"kind\":\"SEND_F\",\"ns\":...}, 0 where it is free)");
  EXPECT_EQ(check_costs(costs, test::two_rank_step()).error().code, ErrorCode::bad_argument);
}

TEST(TableCoverage, NamesBlocksAndTheActionOfAWorkspace) {
  SizeTable sizes;
  sizes.set({TensorKind::parameters, 1}, 1);
  sizes.set({.kind = TensorKind::workspace, .subject = 0, .op = backward}, 1);
  EXPECT_EQ(
      check_sizes(sizes, test::two_rank_step()).error().place,
      (ErrorPlace{.found = "no size of parameters of block 0, workspace of B of stage 1",
                  .expected = "an entry such as {\"tensor\":\"parameters\",\"bytes\":...} and "
                              "{\"tensor\":\"workspace\",\"op\":\"B\",\"bytes\":...}, 0 where it is free"}));
}

TEST(TableCoverage, ZerosSayWhatIsFreeAndChangeNothing) {
  Tables tables;
  tables.costs.set({forward, 0}, 7);
  tables.costs.set({backward}, 9);
  tables.sizes.set({TensorKind::parameters, 1}, 5);
  const Tables all = with_zeros(tables);
  const Program program = test::two_rank_step();
  EXPECT_TRUE(check_costs(all.costs, program));
  EXPECT_TRUE(check_sizes(all.sizes, program));
  for (const CostClass& key :
       {CostClass{forward, 0, -1, 0}, {forward, 1, -1, 0}, {backward, 1}, {optimizer, 0}})
    EXPECT_EQ(all.costs(key), tables.costs(key));
  EXPECT_EQ(all.sizes({TensorKind::parameters, 1}), 5);
  EXPECT_EQ(all.sizes({TensorKind::parameters, 0}), 0);
  EXPECT_TRUE(with_zeros({}).sizes.entries().empty());
}

}  // namespace
}  // namespace ppsim
