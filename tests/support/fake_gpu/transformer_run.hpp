#pragma once

#include <functional>
#include <stdexcept>
#include <utility>

#include <gtest/gtest.h>

#include "support/fake_gpu/tampered.hpp"
#include "support/fake_gpu/transformer.hpp"

namespace ppsim::test {

/// How the transformer's kernels run on the strict fake.
struct Way {
  int steps = 1;
  CudaOptions cuda = {.host_threads = false};
  std::function<void(GpuApi&)> tamper = {};
  TransformerFaults faults = {};
};

inline Tampered run_transformer(const Program& program, const TransformerConfig& config,
                                const Way& way = {}) {
  FakeGpu gpu(devices_for(program));
  const auto make = [&](const GpuApi& api) { return fake_transformer(gpu, api, config, way.faults); };
  auto result =
      run_kernels_on_fake(gpu, program, make, {.cuda = way.cuda, .steps = way.steps, .tamper = way.tamper});
  return {gpu.faults(), std::move(result)};
}

/// Expects that nothing is found.
inline RunResult sound(const Program& program, const TransformerConfig& config, const Way& way = {}) {
  Tampered found = run_transformer(program, config, way);
  EXPECT_EQ(text_of(found), "");
  if (!found.result) throw std::runtime_error(to_string(found.result.error()));
  return *std::move(found.result);
}

}  // namespace ppsim::test
