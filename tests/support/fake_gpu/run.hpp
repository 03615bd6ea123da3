#pragma once

#include <functional>

#include "ppsim/gpu_backend/execute.hpp"
#include "support/fake_gpu/fake_gpu.hpp"

namespace ppsim::test {

/// How a Program runs on the fake.
struct FakeRunOptions {
  CudaOptions cuda = {.host_threads = false};
  int steps = 1;
  bool exact = true;                                        ///< gradients are integers modulo 2^64
  std::function<void(GpuApi&)> tamper = {};                 ///< changes the tables, to inject a fault
  std::function<Nanoseconds(const Action&)> duration = {};  ///< of kernels; empty: 1000 ns
};

/// Runs a Program unverified on the fake, which has a device for each rank, and looks at what it leaves
/// behind.
[[nodiscard]] Expected<RunResult> run_on_fake(FakeGpu& gpu, const Program& program, const StageModel& model,
                                              const FakeRunOptions& options = {});

/// A fake with a device for each rank of a Program.
[[nodiscard]] FakeGpuOptions devices_for(const Program& program);

}  // namespace ppsim::test
