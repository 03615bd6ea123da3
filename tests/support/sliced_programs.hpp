#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/transformer/transformer.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim::test {

/// Tokens of each slice of a sequence.
using SliceLengths = std::vector<int>;

/// Several sequences in a microbatch, and three layers, which are several on a stage where there are few.
[[nodiscard]] TransformerConfig sliced_transformer(Arithmetic arithmetic, const SliceLengths& lengths);

struct SlicedCase {
  int ranks;
  int microbatches;
  SliceLengths lengths;

  [[nodiscard]] ScheduleParameters parameters() const;
};
/// Few and many slices, of equal and other lengths, and one that is the whole sequence.
[[nodiscard]] const std::vector<SlicedCase>& sliced_cases();

/// Visits the Program of every schedule that cuts sequences in every case.
void for_each_sliced(
    const LoweringOptions& lowering,
    const std::function<void(const std::string& name, const Program&, const SlicedCase&)>& visit);

}  // namespace ppsim::test
