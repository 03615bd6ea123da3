#include "ppsim/simulator/metrics/kind_times.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace ppsim::simulator {
namespace {

OpKind kind_of(const Program& program, InstructionId id) {
  if (program.instruction(id).form == InstructionForm::overlap) return OpKind::overlap;
  return program.actions(id).front().kind;
}

/// A file may hold any times, so that sums that do not fit stay at the largest.
void add(Nanoseconds& sum, const Span& span) {
  const Nanoseconds duration = span.end.time - span.start.time;
  sum += std::min(duration, std::numeric_limits<Nanoseconds>::max() - sum);
}

bool is_complete(const Span& span) { return span.start.time >= 0 && span.end.time >= 0; }

}  // namespace

std::vector<KindTimes> compare_kinds(const Program& program, const TimedTrace& measured,
                                     const TimedTrace& simulated) {
  std::array<KindTimes, kOpKindCount> sums{};
  for (const InstructionId id : program.ids()) {
    const Span& one = measured.spans[id];
    const Span& other = simulated.spans[id];
    if (!is_complete(one) || !is_complete(other)) continue;
    KindTimes& sum = sums[static_cast<std::size_t>(kind_of(program, id))];
    ++sum.count;
    add(sum.measured, one);
    add(sum.simulated, other);
  }
  std::vector<KindTimes> kinds;
  for (std::size_t k = 0; k < sums.size(); ++k) {
    if (sums[k].count == 0) continue;
    sums[k].kind = kOpTable[k].kind;
    kinds.push_back(sums[k]);
  }
  return kinds;
}

Nanoseconds trace_span(const TimedTrace& trace) {
  Nanoseconds first = std::numeric_limits<Nanoseconds>::max();
  Nanoseconds last = -1;
  for (const Span& span : trace.spans) {
    if (span.start.time >= 0) first = std::min(first, span.start.time);
    last = std::max(last, span.end.time);
  }
  return last < 0 ? 0 : last - first;
}

}  // namespace ppsim::simulator
