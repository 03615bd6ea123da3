#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/process_group/bootstrap.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/fake_gpu/run.hpp"

namespace ppsim::test {

using ProcessEnds = std::vector<std::unique_ptr<gpu_backend::Bootstrap>>;

inline Program lowered_program(const std::string& name, int ranks, int microbatches) {
  return lower(generate(name, {.ranks = ranks, .microbatches = microbatches}).value(), {}).value();
}

/// Time is real: nobody knows when nothing will happen any more.
inline void in_real_time(gpu_backend::GpuApi& api) { api.clock.now = gpu_backend::host_clock().now; }

/// A deadline of which nobody but who stands still is late, on a busy machine either.
inline constexpr double kLate_s = 2;

inline FakeGpuOptions host_with(int devices) { return {.devices = devices, .jumps = false}; }

}  // namespace ppsim::test
