#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ppsim/gpu_backend/executor/execute.hpp"
#include "ppsim/gpu_backend/stage_model/gpu_stage_model.hpp"
#include "support/fake_gpu/fake_gpu.hpp"

namespace ppsim::test {

/// How a Program runs on the fake.
struct FakeRunOptions {
  CudaOptions cuda = {.host_threads = false};
  int steps = 1;
  int kept_traces = 0;
  Bootstrap* processes = nullptr;  ///< of which each calls run_on_fake() on a thread of its own
  std::optional<double> deadline_s = std::nullopt;
  bool gradients = true;
  Algorithms* algorithms = nullptr;
  bool exact = true;                                        ///< gradients are integers modulo 2^64
  std::function<void(GpuApi&)> tamper = {};                 ///< changes the tables, to inject a fault
  std::function<Nanoseconds(const Action&)> duration = {};  ///< of kernels; empty: 1000 ns
};

/// Runs a Program unverified on the fake, which has a device for each rank, and looks at what it leaves
/// behind; one of several processes does not look.
[[nodiscard]] Expected<RunResult> run_on_fake(FakeGpu& gpu, const Program& program,
                                              const CpuStageModel& model, const FakeRunOptions& options = {});

/// The same with a model of kernels, that is made for the tables it runs on.
using MakeGpuModel = std::function<std::unique_ptr<GpuStageModel>(const GpuApi&)>;
[[nodiscard]] Expected<RunResult> run_kernels_on_fake(FakeGpu& gpu, const Program& program,
                                                      const MakeGpuModel& make,
                                                      const FakeRunOptions& options = {});

/// Its faults, a line each.
[[nodiscard]] std::string faults_of(const FakeGpu& gpu);

/// A fake with a device for each rank of a Program.
[[nodiscard]] FakeGpuOptions devices_for(const Program& program);

}  // namespace ppsim::test
