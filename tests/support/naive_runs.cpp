#include "support/naive_runs.hpp"

#include <utility>

namespace ppsim::test {
namespace {

std::string text(Instant at) {
  return std::to_string(at.time) + (at.delta > 0 ? "." + std::to_string(at.delta) : "");
}

/// Spans of a rank in list order, `start-end`, rounds after a point, `x` for what did not complete.
std::string spans(const Program& program, int rank, const NaiveRun& run) {
  std::string result;
  for (int i = program.first(RankId(rank)).value(); i < program.last(RankId(rank)).value(); ++i) {
    const Span& span = run.trace.spans[InstructionId(i)];
    if (!result.empty()) result += ' ';
    result += span.end.time < 0 ? "x" : text(span.start) + "-" + text(span.end);
  }
  return result;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Ran& ran) {
  out << "outcome " << static_cast<int>(ran.outcome);
  for (const std::string& rank : ran.ranks) out << "\n  " << rank;
  return out;
}

Ran finished(std::vector<std::string> ranks) { return {NaiveRun::Outcome::finished, std::move(ranks)}; }
Ran deadlock(std::vector<std::string> ranks) { return {NaiveRun::Outcome::deadlock, std::move(ranks)}; }

CostTable costs_of_kinds() {
  CostTable table;
  const std::pair<OpKind, Nanoseconds> entries[] = {
      {OpKind::forward, 10},        {OpKind::backward, 20},
      {OpKind::backward_input, 12}, {OpKind::backward_weight, 8},
      {OpKind::recompute, 9},       {OpKind::overlap, 25},
      {OpKind::send_forward, 3},    {OpKind::send_backward, 4},
      {OpKind::send_activation, 5}, {OpKind::unshard, 6},
      {OpKind::reduce_grad, 7},     {OpKind::collective, 2},
      {OpKind::optimizer, 11},      {OpKind::offload, 13},
      {OpKind::reload, 14},         {OpKind::load, 15}};
  for (const auto& [kind, duration] : entries) table.set({.kind = kind}, duration);
  return table;
}

Ran run_step_by_step(const Program& program, const TransportCapabilities& capabilities,
                     const CostTable& table) {
  const NaiveRun result = run_naively(program, capabilities, table);
  Ran ran{result.outcome, {}};
  for (int r = 0; r < program.pipeline().ranks(); ++r) ran.ranks.push_back(spans(program, r, result));
  return ran;
}

Program alone(int microbatches, std::vector<std::string> row) {
  return HandProgram{.pipeline = chain_spec(1, 1, microbatches),
                     .communicators = communicators({{0}}),
                     .rows = {std::move(row)}}
      .build();
}

HandProgram two(int microbatches, std::vector<std::string> first, std::vector<std::string> second) {
  return {.pipeline = chain_spec(2, 2, microbatches),
          .communicators = communicators({{0, 1}, {0, 1}}),
          .rows = {std::move(first), std::move(second)}};
}

TransportCapabilities credits(int n) { return {.credits = n}; }

}  // namespace ppsim::test
