#include "support/timing.hpp"

namespace ppsim::test {
namespace {

std::string text_of(Instant at) {
  return std::to_string(at.time) + (at.delta == 0 ? "" : "." + std::to_string(at.delta));
}

}  // namespace

CostTable cost_table(std::initializer_list<CostRow> rows) {
  CostTable costs;
  for (const CostRow& row : rows) costs.set({.kind = row.kind, .subject = row.subject}, row.duration);
  return costs;
}

std::vector<std::string> spans(const Program& program, const TimedTrace& trace, int rank) {
  std::vector<std::string> texts;
  const RankId r(rank);
  for (InstructionId id = program.first(r); id < program.last(r); id = InstructionId(id.value() + 1)) {
    const Span& span = trace.spans[id];
    texts.push_back(text_of(span.start) + "-" + text_of(span.end));
  }
  return texts;
}

}  // namespace ppsim::test
