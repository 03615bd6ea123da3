#include "support/small_program.hpp"

#include <algorithm>

namespace ppsim::test {

LoweringOptions draw_issue_options(Dice& dice) {
  LoweringOptions options;
  options.order =
      dice.one_of({IssueOrder::timed, IssueOrder::global, IssueOrder::early, IssueOrder::issue_ordered});
  options.early = options.order == IssueOrder::early ? dice.below(3) : 0;
  options.communicators = dice.one_of({CommunicatorPolicy::per_rank, CommunicatorPolicy::per_pair,
                                       CommunicatorPolicy::per_edge, CommunicatorPolicy::per_stage_edge});
  return options;
}

std::optional<Program> draw_program(const ScheduleInfo& info, const ProgramLimits& limits, Dice& dice,
                                    const LoweringOptions& options) {
  ScheduleParameters parameters{.ranks = 2 + dice.below(limits.ranks - 1),
                                .microbatches = 1 + dice.below(limits.microbatches)};
  if (info.min_chunks < info.max_chunks) {
    const int most = std::min(limits.more_chunks, info.max_chunks - info.min_chunks);
    parameters.chunks = info.min_chunks + dice.below(most + 1);
  }
  if (info.has_slices) parameters.slices = 1 + dice.below(2);
  for (const SettingInfo& setting : info.settings) {
    if (setting.examples.empty() || !dice.one_in(3)) continue;
    parameters.settings[std::string(setting.name)] = setting.examples[dice.index(setting.examples.size())];
  }
  if (!check_parameters(info, parameters)) return std::nullopt;
  const auto schedule = generate(info.name, parameters);
  if (!schedule) return std::nullopt;
  LoweringOptions fitting = options;
  // An asynchronous schedule has its own.
  if (schedule->pipeline().asynchronous()) fitting.reduce_grad = fitting.optimizer = fitting.clip = false;
  const CostTable costs = unit_cost_table({});
  const auto program = lower(*schedule, fitting, &costs);
  return program ? std::optional(*program) : std::nullopt;
}

std::optional<Program> draw_small_program(Dice& dice, const LoweringOptions& options) {
  return draw_program(registered_schedules()[dice.index(registered_schedules().size())], {}, dice, options);
}

}  // namespace ppsim::test
