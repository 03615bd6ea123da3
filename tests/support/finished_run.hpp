#pragma once

#include "ppsim/simulator/metrics/metrics.hpp"

namespace ppsim::test {

/// A simulated run with everything that its RunView refers to. Throws when the Program is stuck.
class FinishedRun {
 public:
  FinishedRun(Program program, CostTable costs, SizeTable sizes = {},
              TransportCapabilities capabilities = rendezvous())
      : program_(std::move(program)),
        costs_(std::move(costs)),
        sizes_(std::move(sizes)),
        graph_(build_execution_graph(program_, capabilities)),
        trace_(simulate_program(program_, capabilities, costs_).value().value()) {}

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const TimedTrace& trace() const { return trace_; }
  [[nodiscard]] RunView view() const { return {program_, graph_, trace_, costs_, sizes_}; }
  [[nodiscard]] RunMetrics metrics() const { return measure(view()); }

 private:
  Program program_;
  CostTable costs_;
  SizeTable sizes_;
  ExecutionGraph graph_;
  TimedTrace trace_;
};

}  // namespace ppsim::test
