#include "support/fake_gpu/tampered.hpp"

#include <algorithm>
#include <sstream>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim::test {

bool Tampered::found(FaultKind kind, const std::string& text) const {
  return std::any_of(faults.begin(), faults.end(), [&](const Fault& fault) {
    return fault.kind == kind && fault.text.find(text) != std::string::npos;
  });
}

std::string text_of(const Tampered& run) {
  std::ostringstream text;
  for (const Fault& fault : run.faults) text << fault << '\n';
  if (!run.result) text << to_string(run.result.error()) << '\n';
  return text.str();
}

Program small_program() {
  return lower(generate("1f1b", {.ranks = 2, .microbatches = 3}).value(), {}).value();
}

Tampered run_tampered(const Program& program, const std::function<void(GpuApi&)>& tamper,
                      const CudaOptions& cuda) {
  FakeGpu gpu(devices_for(program));
  auto result = run_on_fake(gpu, program, NullModel(), {.cuda = cuda, .tamper = tamper});
  return {gpu.faults(), std::move(result)};
}

void StepMark::watch(GpuApi& api) const {
  api.marks.push = [marks = open, push = api.marks.push](const char* name) {
    marks->emplace_back(name);
    push(name);
  };
  api.marks.pop = [marks = open, pop = api.marks.pop] {
    marks->pop_back();
    pop();
  };
}

}  // namespace ppsim::test
