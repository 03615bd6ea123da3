#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/core/execution/well_formed.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "support/linear_model.hpp"
#include "support/random_schedule.hpp"

namespace ppsim::test {
namespace {

LoweringOptions any_options() {
  LoweringOptions options;
  options.order = *rc::gen::element(IssueOrder::global, IssueOrder::early, IssueOrder::issue_ordered);
  options.early = *rc::gen::inRange(0, 3);
  options.communicators = *rc::gen::element(CommunicatorPolicy::per_rank, CommunicatorPolicy::per_pair,
                                            CommunicatorPolicy::per_edge, CommunicatorPolicy::per_stage_edge);
  options.grouping = *rc::gen::element(Grouping::none, Grouping::paired);
  if (*rc::gen::arbitrary<bool>()) options.receive_buffers = *rc::gen::inRange(1, 3);
  options.offload.percent = *rc::gen::element(0, 50, 100);
  options.load = *rc::gen::arbitrary<bool>();
  options.unshard = *rc::gen::arbitrary<bool>();
  options.reduce_grad = *rc::gen::arbitrary<bool>();
  options.optimizer = *rc::gen::arbitrary<bool>();
  options.clip = options.optimizer && *rc::gen::arbitrary<bool>();
  return options;
}

bool recomputes(const Schedule& schedule) {
  for (int r = 0; r < schedule.pipeline().ranks(); ++r) {
    for (const Cell& cell : schedule.row(RankId(r))) {
      for (const Action& action : cell.actions()) {
        if (action.kind == OpKind::recompute) return true;
      }
    }
  }
  return false;
}

Program any_program(const rc::Gen<RandomShape>& shapes) {
  const Schedule schedule = *schedules(shapes);
  LoweringOptions options = any_options();
  if (recomputes(schedule)) options.offload = {};  // tensors that R remakes are not kept
  const auto program = lower(schedule, options);
  RC_PRE(program.has_value());
  return *program;
}

std::optional<int> any_credits() {
  const int credits = *rc::gen::inRange(0, 3);
  return credits == 0 ? std::nullopt : std::optional(credits);
}

/// Swaps, drops or doubles one instruction of a rank.
Program mutant(const Program& program) {
  ProgramDraft draft = to_draft(program);
  auto& row = draft.rows[RankId(*rc::gen::inRange(0, program.pipeline().ranks()))];
  RC_PRE(row.size() > 1);
  const auto at = static_cast<std::ptrdiff_t>(*rc::gen::inRange<std::size_t>(0, row.size() - 1));
  for (InstructionDraft& instruction : row) instruction.after.clear();
  switch (*rc::gen::inRange(0, 3)) {
    case 0:
      std::swap(row[static_cast<std::size_t>(at)], row[static_cast<std::size_t>(at) + 1]);
      break;
    case 1:
      row.erase(row.begin() + at);
      break;
    default:
      row.insert(row.begin() + at, row[static_cast<std::size_t>(at)]);
  }
  const auto built = ProgramBuilder::build(program.pipeline(), draft);
  RC_PRE(built.has_value());
  return *built;
}

/// The executor ends as the naive one does, with exact memory figures, and explains every hang.
void check_against_naive(const Program& program) {
  RC_PRE(match_violations(program).empty());
  const RunOptions options = unverified(any_credits());
  const NaiveRun naive = run_naively(program, options.capabilities, CostTable());
  const RunResult result = run(program, NullModel(), options);
  RC_ASSERT((result.outcome == RunOutcome::finished) == (naive.outcome == NaiveRun::Outcome::finished));
  RC_ASSERT(memory_figures(program, NullModel(), result) == "exact");
  RC_ASSERT((result.outcome == RunOutcome::deadlock) == !result.hang.empty());
  for (std::size_t i = 0; i < program.size(); ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    const bool incomplete = std::binary_search(naive.incomplete.begin(), naive.incomplete.end(), id);
    RC_ASSERT((result.trace().spans[id].end.time < 0) == incomplete);
  }
}

RC_GTEST_PROP(ExecutorProperty, EndsAsTheNaiveExecutorDoes, ()) {
  check_against_naive(any_program(general_shapes()));
}

RC_GTEST_PROP(ExecutorProperty, EndsAsTheNaiveExecutorDoesOnMutants, ()) {
  check_against_naive(mutant(any_program(general_shapes())));
}

/// Chains without slices, whose B, I, W, R and overlaps come in any order that the dependencies allow.
rc::Gen<RandomShape> chains() {
  return rc::gen::map(rc::gen::tuple(plain_shapes(), rc::gen::arbitrary<bool>()), [](auto drawn) {
    RandomShape shape = std::get<0>(drawn);
    shape.recompute = std::get<1>(drawn);
    if (shape.backward == BackwardMode::none) shape.backward = BackwardMode::mixed;
    return shape;
  });
}

RC_GTEST_PROP(ExecutorProperty, GradientsAreThoseOfTheReference, ()) {
  const Program program = any_program(chains());
  RunOptions options = unverified(any_credits());
  RC_PRE(run_naively(program, options.capabilities, CostTable()).outcome == NaiveRun::Outcome::finished);
  options.steps = *rc::gen::inRange(1, 4);
  RC_ASSERT(against_reference(program, options) == "equal");
}

}  // namespace
}  // namespace ppsim::test
