
#include "ppsim/core/ir/check.hpp"
#include "ppsim/verifier/parameterized/ranking.hpp"
#include "proofs.hpp"
#include "smt.hpp"

namespace ppsim::verifier {
namespace {

/// Whether two ends of a message name the same tensor in each instance.
bool are_counterparts(const Series& a, const Series& b) {
  return counterpart(a.actions.front(), a.rank) == b.actions.front() && a.microbatch == b.microbatch &&
         a.stride == b.stride && a.count == b.count;
}

bool are_alike(const Series& a, const Series& b) {
  return a.actions == b.actions && a.microbatch == b.microbatch && a.stride == b.stride && a.count == b.count;
}

/// The answer of verify to one Program.
FamilyAnswer answer_for(const AllQuestion& question, const Program& program) {
  const VerifyReport report = verify_one(question, Property::deadlock_free, program);
  const PropertyResult& result = report.results.front();
  return {result.verdict, program.pipeline().microbatches(), result.method, result.notes};
}

/// No rank can ever have more communication operations in flight.
int no_limit(const PeriodicProgram& family) { return static_cast<int>(family.series.size()); }

constexpr int kMaxReplays = 20;

QueryTitle title_of(const AllQuestion& question, const PeriodicProgram& family) {
  const auto residency = question.options.capabilities.residency;
  const std::string name = residency ? "-resident-" + std::to_string(*residency) : "";
  return {"deadlock" + name, subject_of(question, family),
          "Is there a state, for some number k of periods, in which nothing can move and something is left?",
          "QF_LIA"};
}

FamilyAnswer by_states(const AllQuestion& question, const PeriodicProgram& family) {
  z3::context context;
  const Counters counters(context, family);
  StateQuestion stuck(context, counters, question);
  stuck.add(counters.stuck(question.options.capabilities.residency.value_or(no_limit(family))));
  const QueryTitle title = title_of(question, family);
  std::int64_t from = family.first;
  for (int replay = 0; replay < kMaxReplays; ++replay) {
    const SmtAnswer answer = stuck.ask_smallest(from, title);
    if (answer.outcome == SmtAnswer::Outcome::never) {
      if (replay == 0) return {Proved{}, 0, "smt"};
      break;  // the rest is more than verify can replay, or is not reached
    }
    if (answer.outcome == SmtAnswer::Outcome::unknown) return {Unknown{answer.reason}, 0, "smt"};
    if (!question.source.is_in_reach(family.rule.period * answer.k)) break;
    const auto program = question.source.get(family.microbatches(answer.k));
    if (program == nullptr) break;
    FamilyAnswer replayed = answer_for(question, *program);
    if (std::holds_alternative<Refuted>(replayed.verdict)) return replayed;
    from = answer.k + 1;
  }
  return {Unknown{"a state in which nothing moves could not be replayed; m = " +
                  std::to_string(family.microbatches(from - 1)) + " was the last tried"},
          0, "smt"};
}

}  // namespace

FamilyAnswer matched_for_all(const AllQuestion& question, const PeriodicProgram& family) {
  AllMicrobatchesOptions options = question.options;
  options.capabilities = rendezvous();
  const FamilyAnswer finishes = deadlock_free_for_all({question.source, options, question.deadline}, family);
  if (!std::holds_alternative<Proved>(finishes.verdict))
    return {Unknown{"the order on channels is known only where nothing can hang"}, 0, "periodic"};
  for (const std::vector<int>& members : family.events) {
    const Series& first = family.series[as_size(members.front())];
    const OpKind kind = first.actions.front().kind;
    for (std::size_t i = 1; i < members.size(); ++i) {
      const Series& other = family.series[as_size(members[i])];
      if (is_transfer(kind) ? !are_counterparts(first, other) : !are_alike(first, other))
        return {Unknown{"two ends of a transfer or collective are not followed alike"}, 0, "periodic"};
    }
  }
  return {Proved{}, 0, "periodic"};
}

FamilyAnswer deadlock_free_for_all(const AllQuestion& question, const PeriodicProgram& family) {
  const TransportCapabilities& capabilities = question.options.capabilities;
  if (capabilities.issue_blocks)
    return {Unknown{"a host that every communication blocks is not followed over all microbatches"}, 0,
            "graph"};
  if (!capabilities.residency) {
    if (const auto ranking = find_ranking(family)) {
      PPSIM_CHECK(ranks_all_waits(family, *ranking), "a ranking that does not rank");
      return {Proved{}, 0, "ranking"};
    }
  }
  FamilyAnswer answer = guarded([&] { return by_states(question, family); });
  if (capabilities.credits && std::holds_alternative<Unknown>(answer.verdict))
    answer.notes.emplace_back("not proved under rendezvous, which any number of credits would follow from");
  return answer;
}

void cross_check_for_all(const AllQuestion& question, const PeriodicProgram& family, FamilyAnswer& answer) {
  const FamilyAnswer by_z3 = guarded([&] { return by_states(question, family); });
  if (const auto* unknown = std::get_if<Unknown>(&by_z3.verdict)) {
    answer.notes.push_back("Z3: unknown, " + unknown->reason);
    return;
  }
  PPSIM_CHECK(by_z3.verdict == answer.verdict, "Z3 and the ranking disagree about deadlock");
  answer.notes.emplace_back("Z3 agrees");
}

}  // namespace ppsim::verifier
