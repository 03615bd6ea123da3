#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/execution/rank_ranges.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim::test {
namespace {

/// What `make` gives where the ranks are cut into so many ranges.
template <class Make>
auto in_ranges(std::size_t count, const Make& make) {
  cut_ranks_into(count);
  auto made = make();
  cut_ranks_into(0);
  return made;
}

bool equal(const ExecutionGraph& a, const ExecutionGraph& b) {
  const auto meeting = [](const CollectiveMatch& m) {
    return std::tuple(m.communicator, m.first_member, m.member_count, m.complete, m.matched);
  };
  const auto message = [](const Message& m) {
    return std::tuple(m.send, m.receive, m.send_action, m.receive_action, m.previous, m.credit, m.matched);
  };
  return a.predecessor_begin == b.predecessor_begin && a.predecessors == b.predecessors &&
         a.reasons == b.reasons && std::ranges::equal(a.messages, b.messages, {}, message, message) &&
         a.message_begin == b.message_begin && a.message_items == b.message_items &&
         std::ranges::equal(a.meetings, b.meetings, {}, meeting, meeting) &&
         a.meeting_members == b.meeting_members && a.meeting_of == b.meeting_of &&
         a.unsatisfiable == b.unsatisfiable;
}

const std::vector<std::size_t> kCounts = {2, 3, 7};

TEST(RankRanges, CoverAllRanksInOrder) {
  for (const std::size_t count : {1, 2, 3, 7}) {
    const auto ranges = in_ranges(count, [] { return rank_ranges(5, 0); });
    ASSERT_EQ(ranges.size(), std::min<std::size_t>(count, 5));
    RankId expected(0);
    for (const RankRange& range : ranges) {
      EXPECT_EQ(range.first, expected);
      EXPECT_LT(range.first, range.last);
      expected = range.last;
    }
    EXPECT_EQ(expected, RankId(5));
  }
  EXPECT_EQ(rank_ranges(64, 1000).size(), 1U);
}

/// Options whose Programs have `after`, pairs, collectives and communicators of every kind.
LoweringOptions drawn_options() {
  LoweringOptions options;
  options.order =
      *rc::gen::element(IssueOrder::timed, IssueOrder::early, IssueOrder::issue_ordered, IssueOrder::global);
  options.grouping = *rc::gen::element(Grouping::none, Grouping::paired);
  options.communicators = *rc::gen::element(CommunicatorPolicy::per_rank, CommunicatorPolicy::per_pair,
                                            CommunicatorPolicy::per_edge, CommunicatorPolicy::per_stage_edge);
  options.reduce_grad = options.optimizer = options.unshard = *rc::gen::arbitrary<bool>();
  return options;
}

RC_GTEST_PROP(RankRanges, LoweringGivesTheSameProgramOnAnyNumberOfThreads, ()) {
  const Schedule schedule = *schedules(general_shapes());
  const LoweringOptions options = drawn_options();
  const auto make = [&] { return lower(schedule, options); };
  const Expected<Program> alone = in_ranges(1, make);
  for (const std::size_t count : kCounts) {
    const Expected<Program> together = in_ranges(count, make);
    RC_ASSERT(together.has_value() == alone.has_value());
    if (alone) RC_ASSERT(*together == *alone);
  }
}

RC_GTEST_PROP(RankRanges, GraphIsTheSameOnAnyNumberOfThreads, ()) {
  const Schedule schedule = *schedules(general_shapes());
  const Program program =
      random_program(schedule, *rc::gen::inRange(0, 4), *rc::gen::arbitrary<std::uint64_t>());
  const TransportCapabilities on =
      transport(*rc::gen::element<std::string>("any", "nccl", "mpi", "copy", "in-process")).value();
  const auto make = [&] { return build_execution_graph(program, on); };
  const ExecutionGraph alone = in_ranges(1, make);
  for (const std::size_t count : kCounts) RC_ASSERT(equal(in_ranges(count, make), alone));
}

}  // namespace
}  // namespace ppsim::test
