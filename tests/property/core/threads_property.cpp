#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <tuple>
#include <variant>
#include <vector>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/execution/rank_ranges.hpp"
#include "ppsim/core/execution/well_formed.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/core/io/torch_csv.hpp"
#include "ppsim/core/ir/missing_entries.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim::test {
namespace {

/// The result of `make` with the ranks cut into so many ranges.
template <class Make>
auto in_ranges(std::size_t count, const Make& make) {
  cut_ranks_into(count);
  auto made = make();
  cut_ranks_into(0);
  return made;
}

bool equal(const ExecutionGraph& a, const ExecutionGraph& b) {
  const auto match = [](const CollectiveMatch& m) {
    return std::tuple(m.communicator, m.first_member, m.member_count, m.complete, m.matched);
  };
  const auto message = [](const Message& m) {
    return std::tuple(m.send, m.receive, m.send_action, m.receive_action, m.previous, m.credit, m.matched);
  };
  return a.predecessor_begin == b.predecessor_begin && a.predecessors == b.predecessors &&
         a.reasons == b.reasons && std::ranges::equal(a.messages, b.messages, {}, message, message) &&
         a.message_begin == b.message_begin && a.message_items == b.message_items &&
         std::ranges::equal(a.matches, b.matches, {}, match, match) && a.match_members == b.match_members &&
         a.match_of == b.match_of && a.unsatisfiable == b.unsatisfiable;
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

/// A text with some of its characters changed, doubled or left out.
std::string disturbed(std::string text) {
  const std::string characters = "0123456789FBIWR,,,\n\n\r\"();. _>Z";
  const int count = *rc::gen::inRange(0, 4);
  for (int i = 0; i < count && !text.empty(); ++i) {
    const std::size_t at = *rc::gen::inRange<std::size_t>(0, text.size());
    const char other = characters[*rc::gen::inRange<std::size_t>(0, characters.size())];
    switch (*rc::gen::inRange(0, 3)) {
      case 0:
        text[at] = other;
        break;
      case 1:
        text.insert(at, *rc::gen::inRange<std::size_t>(1, 12), other);
        break;
      default:
        text.erase(at, 1);
    }
  }
  return text;
}

/// The same Schedule or the same error, whatever the number of threads.
template <class Make>
void expect_same(const Make& make, const Expected<Schedule>& alone) {
  for (const std::size_t count : kCounts) {
    const bool same = in_ranges(count, make) == alone;
    RC_ASSERT(same);
  }
}

RC_GTEST_PROP(RankRanges, FileReadsTheSameOnAnyNumberOfThreads, ()) {
  const Expected<std::string> whole = to_csv(*schedules(general_shapes()), CsvDialect::torch);
  RC_PRE(whole.has_value());
  const std::string text = disturbed(*whole);
  const auto make = [&] { return schedule_from_csv(text, "rows.csv", CsvDialect::torch); };
  const Expected<Schedule> alone = in_ranges(1, make);
  RC_CLASSIFY(alone.has_value());
  expect_same(make, alone);
}

/// A file of plain passes is read without cells, and one with a quote is not.
RC_GTEST_PROP(PlainRows, AreReadAsCellsAre, ()) {
  const Expected<std::string> whole = to_csv(*schedules(general_shapes()), CsvDialect::torch);
  RC_PRE(whole.has_value());
  const std::string text = disturbed(*whole);
  const std::size_t first = text.find_first_of(",\n\r\"");
  RC_PRE(first != std::string::npos && first > 0 && (text[first] == ',' || text[first] == '\n'));
  const std::string quoted = '"' + text.substr(0, first) + '"' + text.substr(first);
  const auto read = [&](const std::string& of) {
    return schedule_from_csv(of, "rows.csv", CsvDialect::torch);
  };
  const Expected<Schedule> plain = read(text);
  RC_CLASSIFY(plain.has_value());
  const bool same = plain == read(quoted);
  RC_ASSERT(same);
}

RC_GTEST_PROP(RankRanges, JsonReadsTheSameOnAnyNumberOfThreads, ()) {
  std::string text = to_json(*schedules(general_shapes()));
  // Within the rows, whose texts are as those of a CSV.
  const std::size_t rows = text.find("\"rows\"");
  const std::size_t at = *rc::gen::inRange(rows, text.size());
  if (*rc::gen::arbitrary<bool>()) text[at] = '9';
  const auto make = [&] {
    return ir_from_json(text, "rows.json").map([](const auto& ir) { return std::get<Schedule>(ir); });
  };
  const Expected<Schedule> alone = in_ranges(1, make);
  RC_CLASSIFY(alone.has_value());
  expect_same(make, alone);
}

/// Rows in which some steps have changed places, within a row or with another one.
ScheduleBuilder shuffled(const Schedule& schedule) {
  const int ranks = schedule.pipeline().ranks();
  std::vector<std::vector<Cell>> rows;
  for (RankId rank(0); rank.value() < ranks; rank = next(rank))
    rows.emplace_back(schedule.row(rank).begin(), schedule.row(rank).end());
  const auto row = [&]() -> std::vector<Cell>& {
    return rows[*rc::gen::inRange<std::size_t>(0, rows.size())];
  };
  const auto step_of = [&](std::vector<Cell>& of) -> Cell& {
    return of[*rc::gen::inRange<std::size_t>(0, of.size())];
  };
  const int swaps = *rc::gen::inRange(0, 3);
  for (int i = 0; i < swaps; ++i) {
    std::vector<Cell>& one = row();
    std::vector<Cell>& other = *rc::gen::arbitrary<bool>() ? one : row();
    if (!one.empty() && !other.empty()) std::swap(step_of(one), step_of(other));
  }
  ScheduleBuilder builder(schedule.name(), schedule.pipeline());
  for (RankId rank(0); rank.value() < ranks; rank = next(rank)) {
    for (const Cell& cell : rows[rank.index()]) builder.add(rank, cell);
  }
  return builder;
}

RC_GTEST_PROP(RankRanges, RowsAreCheckedTheSameOnAnyNumberOfThreads, ()) {
  const ScheduleBuilder builder = shuffled(*schedules(general_shapes()));
  const auto make = [&] { return builder.build(); };
  const Expected<Schedule> alone = in_ranges(1, make);
  RC_CLASSIFY(alone.has_value());
  expect_same(make, alone);
}

RC_GTEST_PROP(RankRanges, ViolationsAreTheSameOnAnyNumberOfThreads, ()) {
  const Schedule schedule = *schedules(general_shapes());
  const Program program =
      random_program(schedule, *rc::gen::inRange(0, 4), *rc::gen::arbitrary<std::uint64_t>());
  const auto make = [&] { return well_formed_violations(program); };
  const std::vector<Violation> alone = in_ranges(1, make);
  RC_CLASSIFY(alone.empty());
  for (const std::size_t count : kCounts) RC_ASSERT(in_ranges(count, make) == alone);
}

RC_GTEST_PROP(RankRanges, MissingCostsAreTheSameOnAnyNumberOfThreads, ()) {
  const Program program =
      random_program(*schedules(general_shapes()), 0, *rc::gen::arbitrary<std::uint64_t>());
  CostTable costs;
  costs.set({.kind = OpKind::forward, .subject = *rc::gen::inRange(0, program.pipeline().stages())}, 1);
  const auto make = [&] { return missing_costs(costs, program); };
  const std::vector<CostClass> alone = in_ranges(1, make);
  for (const std::size_t count : kCounts) RC_ASSERT(in_ranges(count, make) == alone);
}

}  // namespace
}  // namespace ppsim::test
