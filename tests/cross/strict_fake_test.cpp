// The executor of GPU streams, on the strict fake: its results, and the answers of others for the same
// Programs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <thread>

#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/executor/backends.hpp"
#include "ppsim/gpu_backend/executor/measured_costs.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/gpu_backend/stage_model/reference.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/simulator/engine/simulate.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/random_case.hpp"
#include "support/registered_programs.hpp"
#include "support/small_transformer.hpp"

namespace ppsim::strict_fake_test {
namespace {

constexpr int kPrograms = 5'000;
constexpr int kShards = 10;

struct Mode {
  std::string name;
  CudaOptions options;
  LoweringOptions lowering;
};

LoweringOptions everything() {
  LoweringOptions options;
  options.load = options.unshard = options.reduce_grad = options.optimizer = options.clip = true;
  return options;
}

/// Whether a Program that finishes does so with one hardware queue too: copies are enqueued behind all that
/// they wait for. Nothing tells in which order the branches of a graph enter a queue.
bool one_queue_is_enough(const CudaOptions& options) {
  return options.transport == CudaTransport::copy && !options.graphs;
}

class StrictFakeGradients : public testing::TestWithParam<Mode> {};

TEST_P(StrictFakeGradients, AreThoseOfTheUnpipelinedModelInExactIntegers) {
  const auto model = test::exact_transformer(5);
  constexpr int kSteps = 2;
  const auto check = [&](const std::string& name, const Program& program) {
    CudaOptions way = GetParam().options;
    // All ranks are on one device where there may be several.
    if (way.transport == CudaTransport::copy) way.ranks_per_device = program.pipeline().ranks();
    test::FakeGpu gpu({.devices = program.pipeline().ranks(),
                       .one_queue = one_queue_is_enough(way),
                       .jumps = !way.host_threads});
    const auto result = test::run_on_fake(gpu, program, *model, {.cuda = way, .steps = kSteps});
    EXPECT_TRUE(gpu.faults().empty()) << name << '\n' << faults_of(gpu);
    ASSERT_TRUE(result) << name << ": " << to_string(result.error());
    ASSERT_EQ(result->outcome, RunOutcome::finished) << name;
    RunOptions options;
    options.steps = kSteps;
    const auto reference =
        reference_gradients(program.pipeline(), *model, reference_options(program, options)).value();
    EXPECT_EQ(max_gradient_difference(*model, result->gradients, reference), 0.0) << name;
  };
  const LoweringOptions& lowering = GetParam().lowering;
  const auto found = test::for_each_registered(*model, test::whole_and_sliced_shapes(), lowering, check);
  EXPECT_EQ(test::surprises(found, lowering.optimizer ? test::not_updated() : test::not_computed()), "");
}

INSTANTIATE_TEST_SUITE_P(
    Modes, StrictFakeGradients,
    testing::Values(Mode{"streamed", {.host_threads = false}, {}},
                    Mode{"graphs", {.graphs = true, .host_threads = false}, {}},
                    Mode{"streamed_without_profile", {.profile = false, .host_threads = false}, {}},
                    Mode{"threads", {.host_threads = true}, {}},
                    Mode{"copy_engines", {.transport = CudaTransport::copy, .host_threads = false}, {}},
                    Mode{"copy_engines_by_threads",
                         {.transport = CudaTransport::copy, .host_threads = true},
                         everything()},
                    Mode{"copy_engines_in_graphs",
                         {.transport = CudaTransport::copy, .graphs = true, .host_threads = false},
                         {}},
                    Mode{"whole_steps", {.host_threads = false}, everything()},
                    Mode{"whole_steps_as_graphs", {.graphs = true, .host_threads = false}, everything()},
                    Mode{"whole_steps_by_copy_engines",
                         {.transport = CudaTransport::copy, .host_threads = false},
                         everything()},
                    Mode{"whole_steps_by_copy_engines_in_graphs",
                         {.transport = CudaTransport::copy, .graphs = true, .host_threads = false},
                         everything()}),
    [](const auto& one) { return one.param.name; });

/// The result of process 0 of a run on so many processes, which are threads that share a fake.
Expected<RunResult> run_on_processes(int processes, test::FakeGpu& gpu, const Program& program,
                                     const CpuStageModel& model, CudaTransport transport) {
  const auto ends = in_process_bootstraps(processes).value();
  std::vector<Expected<RunResult>> results(ends.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t p = 0; p < ends.size(); ++p) {
      threads.emplace_back([&, p] {
        test::FakeRunOptions options{.steps = 2, .processes = ends[p].get()};
        options.cuda.transport = transport;
        options.cuda.host_threads = program.pipeline().ranks() % 2 == 0;
        options.cuda.graphs = options.cuda.host_threads && transport == CudaTransport::nccl;
        results[p] = test::run_on_fake(gpu, program, model, options);
      });
    }
  }
  gpu.check_teardown();
  return results.front();
}

class StrictFakeProcesses : public testing::TestWithParam<CudaTransport> {};

TEST_P(StrictFakeProcesses, GiveTheGradientsOfTheUnpipelinedModel) {
  const auto model = test::exact_transformer(5);
  int programs = 0;
  const auto check = [&](const std::string& name, const Program& program) {
    const int ranks = program.pipeline().ranks();
    test::FakeGpu gpu({.devices = ranks, .jumps = false});
    const int processes = ++programs % 2 == 0 && ranks % 2 == 0 ? ranks / 2 : ranks;
    const auto result = run_on_processes(processes, gpu, program, *model, GetParam());
    EXPECT_TRUE(gpu.faults().empty()) << name << '\n' << faults_of(gpu);
    ASSERT_TRUE(result) << name << ": " << to_string(result.error());
    RunOptions options;
    options.steps = 2;
    const auto reference =
        reference_gradients(program.pipeline(), *model, reference_options(program, options)).value();
    EXPECT_EQ(max_gradient_difference(*model, result->gradients, reference), 0.0) << name;
  };
  const auto shapes = test::whole_and_sliced_shapes().subspan(1);  // of several ranks
  EXPECT_EQ(
      test::surprises(test::for_each_registered(*model, shapes, everything(), check), test::not_updated()),
      "");
}

INSTANTIATE_TEST_SUITE_P(Transports, StrictFakeProcesses,
                         testing::Values(CudaTransport::nccl, CudaTransport::copy), [](const auto& one) {
                           return one.param == CudaTransport::nccl ? "nccl" : "copies";
                         });

TransportCapabilities launches_of(const CudaOptions& way) { return capabilities_of({.backend = way}); }

/// The fake's kernels take the times of a cost table, and its messages all the same time: measured times
/// equal simulated ones. A run leaves the arithmetic of padding out, a simulation does not.
TEST(StrictFakeTimes, AreThoseOfTheSimulator) {
  const NullModel model;
  const auto check = [&](const std::string& name, const Program& program) {
    if (batch_microbatches(program.pipeline()) < program.pipeline().microbatches()) return;
    test::FakeGpu gpu(test::devices_for(program));
    const auto duration = [](const Action& a) { return Nanoseconds{1000} * (1 + static_cast<int>(a.kind)); };
    const RunResult run = test::run_on_fake(gpu, program, model, {.duration = duration}).value();
    const CostTable costs = mean_costs(measured_durations({program, rendezvous()}, run.traces));
    const SimulatedRun simulated = simulate_program(program, launches_of({}), costs).value();
    Nanoseconds end = 0;
    for (const Span& span : simulated->spans) end = std::max(end, span.end.time);
    Nanoseconds last = 0;
    for (const Span& span : run.trace().spans) last = std::max(last, span.end.time);
    // An OPT may copy weights or not, in one class of costs; events are in milliseconds of 24 bits.
    EXPECT_NEAR(static_cast<double>(last), static_cast<double>(end), 150) << name;
  };
  const auto computable = test::exact_transformer(5);
  const auto found = test::for_each_registered(*computable, test::whole_and_sliced_shapes(), {}, check);
  EXPECT_EQ(test::surprises(found, test::not_computed()), "");
}

enum class Outcome { finished, deadlock, mismatch };

Outcome by_naive(const test::RandomCase& c, const TransportCapabilities& capabilities) {
  switch (run_naively(c.program, capabilities, c.costs).outcome) {
    case NaiveRun::Outcome::finished:
      return Outcome::finished;
    case NaiveRun::Outcome::deadlock:
      return Outcome::deadlock;
    case NaiveRun::Outcome::mismatch:
      return Outcome::mismatch;
  }
  throw std::logic_error("unreachable");
}

Outcome by_verifier(const Program& program, const TransportCapabilities& capabilities) {
  VerifyOptions options;
  options.capabilities = capabilities;
  options.properties = {Property::matched, Property::deadlock_free};
  const VerifyReport report = verify(program, options);
  if (!report.proved(Property::matched)) return Outcome::mismatch;
  return report.proved(Property::deadlock_free) ? Outcome::finished : Outcome::deadlock;
}

/// How messages travel in one of the ways that a Program can run in, all of them in turn.
CudaOptions transport_of(int number) {
  CudaOptions options;
  if (number % 2 != 0) options.transport = CudaTransport::copy;
  return options;
}

CudaOptions way_of(const Program& program, int number, Outcome expected) {
  const auto bit = [&](int n) { return ((number >> n) & 1) != 0; };
  const auto all = program.instructions();
  const bool blocks =
      std::any_of(all.begin(), all.end(), [](const Instruction& one) { return one.blocking; });
  CudaOptions options = transport_of(number);
  if (bit(0) && bit(1)) options.ranks_per_device = 2;
  options.graphs = bit(2) && !blocks && expected != Outcome::mismatch;  // whichever is told first
  // A hang ends when time jumps, which it does only for one host thread.
  options.host_threads = bit(3) && expected == Outcome::finished;
  return options;
}

/// A fake with the devices that the way takes.
test::FakeGpuOptions machine_for(const Program& program, const CudaOptions& way) {
  const int ranks = program.pipeline().ranks();
  return {.devices = (ranks + way.ranks_per_device - 1) / way.ranks_per_device,
          .one_queue = way.one_hardware_queue || one_queue_is_enough(way),
          .jumps = !way.host_threads};
}

Outcome by_strict_fake(const Program& program, test::FakeGpu& gpu, const CudaOptions& way) {
  const auto result = test::run_on_fake(gpu, program, NullModel(), {.cuda = way});
  if (!result) {
    // A graph holds a whole step: a list that waits for itself has none.
    if (way.graphs && result.error().code == ErrorCode::bad_argument) return Outcome::deadlock;
    EXPECT_EQ(result.error().code, ErrorCode::ill_formed) << to_string(result.error());
    return Outcome::mismatch;
  }
  return result->outcome == RunOutcome::finished ? Outcome::finished : Outcome::deadlock;
}

/// Whether actions write all that others read: stages with several inputs, and collectives that stand for
/// transfers are beyond what ActionBuffers hold, and so are slices whose saved activations do not stay.
bool has_plain_dataflow(const Program& program) {
  static const std::unique_ptr<CpuStageModel> model = test::exact_transformer(1);
  const auto& collectives = program.pipeline().spec().collectives;
  return program.pipeline().is_chain() && model->check_actions(program) &&
         std::all_of(collectives.begin(), collectives.end(), [](const auto& c) { return c.name == "norm"; });
}

/// Whether whatever happens to tensors is the executor's doing.
bool uses_tensors_properly(const Program& program) {
  if (!has_plain_dataflow(program)) return false;
  VerifyOptions options;
  options.properties = {Property::well_formed, Property::matched, Property::deadlock_free,
                        Property::tensor_use};
  return verify(program, options).all_proved();
}

int programs_asked_for() {
  const char* const asked = std::getenv("PPSIM_AGREEMENT_PROGRAMS");
  return asked == nullptr ? kPrograms : std::atoi(asked);
}

/// Expects that strict fake, verifier and step-by-step executor agree on a Program.
void expect_agreement(const test::RandomCase& c, const CudaOptions& way, Outcome expected) {
  test::FakeGpu gpu(machine_for(c.program, way));
  ASSERT_EQ(by_verifier(c.program, launches_of(way)), expected);
  ASSERT_EQ(by_strict_fake(c.program, gpu, way), expected);
  for (const test::Fault& fault : gpu.faults()) {
    // A damaged Program may misuse its own tensors.
    const bool of_program =
        fault.kind == test::FaultKind::race || fault.kind == test::FaultKind::never_written;
    ASSERT_TRUE(of_program && !uses_tensors_properly(c.program)) << fault;
  }
}

void expect_mix(std::map<Outcome, int>& seen, int programs) {
  EXPECT_GT(seen[Outcome::finished], programs / 5);
  EXPECT_GT(seen[Outcome::deadlock], programs / 10);
  EXPECT_GT(seen[Outcome::mismatch], 0);
}

class StrictFakeAgreement : public testing::TestWithParam<int> {};

TEST_P(StrictFakeAgreement, WithStepByStepExecutorAndVerifier) {
  std::map<Outcome, int> seen;
  int sliced = 0;  // that finish and use tensors properly, as far as is seen at once
  const int programs = programs_asked_for();
  for (int number = GetParam(); number < programs; number += kShards) {
    SCOPED_TRACE("program " + std::to_string(number));
    const test::RandomCase c = test::random_case(number);
    const TransportCapabilities capabilities = launches_of(transport_of(number / kShards));
    if (capabilities != rendezvous() && !test::is_issued_as_listed(c.program)) continue;
    const Outcome expected = by_naive(c, capabilities);
    ++seen[expected];
    if (expected == Outcome::finished && c.program.pipeline().slices() > 1 && has_plain_dataflow(c.program))
      ++sliced;
    const CudaOptions way = way_of(c.program, number / kShards, expected);
    // A graph has no launch order to hang by.
    const Outcome as_graph = way.graphs ? by_naive(c, launches_of(way)) : expected;
    ASSERT_NO_FATAL_FAILURE(expect_agreement(c, way, as_graph));
  }
  expect_mix(seen, programs / kShards);
  EXPECT_GT(sliced, programs / kShards / 100);
}

/// The same with one hardware queue for each device, as with CUDA_DEVICE_MAX_CONNECTIONS=1.
TEST_P(StrictFakeAgreement, WithOneHardwareQueue) {
  std::map<Outcome, int> seen;
  const int programs = programs_asked_for();
  for (int number = GetParam(); number < programs; number += kShards) {
    SCOPED_TRACE("program " + std::to_string(number));
    const test::RandomCase c = test::random_case(number);
    if (!test::is_issued_as_listed(c.program)) continue;
    CudaOptions way{.host_threads = false, .one_hardware_queue = true};
    const Outcome expected = by_naive(c, launches_of(way));
    ++seen[expected];
    way.host_threads = number / kShards % 2 != 0 && expected == Outcome::finished;
    ASSERT_NO_FATAL_FAILURE(expect_agreement(c, way, expected));
  }
  expect_mix(seen, programs / kShards);
}

INSTANTIATE_TEST_SUITE_P(Shards, StrictFakeAgreement, testing::Range(0, kShards));

}  // namespace
}  // namespace ppsim::strict_fake_test
