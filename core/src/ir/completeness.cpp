#include "completeness.hpp"

#include <sstream>

namespace ppsim {
namespace {

void increment(std::uint8_t& count) {
  if (count < 255) ++count;
}

std::string described(OpKind kind, const Action& at, const char* what) {
  Action action = at;
  action.kind = kind;
  std::ostringstream out;
  out << action << ' ' << what;
  return out.str();
}

}  // namespace

Completeness::Completeness(const Pipeline& pipeline)
    : pipeline_(pipeline),
      cells_(static_cast<std::size_t>(pipeline.stages()) * static_cast<std::size_t>(pipeline.microbatches()) *
             static_cast<std::size_t>(pipeline.slices())) {}

std::size_t Completeness::cell_of(const Action& action) const {
  const auto microbatches = static_cast<std::size_t>(pipeline_.microbatches());
  return (action.stage().index() * microbatches + action.mb().index()) *
             static_cast<std::size_t>(pipeline_.slices()) +
         action.slice;
}

void Completeness::count(const Action& action) {
  if (!is_pass(action.kind) && action.kind != OpKind::recompute) return;
  Cell& cell = cells_[cell_of(action)];
  runs_backward_ = runs_backward_ || action.kind != OpKind::forward;
  if (action.kind == OpKind::forward) return increment(cell.forward);
  if (action.kind == OpKind::backward) return increment(cell.backward);
  if (action.kind == OpKind::backward_input) return increment(cell.input);
  if (action.kind == OpKind::backward_weight) return increment(cell.weight);
  increment(cell.recompute);
}

void Completeness::check_cell(const Cell& cell, const Action& at,
                              const std::function<void(const std::string&)>& report) const {
  const auto once = [&](OpKind kind, std::uint8_t found) {
    if (found == 0) report(described(kind, at, "is missing"));
    if (found > 1) report(described(kind, at, "is there ") + std::to_string(found) + " times, expected once");
  };
  once(OpKind::forward, cell.forward);
  if (cell.recompute > 1) once(OpKind::recompute, cell.recompute);
  if (!runs_backward_) return;
  if (cell.input == 0 && cell.weight == 0) return once(OpKind::backward, cell.backward);
  if (cell.backward > 0)
    return report(described(OpKind::backward, at, "stands beside an I or W of the same cell"));
  once(OpKind::backward_input, cell.input);
  once(OpKind::backward_weight, cell.weight);
}

void Completeness::check(const std::function<void(RankId, const std::string&)>& report) const {
  for (int s = 0; s < pipeline_.stages(); ++s) {
    const RankId rank = pipeline_.rank_of(StageId(s));
    for (int m = 0; m < pipeline_.microbatches(); ++m) {
      if (!pipeline_.on_route(StageId(s), MicrobatchId(m))) continue;
      for (int k = 0; k < pipeline_.slices(); ++k) {
        const Action at = make_action(OpKind::forward, s, m, k);
        check_cell(cells_[cell_of(at)], at, [&](const std::string& text) { report(rank, text); });
      }
    }
  }
}

}  // namespace ppsim
