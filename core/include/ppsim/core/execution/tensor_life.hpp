#pragma once

#include <algorithm>

#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/core/memory/tensors.hpp"

namespace ppsim {

/// When the first writer starts; in the past of everything for what exists from the start.
[[nodiscard]] inline Instant allocation(const Tensor& tensor, const TimedTrace& trace,
                                        const TensorTable& table) {
  if (tensor.from_start) return {};
  Instant first{-1, 0};
  for (const InstructionId writer : table.writers_of(tensor)) {
    const Instant start = trace.spans[writer].start;
    if (happened(start) && (!happened(first) || start < first)) first = start;
  }
  return first;
}

/// When the last user completes; never where one does not, or the tensor stays.
[[nodiscard]] inline Instant release(const Tensor& tensor, const TimedTrace& trace,
                                     const TensorTable& table) {
  Instant last{-1, 0};
  if (tensor.to_end) return last;
  for (const InstructionId user : table.users_of(tensor)) {
    const Instant end = trace.spans[user].end;
    if (!happened(end)) return end;
    last = std::max(last, end);
  }
  return last;
}

}  // namespace ppsim
