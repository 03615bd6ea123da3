#include "support/lowered.hpp"

#include <stdexcept>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/execution/well_formed.hpp"
#include "ppsim/verifier/verify.hpp"

namespace ppsim::test {

LoweringOptions draw_lowering_options(bool updates) {
  LoweringOptions options;
  options.order =
      *rc::gen::element(IssueOrder::timed, IssueOrder::global, IssueOrder::early, IssueOrder::issue_ordered);
  if (options.order == IssueOrder::early) options.early = *rc::gen::inRange(0, 4);
  options.communicators = *rc::gen::element(CommunicatorPolicy::per_rank, CommunicatorPolicy::per_pair,
                                            CommunicatorPolicy::per_edge, CommunicatorPolicy::per_stage_edge);
  options.grouping = *rc::gen::element(Grouping::none, Grouping::paired);
  options.recompute =
      *rc::gen::element<StageRecompute>(Recompute::none, Recompute::selective, Recompute::full,
                                        StageRecompute({{StageId(0), Recompute::full}}));
  if (options.recompute != StageRecompute(Recompute::full))
    options.offload.percent = *rc::gen::element(0, 0, 30, 50, 100);
  options.load = *rc::gen::arbitrary<bool>();
  options.unshard = *rc::gen::arbitrary<bool>();
  if (updates) {
    options.reduce_grad = *rc::gen::arbitrary<bool>();
    options.optimizer = *rc::gen::arbitrary<bool>();
    options.clip = options.optimizer && *rc::gen::arbitrary<bool>();
  }
  return options;
}

std::string first_violation(const Program& program) {
  if (const auto broken = well_formed_violations(program); !broken.empty()) return broken.front().message;
  if (const auto broken = match_violations(program); !broken.empty()) return broken.front().message;
  return "";
}

bool finishes(const Program& program) {
  return run_order(build_execution_graph(program, rendezvous())).complete;
}

bool uses_tensors_in_time(const Program& program) {
  VerifyOptions options;
  options.properties = {Property::tensor_use};
  return verify(program, options).all_proved();
}

Program lowered(const Schedule& schedule, const LoweringOptions& options, const CostTable* costs) {
  auto program = lower(schedule, options, costs);
  if (!program) throw std::runtime_error(to_string(program.error()));
  return *std::move(program);
}

}  // namespace ppsim::test
