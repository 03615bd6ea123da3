#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <thread>
#include <vector>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim::test {
namespace {

Program drawn_program(int max_mutations) {
  const Schedule schedule = *schedules(general_shapes());
  return random_program(schedule, *rc::gen::inRange(0, max_mutations), *rc::gen::arbitrary<std::uint64_t>());
}

/// Whether every item comes after the completion of what its start waits for.
bool keeps_waits(const ExecutionGraph& graph, const RunOrder& order) {
  std::vector<char> happened(2 * graph.size(), 0);
  for (const std::uint32_t item : order.items) {
    if (item % 2 == 0) {
      for (const InstructionId before : graph.predecessors_of(InstructionId(static_cast<int>(item / 2)))) {
        if (happened[2 * before.index() + 1] == 0) return false;
      }
    }
    happened[item] = 1;
  }
  return true;
}

RC_GTEST_PROP(AnalyzedProgram, FinishesExactlyWhereTheNaiveExecutorDoes, ()) {
  const Program program = drawn_program(4);
  const TransportCapabilities on =
      transport(*rc::gen::element<std::string>("any", "nccl", "nccl-one-queue", "mpi", "copy")).value();
  const NaiveRun run = run_naively(program, on, random_costs(program.pipeline().stages(), 1));
  RC_ASSERT(AnalyzedProgram(program, on).finishes() == (run.outcome == NaiveRun::Outcome::finished));
}

RC_GTEST_PROP(AnalyzedProgram, OrderIsOneOfTheGuaranteedWaitsToo, ()) {
  const AnalyzedProgram analyzed(drawn_program(2), transport("any").value());
  RC_PRE(analyzed.finishes());
  RC_ASSERT(&analyzed.graph() != &analyzed.guaranteed_graph());
  RC_ASSERT(keeps_waits(analyzed.graph(), analyzed.order()));
  RC_ASSERT(keeps_waits(analyzed.guaranteed_graph(), analyzed.order()));
  RC_ASSERT(keeps_waits(analyzed.timed_graph(), analyzed.order()));
  const AnalyzedProgram independent(analyzed.program(), transport("in-process").value());
  RC_ASSERT(analyzed.timed_order().items == independent.order().items);
  const AnalyzedProgram buffered(analyzed.program(), {.credits = kUnlimitedCredits});
  RC_ASSERT(analyzed.guaranteed_order().items == buffered.order().items);
}

TEST(AnalyzedProgram, MakesEachPartOnceForAllCopiesAndThreads) {
  const Schedule schedule = random_schedule({}, 1);
  const AnalyzedProgram analyzed(random_program(schedule, 0, 1), rendezvous());
  std::vector<const TensorTable*> tables(4);
  {
    std::vector<std::jthread> threads;
    for (const TensorTable*& table : tables)
      threads.emplace_back([&table, analyzed] { table = &analyzed.tensors(); });
  }
  for (const TensorTable* table : tables) EXPECT_EQ(table, &analyzed.tensors());
  EXPECT_EQ(&analyzed.guaranteed_graph(), &analyzed.graph());
}

TEST(AnalyzedProgram, RefersToAProgramOrTakesIt) {
  const Schedule schedule = random_schedule({}, 2);
  Program program = random_program(schedule, 0, 2);
  const AnalyzedProgram referring(program, rendezvous());
  EXPECT_EQ(&referring.program(), &program);
  const std::size_t size = program.size();
  const AnalyzedProgram owner(std::move(program), rendezvous());
  EXPECT_EQ(owner.program().size(), size);
}

}  // namespace
}  // namespace ppsim::test
