#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ppsim/core/ir/program.hpp"
#include "support/fake_gpu/run.hpp"

namespace ppsim::test {

/// A run that somebody interfered with, and what the fake says of it.
struct Tampered {
  std::vector<Fault> faults;
  Expected<RunResult> result;

  [[nodiscard]] bool found(FaultKind kind, const std::string& text = "") const;
};
[[nodiscard]] std::string text_of(const Tampered& run);

/// 1F1B on two ranks, three microbatches.
[[nodiscard]] Program small_program();

/// Runs a Program with a model that computes nothing.
[[nodiscard]] Tampered run_tampered(const Program& program, const std::function<void(GpuApi&)>& tamper,
                                    const CudaOptions& cuda = {.host_threads = false});
[[nodiscard]] inline Tampered run_tampered(const std::function<void(GpuApi&)>& tamper,
                                           const CudaOptions& cuda = {.host_threads = false}) {
  return run_tampered(small_program(), tamper, cuda);
}

/// The current work of the one host thread, by the marks that it sets.
struct StepMark {
  std::shared_ptr<std::vector<std::string>> open = std::make_shared<std::vector<std::string>>();

  void watch(GpuApi& api) const;
  /// Within an action of a step.
  [[nodiscard]] bool in_action() const { return open->size() == 2 && open->front() == "PP:step"; }
  /// Within this action of a step.
  [[nodiscard]] bool in_action(const std::string& text) const {
    return in_action() && open->back() == "PP:" + text;
  }
};

}  // namespace ppsim::test
