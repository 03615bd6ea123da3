#include <algorithm>
#include <set>

#include "deadlock/residency_hang.hpp"
#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/verifier/repair/repair.hpp"
#include "ppsim/verifier/solver/z3_check.hpp"
#include "properties.hpp"

namespace ppsim::verifier {
namespace {

/// States of an exploration that the memory budget has room for. Of what was seen a bit per instruction is
/// kept, of what is open one for each start, completion and message.
std::size_t states_within_budget(const Program& program, const VerifyOptions& options) {
  const std::size_t state = 2 * program.size() + 512;
  const auto budget = options.memory_budget;
  return budget ? as_size(*budget) / state : options.state_limit;
}

/// The verdict under a residency limit, for a Program that finishes without it.
Answer under_residency(const AnalyzedProgram& analyzed, const VerifyOptions& options,
                       const Deadline& deadline) {
  const Program& program = analyzed.program();
  if (*analyzed.capabilities().residency >= max_in_flight(program)) {
    return {Proved{}, "graph", {"the residency limit is never reached"}};
  }
  const std::size_t affordable = states_within_budget(program, options);
  const Exploration found =
      find_hung_state(program, analyzed.capabilities(), std::min(affordable, options.state_limit),
                      [&] { return deadline.over(); });
  if (!found.whole) {
    if (deadline.over()) return {Unknown{kTimeLimit}, "exploration"};
    if (affordable < options.state_limit) return {Unknown{kMemoryLimit}, "exploration"};
    return {Unknown{"more than " + std::to_string(options.state_limit) + " " + kStateLimit}, "exploration"};
  }
  if (!found.hung) return {Proved{}, "exploration"};
  return {Refuted{explain_residency(program, analyzed.graph(), *found.hung)}, "exploration"};
}

/// How much buffering it takes.
void note_fewest_credits(const AnalyzedProgram& analyzed, const Deadline& deadline, Answer& answer) {
  constexpr double kLimitS = 5;
  constexpr std::size_t kMaxListed = 4;
  const auto credits =
      fewest_credits(analyzed.program(), analyzed.capabilities(), std::min(kLimitS, deadline.remaining_s()));
  const auto* fewest = std::get_if<FewestCredits>(&credits);
  if (fewest == nullptr) return;
  std::string note = "Credits(" + std::to_string(fewest->everywhere) +
                     ") will do, and so will a transport that does no more than ";
  for (std::size_t i = 0; i < std::min(fewest->channels.size(), kMaxListed); ++i)
    note += (i == 0 ? "" : ", ") + to_string(fewest->channels[i]);
  if (fewest->channels.size() > kMaxListed)
    note += ", and " + std::to_string(fewest->channels.size() - kMaxListed) + " more channels";
  answer.notes.push_back(std::move(note));
}

/// With credits: whether rendezvous would hang, so that safety rests on the transport's buffers.
void note_buffering(const AnalyzedProgram& analyzed, const Deadline& deadline, Answer& answer) {
  TransportCapabilities strict = analyzed.capabilities();
  if (!strict.credits) return;
  strict.credits.reset();
  const AnalyzedProgram unbuffered(analyzed.program(), strict);
  if (unbuffered.order().complete) return;
  const Deadlock deadlock = explain_deadlock(analyzed.program(), unbuffered.graph(), unbuffered.order());
  std::string note = "safe only by buffering: under rendezvous ";
  note += deadlock.cycle.empty() ? to_string(deadlock.culprits.front()) : to_string(deadlock.cycle.front());
  answer.notes.push_back(std::move(note));
  note_fewest_credits(analyzed, deadline, answer);
}

void cross_check(const AnalyzedProgram& analyzed, const VerifyOptions& options, const Deadline& deadline,
                 Answer& answer) {
  const SolverAnswer solver = deadlock_by_z3(
      analyzed, {deadline.remaining_s(), options.memory_budget, options.queries, options.stopped});
  switch (solver.outcome) {
    case SolverAnswer::Outcome::unknown:
      answer.notes.push_back("Z3: unknown, " + solver.reason);
      return;
    case SolverAnswer::Outcome::deadlock_free:
    case SolverAnswer::Outcome::deadlock:
      PPSIM_CHECK((solver.outcome == SolverAnswer::Outcome::deadlock_free) == analyzed.order().complete,
                  "Z3 and the graph disagree about deadlock");
      answer.notes.emplace_back("Z3 agrees");
      return;
  }
}

}  // namespace

int max_in_flight(const Program& program) {
  int most = 0;
  for (const RankId rank : program.pipeline().rank_ids()) {
    std::set<int> queues;
    for (const InstructionId id : program.ids_of(rank)) {
      if (!is_communication(program.actions(id).front().kind)) continue;
      const std::vector<int> of_instruction = program.queues_of(id);
      queues.insert(of_instruction.begin(), of_instruction.end());
    }
    most = std::max(most, static_cast<int>(queues.size()));
  }
  return most;
}

Answer check_deadlock_free(const AnalyzedProgram& analyzed, const VerifyOptions& options,
                           const Deadline& deadline) {
  if (!analyzed.is_matched()) return {Unknown{"meaning stops at a mismatch, see matched"}, "graph"};
  Answer answer{Proved{}, "graph"};
  if (!analyzed.order().complete) {
    Deadlock deadlock = explain_deadlock(analyzed.program(), analyzed.graph(), analyzed.order());
    if (!deadlock.cycle.empty()) {
      const auto genuine = recheck_cycle(analyzed.program(), analyzed.graph(), deadlock.cycle);
      PPSIM_CHECK(genuine.has_value(), "a reported cycle is none: " + genuine.error().message);
    }
    answer.verdict = Refuted{std::move(deadlock)};
  } else if (analyzed.capabilities().residency) {
    answer = under_residency(analyzed, options, deadline);
  }
  if (options.cross_check || options.queries) cross_check(analyzed, options, deadline, answer);
  if (std::holds_alternative<Proved>(answer.verdict)) note_buffering(analyzed, deadline, answer);
  return answer;
}

}  // namespace ppsim::verifier
