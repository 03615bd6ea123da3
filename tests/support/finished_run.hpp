#pragma once

#include "ppsim/simulator/metrics/metrics.hpp"

namespace ppsim::test {

/// A simulated run with everything that its TimedRun refers to. Throws when the Program is stuck.
class FinishedRun {
 public:
  FinishedRun(Program program, CostTable costs, SizeTable sizes = {},
              TransportCapabilities capabilities = rendezvous())
      : analyzed_(std::move(program), capabilities),
        costs_(std::move(costs)),
        sizes_(std::move(sizes)),
        trace_(simulate_beside_transfers(analyzed_, {costs_, CostTable()}).value().value()) {}

  [[nodiscard]] const Program& program() const { return analyzed_.program(); }
  [[nodiscard]] const TimedTrace& trace() const { return trace_; }
  [[nodiscard]] TimedRun timed_run() const { return {analyzed_, trace_, costs_, sizes_}; }
  [[nodiscard]] RunMetrics metrics() const { return measure(timed_run()); }

 private:
  AnalyzedProgram analyzed_;
  CostTable costs_;
  SizeTable sizes_;
  TimedTrace trace_;
};

}  // namespace ppsim::test
