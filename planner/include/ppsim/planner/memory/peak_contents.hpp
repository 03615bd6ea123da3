#pragma once

#include <vector>

#include "ppsim/core/ir/tables.hpp"
#include "ppsim/planner/evaluate.hpp"

namespace ppsim::planner {

/// Tensors of one kind that a rank has at the same time.
struct KindBytes {
  TensorKind kind = TensorKind::parameters;
  Bytes bytes = 0;
  friend bool operator==(const KindBytes&, const KindBytes&) = default;
};

/// The contents of each rank's memory when it is first at its peak: kinds of which it has any, the most bytes
/// first. They add up to the peak.
[[nodiscard]] IdVector<RankId, std::vector<KindBytes>> peak_contents(const SimulatedStep& step);

}  // namespace ppsim::planner

namespace ppsim {
using planner::KindBytes;
using planner::peak_contents;
}  // namespace ppsim
