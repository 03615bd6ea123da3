#pragma once

#include <string>
#include <vector>

#include "support/gpu_probe/probe_machine.hpp"

namespace ppsim::test {

/// The same work on the whole of device 0, on each of its parts alone, and on all parts at once.
struct PartitionTimes {
  int multiprocessors = 0;  ///< of a part
  Nanoseconds whole_ns = 0;
  std::vector<Nanoseconds> alone_ns;
  std::vector<Nanoseconds> together_ns;
  Nanoseconds span_ns = 0;  ///< from the first begin to the last end, together

  /// How many parts' worth of work runs at a time when all do.
  [[nodiscard]] double concurrency() const;
};
/// `graphs`: the work of each part is one graph. Errors: throws BackendError.
[[nodiscard]] PartitionTimes time_partitions(const ProbeMachine& machine, int parts, bool graphs);

/// The host time of one call.
struct CallTime {
  std::string call;
  Nanoseconds median_ns = 0;
};
[[nodiscard]] std::vector<CallTime> time_calls(const ProbeMachine& machine, int parts);

}  // namespace ppsim::test
