#pragma once

#include <vector>

#include "instances.hpp"
#include "ppsim/core/execution/analyzed_program.hpp"

namespace ppsim::verifier {

/// One Program as a member of a periodic one.
struct Sample {
  /// Requires: check_plain.
  Sample(const AnalyzedProgram& of, const SeriesRule& rule, SeriesTable& table, bool may_add);

  AnalyzedProgram analyzed;
  const Program& program = analyzed.program();
  const ExecutionGraph& graph = analyzed.graph();
  LocalOrder order;
  Instances instances;
  std::int64_t k = 0;  ///< periods

  [[nodiscard]] int series(InstructionId id) const { return instances.series[id.index()]; }
  [[nodiscard]] std::int64_t index(InstructionId id) const { return instances.index[id.index()]; }
};

/// The line through its values at k and at k + 1.
[[nodiscard]] inline AffineCount line(std::int64_t at_k, std::int64_t at_next, std::int64_t k) {
  return {at_k - (at_next - at_k) * k, at_next - at_k};
}

/// Instances of a series that touch a tensor, those left out that others imply.
struct TensorTouches {
  SizeClass size_class;
  RankId rank;
  bool from_start = false;
  bool to_end = false;
  std::vector<InstructionId> writers;  ///< no one implied to start after another
  std::vector<InstructionId> users;    ///< no one implied to complete before another
};

/// All tensors of a Program with what decides their birth and death. A writer does not matter where the
/// tensor exists from the start, nor a user where it lives to the end.
[[nodiscard]] std::vector<TensorTouches> touches_of(const Sample& sample);

/// The tensor series that two samples have in common, k and k + 1.
/// Errors: refused, naming the first that does not repeat.
[[nodiscard]] Expected<std::vector<TensorSeries>> find_tensors(const Sample& at_k, const Sample& at_next);

/// Errors: refused, naming a tensor that is not one of the periodic program, or the other way round.
[[nodiscard]] Expected<void> check_tensors(const std::vector<TensorSeries>& tensors, const Sample& sample);

}  // namespace ppsim::verifier
