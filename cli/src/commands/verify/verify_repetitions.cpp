#include <algorithm>

#include "input/named_input.hpp"
#include "ppsim/planner/repetitions.hpp"
#include "verify_parts.hpp"

namespace ppsim::cli {
namespace {

/// The schedule of the command line, without its number of microbatches.
ScheduleParameters parameters_for(const InputOptions& input, int ranks) {
  ScheduleParameters parameters = said_by_name(input.input);
  parameters.ranks = ranks;
  if (input.chunks) parameters.chunks = input.chunks;
  for (const std::string& setting : input.settings) {
    const std::size_t equals = setting.find('=');
    if (equals != std::string::npos)
      parameters.settings.emplace(setting.substr(0, equals), setting.substr(equals + 1));
  }
  return parameters;
}

bool recomputes(const Subject& subject) { return subject.recompute.any(Recompute::full); }

/// The rows whose times order the instructions, recomputation included, and the costs.
Expected<CostedSchedule> costed(const Subject& subject) {
  const CostTable costs = subject.costs ? *subject.cost_table() : unit_cost_table({});
  if (!recomputes(subject)) return CostedSchedule{std::get<Schedule>(subject.ir), costs};
  PPSIM_ASSIGN_OR_RETURN(const auto program, default_program(subject));
  PPSIM_ASSIGN_OR_RETURN(auto rows, compute_only(program));
  return CostedSchedule{std::move(rows), costs};
}

/// Sent tensors live equally long only where as many sends follow as each waits for.
void add_delay(Repetitions& result, int delay) {
  constexpr int kMaxDelay = 1'000'000;  // far more than is ever compared
  if (delay == kUntilStepEnd) return;
  for (std::optional<Repetition>* known : {&result.lists, &result.queues}) {
    if (*known) (*known)->from += std::min(delay, kMaxDelay);
  }
}

}  // namespace

Repetitions repetitions_at_unit_costs(const InputOptions& input,
                                      const std::optional<CommunicatorPolicy>& policy, int ranks) {
  const auto info = find_schedule(input.input.substr(0, input.input.find(':')));
  if (!info) return {};
  return ppsim::repetitions_at_unit_costs(**info, parameters_for(input, ranks),
                                          policy.value_or(CommunicatorPolicy::per_edge));
}

Repetitions repetitions_of(const VerifyRequest& request, const std::optional<CommunicatorPolicy>& policy,
                           const SubjectFor& subject_for) {
  std::optional<Subject> subject;
  for (int m = 1; m <= kMaxTriedMicrobatches && !subject; ++m) {
    if (auto read = subject_for(m)) subject = *std::move(read);
  }
  if (!subject || subject->offload.on()) return {};
  const auto info = find_schedule(subject->name);
  if (!info || ((*info)->uses_costs && subject->costs)) return {};
  Repetitions result = repetitions_at_unit_costs(request.input, policy, pipeline_of(subject->ir).ranks());
  if (result.lists && (subject->costs || recomputes(*subject))) {
    const CostedScheduleFor costed_for = [&](int m) -> Expected<CostedSchedule> {
      PPSIM_ASSIGN_OR_RETURN(const auto of, subject_for(m));
      return costed(of);
    };
    result = repetitions_under_costs(result, policy.value_or(CommunicatorPolicy::per_edge), costed_for);
  }
  add_delay(result, subject->send_done_delay.value_or(0));
  return result;
}

}  // namespace ppsim::cli
