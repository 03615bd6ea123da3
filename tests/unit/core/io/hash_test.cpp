#include "ppsim/core/ir/hash.hpp"

#include <gtest/gtest.h>

#include <set>
#include <span>

#include "support/hand_program.hpp"

namespace ppsim {
namespace {

test::HandProgram base() {
  return {.pipeline = test::chain_spec(2, 2, 2),
          .communicators = test::communicators({{0, 1}, {0, 1}}),
          .rows = {{"0F0", "0SEND_F0@0"}, {"1RECV_F0@0", "1F0"}}};
}

TEST(Hash, Is128BitsInHexadecimal) {
  const std::string hash = program_hash(base().build());
  EXPECT_EQ(hash.size(), 32U);
  EXPECT_EQ(hash.find_first_not_of("0123456789abcdef"), std::string::npos);
}

/// Hashes name results in files, so they stay the same from one version and machine to the next.
TEST(Hash, StaysTheSame) {
  EXPECT_EQ(program_hash(base().build()), "df35ab3e19ee449e4ca53915fb62734c");
  SizeTable sizes;
  sizes.set({TensorKind::saved_for_weight}, 7);
  EXPECT_EQ(sizes_hash(sizes), "e8882e72198189b0c82d8cce019df1b8");
  EXPECT_EQ(costs_hash(unit_cost_table({})), "6435a69b70fe2650e4ee8eeb32d551de");
  EXPECT_EQ(bytes_hash(std::as_bytes(std::span("ppsim", 5))), "6b9ef7929f0a5a16150dab93c7344a8b");
  EXPECT_EQ(capabilities_hash(rendezvous()), "329e1f812df70bf2ffbf15b444c0aa1e");
}

TEST(Hash, EqualProgramsShareIt) { EXPECT_EQ(program_hash(base().build()), program_hash(base().build())); }

TEST(Hash, EveryPartOfAProgramCounts) {
  std::vector<test::HandProgram> others(9, base());
  others[1].pipeline.microbatches = 3;
  others[2].pipeline.blocks = {ParameterBlock{{StageId(0), StageId(1)}}, ParameterBlock{{StageId(1)}}};
  others[3].communicators[0].name = "other";
  others[4].communicators[0].queue = 0;
  others[5].rows[0] = {"0F0", "0SEND_F0@1"};
  others[6].rows[0] = {"0F0", "0SEND_F0@0 after 0"};
  others[7].rows[0] = {"0F0", "0SEND_F0@0 !"};
  others[8].rows[0] = {"0F0", "{0SEND_F0@0}"};
  std::set<std::string> hashes;
  for (const test::HandProgram& other : others) hashes.insert(program_hash(other.build()));
  EXPECT_EQ(hashes.size(), others.size());
}

TEST(Hash, RowsAreKeptApart) {
  test::HandProgram first = base();
  first.rows = {{"0F0", "0F1"}, {}};
  test::HandProgram second = base();
  second.rows = {{"0F0"}, {"0F1"}};
  EXPECT_NE(program_hash(first.build()), program_hash(second.build()));
}

TEST(Hash, EveryPartOfATableCounts) {
  std::set<std::string> hashes;
  for (const CostClass& key :
       {CostClass{OpKind::forward}, CostClass{OpKind::backward}, CostClass{OpKind::forward, 0},
        CostClass{OpKind::forward, 0, 1}, CostClass{OpKind::forward, 0, -1, 1}}) {
    for (const Nanoseconds duration : {1, 2}) {
      CostTable costs;
      costs.set(key, duration);
      hashes.insert(costs_hash(costs));
    }
  }
  EXPECT_EQ(hashes.size(), 10U);
}

TEST(Hash, EmptyTablesOfTwoKindsDiffer) { EXPECT_NE(sizes_hash({}), costs_hash({})); }

TEST(Hash, EveryCapabilityCounts) {
  const std::vector<TransportCapabilities> all = {{},
                                                  {.credits = 1},
                                                  {.credits = 2},
                                                  {.residency = 1},
                                                  {.issue_blocks = true},
                                                  {.captures_graphs = true}};
  std::set<std::string> hashes;
  for (const TransportCapabilities& capabilities : all) hashes.insert(capabilities_hash(capabilities));
  EXPECT_EQ(hashes.size(), all.size());
}

}  // namespace
}  // namespace ppsim
