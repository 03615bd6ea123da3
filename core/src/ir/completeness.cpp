#include "completeness.hpp"

#include "ppsim/core/ir/concatenated.hpp"

namespace ppsim {
namespace {

std::string described(OpKind kind, const Action& at, const char* what) {
  Action action = at;
  action.kind = kind;
  return concatenated(action, ' ', what);
}

}  // namespace

Completeness::Completeness(const Pipeline& pipeline)
    : pipeline_(pipeline),
      cells_(as_size(pipeline.stages()) * as_size(pipeline.microbatches()) * as_size(pipeline.slices())) {}

void Completeness::increment(OpKind kind, Cell& cell) {
  if (kind != OpKind::forward && !runs_backward_) runs_backward_ = true;
  std::uint8_t* count = &cell.recompute;
  if (kind == OpKind::forward) count = &cell.forward;
  if (kind == OpKind::backward) count = &cell.backward;
  if (kind == OpKind::backward_input) count = &cell.input;
  if (kind == OpKind::backward_weight) count = &cell.weight;
  if (*count < 255) ++*count;
}

/// Whether check_cell finds nothing: a quick answer, as it is the answer for nearly all cells.
bool Completeness::is_complete(const Cell& cell, bool runs_backward) {
  if (cell.forward != 1 || cell.recompute > 1) return false;
  const bool whole = cell.backward == 1 && cell.input == 0 && cell.weight == 0;
  const bool split = cell.backward == 0 && cell.input == 1 && cell.weight == 1;
  return !runs_backward || whole || split;
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
  const bool runs_backward = runs_backward_;
  for (int s = 0; s < pipeline_.stages(); ++s) {
    const RankId rank = pipeline_.rank_of(StageId(s));
    for (int m = 0; m < pipeline_.microbatches(); ++m) {
      if (!pipeline_.on_route(StageId(s), MicrobatchId(m))) continue;
      for (int k = 0; k < pipeline_.slices(); ++k) {
        const Action at = make_action(OpKind::forward, s, m, k);
        if (is_complete(cells_[cell_of(at)], runs_backward)) continue;
        check_cell(cells_[cell_of(at)], at, [&](const std::string& text) { report(rank, text); });
      }
    }
  }
}

}  // namespace ppsim
