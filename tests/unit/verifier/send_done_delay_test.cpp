#include <gtest/gtest.h>

#include <array>

#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/memory/slot_plan.hpp"
#include "ppsim/simulator/engine/simulate.hpp"
#include "ppsim/verifier/parameterized/all_microbatches.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/all_states.hpp"
#include "support/closed_forms.hpp"
#include "support/generated.hpp"

// Memory of Programs that keep what they send.

namespace ppsim::test {
namespace {

LoweringOptions keeping(int delay, IssueOrder order = IssueOrder::timed) {
  LoweringOptions options;
  options.order = order;
  options.send_done_delay = delay;
  return options;
}

Program lowered_with(const std::string& name, int ranks, int microbatches, const LoweringOptions& options) {
  return lower(generated(name, {.ranks = ranks, .microbatches = microbatches}), options).value();
}

/// Boundary tensors of 128 bytes, as of four rows of eight floats, and stages of two layers of eight by
/// eight: parameters, their gradients, and three arrays that each layer saves.
SizeTable two_small_layers() {
  constexpr Bytes kBoundary = Bytes{4} * 8 * 4;
  constexpr Bytes kWeights = Bytes{2} * 8 * 8 * 4;
  SizeTable sizes;
  for (const TensorKind kind : {TensorKind::boundary_input, TensorKind::boundary_output,
                                TensorKind::incoming_gradient, TensorKind::outgoing_gradient})
    sizes.set({.kind = kind}, kBoundary);
  sizes.set({.kind = TensorKind::parameters}, kWeights);
  sizes.set({.kind = TensorKind::gradients}, kWeights);
  sizes.set({.kind = TensorKind::saved_for_weight}, 6 * kBoundary);
  return sizes;
}

VerifyReport report_of(const Program& program, const SizeTable& sizes) {
  VerifyOptions options;
  options.sizes = sizes;
  return verify(program, options);
}

AnalyzedProgram as_jaxpp(int microbatches, int delay) {
  LoweringOptions options = keeping(delay, IssueOrder::jaxpp);
  options.communicators = CommunicatorPolicy::per_pair;
  return AnalyzedProgram(lowered_with("1f1b", 4, microbatches, options), {});
}

/// Of rank 1, in a run in which B takes twice as long as F and transfers take no time.
Bytes peak_of_run(int microbatches, int delay) {
  const AnalyzedProgram analyzed = as_jaxpp(microbatches, delay);
  const auto run = simulate_program(analyzed.program(), {}, cost_table({.forward = 1, .backward = 2}));
  const TensorTable& table = analyzed.tensors();
  const std::vector<Bytes> sizes = tensor_sizes(table, two_small_layers());
  return replay_memory(analyzed.program(), run->value(), table, sizes)[RankId(1)].peak_bytes;
}

TEST(KeptSends, GrowAsInJaxpp) {
  // The bytes of JaxPP's loop on rank 1 of 4, by default and with JAXPP_TRANSFER_DONE_DELAY=0.
  EXPECT_EQ(peak_of_run(4, kUntilStepEnd), 4736);
  EXPECT_EQ(peak_of_run(8, kUntilStepEnd), 5760);
  EXPECT_EQ(peak_of_run(16, kUntilStepEnd), 7808);
  for (const int m : {4, 8, 16}) EXPECT_EQ(peak_of_run(m, 0), 4224) << m;
}

TEST(KeptSends, GrowAlikeInTheWorstCase) {
  const auto worst = [](int microbatches) {
    return report_of(as_jaxpp(microbatches, kUntilStepEnd).program(), two_small_layers()).memory.at(1).bytes;
  };
  EXPECT_GE(worst(8), 5760);
  EXPECT_EQ(worst(16) - worst(8), 8 * 2 * 128);
}

TEST(KeptSends, WorstCaseIsTheMaximumOverAllStates) {
  SizeTable sizes = activation_size_table(10);
  sizes.set({.kind = TensorKind::boundary_output}, 3);
  sizes.set({.kind = TensorKind::outgoing_gradient}, 2);
  sizes.set({.kind = TensorKind::incoming_gradient}, 1);
  for (const char* name : {"gpipe", "1f1b", "eager-1f1b", "zb-h1"}) {
    for (const int delay : {0, 1, 2, kUntilStepEnd}) {
      SCOPED_TRACE(std::string(name) + " " + send_done_delay_text(delay));
      const AnalyzedProgram analyzed(lowered_with(name, 2, 3, keeping(delay)), {});
      const auto expected = max_memory_of_all_states(analyzed.program(), analyzed.guaranteed_graph(),
                                                     tensor_sizes(analyzed.tensors(), sizes), 200'000);
      ASSERT_TRUE(expected.has_value());
      const VerifyReport report = report_of(analyzed.program(), sizes);
      for (std::size_t r = 0; r < 2; ++r) EXPECT_EQ(report.memory[r].bytes, (*expected)[r]);
    }
  }
}

TEST(KeptSends, NeedNoLessThanThoseThatAreFreedSooner) {
  const SizeTable sizes = two_small_layers();
  Bytes before = 0;
  for (const int delay : {0, 1, 2, 5, kUntilStepEnd}) {
    const AnalyzedProgram analyzed(lowered_with("1f1b", 3, 8, keeping(delay)), {});
    const Bytes worst = report_of(analyzed.program(), sizes).memory.at(1).bytes;
    EXPECT_GE(worst, before) << delay;
    EXPECT_GE(plan_slots(analyzed, tensor_sizes(analyzed.tensors(), sizes)).pool_bytes[RankId(1)], worst);
    before = worst;
  }
}

/// A certificate of a Program and its sizes.
Certificate certificate_of(const Program& program, const SizeTable& sizes) {
  VerifyOptions options;
  options.sizes = sizes;
  const AnalyzedProgram analyzed(program, options.capabilities);
  return make_certificate(analyzed, options, verify(analyzed, options)).value();
}

TEST(KeptSends, AreInTheBoundsOfCertificates) {
  const SizeTable sizes = two_small_layers();
  const Program kept = lowered_with("1f1b", 4, 8, keeping(kUntilStepEnd));
  const Program freed = lowered_with("1f1b", 4, 8, keeping(0));
  const Certificate honest = certificate_of(kept, sizes);
  EXPECT_TRUE(check_certificate(honest, kept, &sizes).has_value());
  // A bound of the Program that frees them, claimed of the one that keeps them.
  Certificate claimed = certificate_of(freed, sizes);
  EXPECT_FALSE(check_certificate(claimed, kept, &sizes).has_value());
  claimed.program_hash = program_hash(kept);
  EXPECT_FALSE(check_certificate(claimed, kept, &sizes).has_value());
  // One byte less than the bound.
  Certificate lower_bound = honest;
  --lower_bound.memory[1].bytes;
  EXPECT_FALSE(check_certificate(lower_bound, kept, &sizes).has_value());
}

TEST(KeptSends, GrowByALineInTheNumberOfMicrobatches) {
  AllMicrobatchesOptions options;
  options.sizes = two_small_layers();
  options.properties = {Property::memory};
  options.repetitions = repetitions_of("1f1b", {.ranks = 3});
  for (const int delay : {0, 1, 3, kUntilStepEnd}) {
    SCOPED_TRACE(send_done_delay_text(delay));
    const ProgramFor programs = programs_of("1f1b", {.ranks = 3}, keeping(delay));
    const AllMicrobatchesReport report = verify_all_microbatches(programs, options).value();
    ASSERT_TRUE(report.proved(Property::memory));
    ASSERT_EQ(report.memory.size(), 3U);
    // The first stage's inputs are there from the start: each that goes lets an output stay.
    const std::array<Bytes, 3> growth =
        delay == kUntilStepEnd ? std::array<Bytes, 3>{128, 256, 128} : std::array<Bytes, 3>{128, 0, 0};
    for (std::size_t r = 0; r < 3; ++r) EXPECT_EQ(report.memory[r].bytes.per_period, growth[r]) << r;
    for (const int m : {1, 4, 9, 14}) {
      const VerifyReport at = report_of(programs(m).value(), options.sizes.value());
      for (std::size_t r = 0; r < 3; ++r) {
        const Bytes bound = report.memory[r].bytes.at(m / report.memory[r].period);
        EXPECT_LE(at.memory[r].bytes, bound) << m << " " << r;
        if (m > 8) {
          EXPECT_EQ(at.memory[r].bytes, bound) << m << " " << r;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ppsim::test
