#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "ppsim/core/execution/timed_trace.hpp"

namespace ppsim::gpu_backend {

/// Adds the trace of a step. Of more than `most` the oldest goes; 0: none ever does.
inline void keep_trace(std::vector<TimedTrace>& traces, int most, TimedTrace trace) {
  if (most > 0 && traces.size() == as_size(most)) traces.erase(traces.begin());
  traces.push_back(std::move(trace));
}

}  // namespace ppsim::gpu_backend
