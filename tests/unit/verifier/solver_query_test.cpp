#include "ppsim/verifier/solver/solver_query.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "ppsim/core/ir/hash.hpp"
#include "ppsim/verifier/parameterized/all_microbatches.hpp"
#include "ppsim/verifier/repair/repair.hpp"
#include "ppsim/verifier/solver/z3_check.hpp"
#include "ppsim/verifier/synthesis/synthesis.hpp"
#include "support/generated.hpp"
#include "support/hand_program.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

using Queries = std::vector<SolverQuery>;
using Answer = SolverQuery::Answer;

QuerySink into(Queries& queries) {
  return [&queries](const SolverQuery& query) { queries.push_back(query); };
}

Queries of_program(const Program& program, VerifyOptions options = {}) {
  Queries queries;
  options.queries = into(queries);
  (void)verify(program, options);
  return queries;
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(SolverQuery, OfAProgramIsItsDeadlock) {
  const Queries queries = of_program(deferred_receives(true));
  ASSERT_EQ(queries.size(), 1u);
  EXPECT_EQ(queries[0].name, "deadlock");
  EXPECT_EQ(queries[0].answer, Answer::sat);
  EXPECT_TRUE(holds(queries[0].script, "(set-info :status sat)\n(set-logic QF_IDL)\n"));
  EXPECT_TRUE(holds(queries[0].script, program_hash(deferred_receives(true))));
  EXPECT_EQ(of_program(deferred_receives(false)).front().answer, Answer::unsat);
  EXPECT_EQ(of_program(deferred_receives(true)), queries) << "same question, same bytes";
}

TEST(SolverQuery, SaysThatWhatIsAbsentHasNoTime) {
  HandProgram p{chain_spec(2, 2, 1), communicators({{0, 1}})};
  p.rows = {{"0F0", "0SEND_F0@0"}, {"1F0"}};
  const Queries queries = of_program(p.build());
  ASSERT_EQ(queries.size(), 1u);
  EXPECT_EQ(queries[0].answer, Answer::unsat);
  EXPECT_TRUE(holds(queries[0].script, "(assert false)"));
}

TEST(SolverQuery, IsToldOfOnlyWhenAsked) {
  EXPECT_TRUE(of_program(two_rank_step(), {.capabilities = {.residency = 1}}).empty());
  EXPECT_TRUE(of_program(two_rank_step(), {.properties = {Property::matched}}).empty());
  EXPECT_TRUE(of_program(two_rank_step(), {.timeout_s = 0}).empty());
}

TEST(SolverQuery, CountsResidentKernelsInTheStandardsWords) {
  Queries queries;
  AllMicrobatchesOptions options{.properties = {Property::deadlock_free}, .queries = into(queries)};
  options.capabilities.residency = 3;
  (void)verify_all_microbatches(programs_of("1f1b", {.ranks = 3}), options);
  ASSERT_EQ(queries.size(), 1u);
  EXPECT_EQ(queries[0].name, "deadlock-resident-3-k-from-1");
  EXPECT_EQ(queries[0].answer, Answer::unsat);
  EXPECT_TRUE(holds(queries[0].script, "(ite r"));
  EXPECT_FALSE(holds(queries[0].script, "(_ at-"));
}

TEST(SolverQuery, OfEveryBoundOfTheMemory) {
  Queries queries;
  AllMicrobatchesOptions options{.properties = {Property::memory}, .queries = into(queries)};
  options.sizes = activation_size_table(10);
  (void)verify_all_microbatches(programs_of("1f1b", {.ranks = 2}), options);
  ASSERT_EQ(queries.size(), 2u);
  EXPECT_EQ(queries[0].name, "memory-rank0-above-20");
  EXPECT_EQ(queries[1].name, "memory-rank1-above-10");
  EXPECT_EQ(queries[1].answer, Answer::unsat);
}

TEST(SolverQuery, OfTheSynthesis) {
  Queries queries;
  SynthesisRequest request{.ranks = 3, .microbatches = 8, .activation_limit = 2};
  request.costs = unit_cost_table({});
  request.queries = into(queries);
  (void)synthesize(request);
  ASSERT_FALSE(queries.empty());
  EXPECT_EQ(queries[0].answer, Answer::unsat);
  EXPECT_TRUE(holds(queries[0].script, "; Can all actions start so that the makespan is at most "));
}

/// Whether `work` leaves SIGINT to whom it belongs to all the time.
template <class Work>
bool leaves_interrupts_alone(Work work) {
  using Handler = void (*)(int);
  const Handler own = [](int) {};
  const Handler before = std::signal(SIGINT, own);
  bool same = true;
  std::jthread watcher([&](const std::stop_token& over) {
    while (!over.stop_requested()) {
      struct sigaction now {};
      sigaction(SIGINT, nullptr, &now);
      same = same && now.sa_handler == own;
      std::this_thread::yield();
    }
  });
  work();
  watcher = {};
  std::signal(SIGINT, before);
  return same;
}

TEST(SolverQuery, LeavesInterruptsToTheProgram) {
  EXPECT_TRUE(leaves_interrupts_alone([] {
    SynthesisRequest request{.ranks = 4, .microbatches = 12, .activation_limit = 3};
    request.costs = unit_cost_table({.F = 5, .I = 6, .W = 4});
    request.timeout_s = 2;
    (void)synthesize(request);
  }));
  const Program hangs = deferred_receives(false);
  EXPECT_TRUE(leaves_interrupts_alone([&] {
    for (int i = 0; i < 20; ++i) (void)repair(hangs, {});
  })) << "of a repair";
}

}  // namespace
}  // namespace ppsim::test
