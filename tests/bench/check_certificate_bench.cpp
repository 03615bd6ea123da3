// Re-validating a certificate of deadlock freedom and of the exact memory of every rank.

#include <benchmark/benchmark.h>

#include <string>

#include "ppsim/core/certificate/certificate.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/verifier/verify.hpp"

namespace {

using namespace ppsim;

Program program_of(const std::string& name, int ranks, int microbatches, int chunks) {
  ScheduleParameters parameters;
  parameters.ranks = ranks;
  parameters.microbatches = microbatches;
  parameters.chunks = chunks;
  return lower(generate(name, parameters).value(), {}).value();
}

/// Activations of 10, each buffer of a send or a receive 1.
SizeTable buffer_sizes() {
  SizeTable sizes = activation_size_table(10);
  for (const TensorKind kind : {TensorKind::boundary_input, TensorKind::boundary_output,
                                TensorKind::incoming_gradient, TensorKind::outgoing_gradient})
    sizes.set({.kind = kind}, 1);
  return sizes;
}

/// With `memory`, the exact bound of every rank as well.
void check(benchmark::State& state, const char* name, int chunks, bool memory) {
  const Program program = program_of(name, 64, 512, chunks);
  const SizeTable sizes = buffer_sizes();
  VerifyOptions options;
  options.timeout_s = 600;
  if (memory) options.sizes = sizes;
  const Certificate certificate =
      make_certificate({program, options.capabilities}, options, verify(program, options)).value();
  for (auto _ : state) {
    const auto checked = ppsim::check_certificate(certificate, program, memory ? &sizes : nullptr);
    PPSIM_CHECK(checked.has_value(), "refused");
  }
  state.counters["instructions"] = static_cast<double>(program.size());
}

void check_order(benchmark::State& state, const char* name, int chunks) { check(state, name, chunks, false); }
BENCHMARK_CAPTURE(check_order, 1f1b, "1f1b", 1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(check_order, zb_h1, "zb-h1", 1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(check_order, interleaved, "interleaved-1f1b", 4)->Unit(benchmark::kMillisecond);

void check_memory(benchmark::State& state, const char* name, int chunks) { check(state, name, chunks, true); }
BENCHMARK_CAPTURE(check_memory, 1f1b, "1f1b", 1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(check_memory, zb_h1, "zb-h1", 1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(check_memory, interleaved, "interleaved-1f1b", 4)->Unit(benchmark::kMillisecond);

}  // namespace
