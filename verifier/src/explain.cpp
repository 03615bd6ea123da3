#include <sstream>

#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/concatenated.hpp"
#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/verifier/verify.hpp"

namespace ppsim::verifier {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const Program&, const std::vector<Violation>& violations) {
  Lines lines;
  for (const Violation& violation : violations) lines.push_back(violation.message);
  return lines;
}

Lines lines_of(const Program&, const Deadlock& deadlock) {
  Lines lines;
  for (const Wait& wait : deadlock.cycle) lines.push_back(to_string(wait));
  for (const Wait& culprit : deadlock.culprits) lines.push_back(to_string(culprit));
  return lines;
}

Lines lines_of(const Program&, const ResidencyHang& hang) {
  Lines lines{"some choice of which ready operation takes a place of the residency limit of " +
              std::to_string(hang.residency) + " hangs; without the limit none does"};
  for (std::size_t i = 0; i < hang.resident.size(); ++i) {
    const NamedInstruction& place = hang.resident[i];
    const bool same_rank = i > 0 && hang.resident[i - 1].rank == place.rank;
    if (!same_rank) lines.push_back("rank " + std::to_string(place.rank.value()) + " has in flight:");
    lines.back() += (same_rank ? ", " : " ") + place.action;
  }
  for (const Wait& wait : hang.waits) lines.push_back(to_string(wait));
  return lines;
}

/// Where each rank stands after the first `moment` items of a firing order.
Lines moment_lines(const Program& program, const FiringOrder& firing) {
  std::vector<char> started(program.size(), 0);
  std::vector<char> complete(program.size(), 0);
  for (std::size_t i = 0; i < firing.moment; ++i)
    (firing.items[i] % 2 == 0 ? started : complete)[firing.items[i] / 2] = 1;
  Lines lines;
  for (const RankId rank : program.pipeline().rank_ids()) {
    std::string last = "nothing";
    std::string in_flight;
    for (const InstructionId id : program.ids_of(rank)) {
      const bool compute = is_compute(program.actions(id).front().kind);
      if (complete[id.index()] != 0 && compute) last = actions_text(program, id);
      if (started[id.index()] == 0 || complete[id.index()] != 0) continue;
      in_flight += (in_flight.empty() ? "" : ", ") + actions_text(program, id);
    }
    lines.push_back("  then: rank " + std::to_string(rank.value()) + " has computed up to " + last +
                    (in_flight.empty() ? "" : "; in flight: " + in_flight));
  }
  return lines;
}

Lines lines_of(const Program& program, const MemoryOverrun& overrun) {
  Lines lines{
      concatenated("rank ", overrun.rank, ": ", overrun.bytes, " bytes live at once, limit ", overrun.limit)};
  for (const Tensor& tensor : overrun.live) lines.push_back("  live: " + tensor_text(tensor));
  const Lines then = moment_lines(program, overrun.firing_order);
  append_all(lines, then);
  return lines;
}

Lines lines_of(const Program& program, const LateEnd& late) {
  std::ostringstream head;
  head << "the step takes " << late.makespan << " ns, limit " << late.limit << ", with";
  for (const auto& [cost_class, duration] : late.costs.entries()) {
    if (duration > 0) head << ' ' << cost_class << " = " << duration << " ns,";
  }
  Lines lines{head.str()};
  lines.back().back() = ':';
  for (const TimedInstruction& timed : late.critical_path) {
    lines.push_back(concatenated("  rank ", program.rank_of(timed.instruction), ": ",
                                 actions_text(program, timed.instruction), " from ", timed.start, " to ",
                                 timed.end, " ns"));
  }
  return lines;
}

}  // namespace

std::string tensor_text(const Tensor& tensor) {
  std::ostringstream out;
  const SizeClass& c = tensor.size_class;
  out << info(c.kind).name << " of " << subject_name(info(c.kind).subject) << ' ' << c.subject;
  if (c.peer >= 0) out << ", from " << c.peer;
  if (c.kind == TensorKind::workspace) out << ", " << info(c.op).text;
  if (tensor.microbatch >= 0) out << ", microbatch " << tensor.microbatch;
  if (c.slice > 0) out << ", slice " << c.slice;
  return out.str();
}

std::vector<std::string> explain(const Program& program, const Counterexample& counterexample) {
  return std::visit([&](const auto& value) { return lines_of(program, value); }, counterexample);
}

}  // namespace ppsim::verifier
