#pragma once

#include <functional>

#include "support/gpu_probe/probe_machine.hpp"

namespace ppsim::test {

using Work = std::function<void(GpuStream)>;

/// Work that needs multiprocessors and little else: products of whole numbers that stay in the cache.
class Grind {
 public:
  /// Requires: a machine that outlives it.
  Grind(const ProbeMachine& machine, ProbeStream& stream);
  void operator()(GpuStream stream) const;

 private:
  const ProbeMachine& machine_;
  std::uint64_t* numbers_ = nullptr;
};

/// Work as a graph of its own. Errors: throws BackendError.
[[nodiscard]] GraphHandle captured(const ProbeMachine& machine, ProbeStream& stream, const Work& work);

}  // namespace ppsim::test
