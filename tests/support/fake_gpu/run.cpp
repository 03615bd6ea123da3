#include "support/fake_gpu/run.hpp"

#include <sstream>

#include "executor/admission.hpp"
#include "executor/gpu/gpu_execute.hpp"
#include "ppsim/gpu_backend/executor/backends.hpp"
#include "process_group/agreement.hpp"
#include "support/fake_gpu/stages.hpp"

namespace ppsim::test {

using namespace gpu_backend;

std::string faults_of(const FakeGpu& gpu) {
  std::ostringstream text;
  for (const Fault& fault : gpu.faults()) text << fault << '\n';
  return text.str();
}

FakeGpuOptions devices_for(const Program& program) { return {.devices = program.pipeline().ranks()}; }

Expected<RunResult> run_kernels_on_fake(FakeGpu& gpu, const Program& program, const MakeGpuModel& make,
                                        const FakeRunOptions& options) {
  RunOptions run;
  run.backend = options.cuda;
  run.unverified = true;
  run.steps = options.steps;
  run.kept_traces = options.kept_traces;
  run.processes = options.processes;
  run.deadline_s = options.deadline_s;
  run.gradients = options.gradients;
  run.algorithms = options.algorithms;
  gpu.know(program.pipeline());
  GpuApi api = gpu.api();
  if (options.tamper) options.tamper(api);
  const auto kernels = make(api);
  auto result = PreparedRun::make({program, capabilities_of(run)}, *kernels, run)
                    .and_then([&](const PreparedRun& prepared) -> Expected<RunResult> {
                      PPSIM_RETURN_IF_ERROR(admit(prepared, nullptr));
                      return execute_on_gpu(api, prepared);
                    });
  end_together(run.processes, result ? nullptr : &result.error());
  if (run.processes == nullptr) gpu.check_teardown();
  return result;
}

Expected<RunResult> run_on_fake(FakeGpu& gpu, const Program& program, const CpuStageModel& model,
                                const FakeRunOptions& options) {
  constexpr Nanoseconds kKernel = 1000;
  const auto duration = options.duration ? options.duration : [](const Action&) { return kKernel; };
  const auto make = [&](const GpuApi&) {
    return std::make_unique<FakeStageModel>(gpu, model, options.exact, duration);
  };
  return run_kernels_on_fake(gpu, program, make, options);
}

}  // namespace ppsim::test
