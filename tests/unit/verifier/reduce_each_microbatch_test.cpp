// The memory and time of a sum of tied weights' gradients for every microbatch, compared with one sum after
// all of them.

#include <gtest/gtest.h>

#include <algorithm>

#include "ppsim/core/certificate/certificate.hpp"
#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/core/ir/tied_ends.hpp"
#include "ppsim/simulator/engine/simulate.hpp"
#include "ppsim/verifier/parameterized/all_microbatches.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/closed_forms.hpp"
#include "support/generated.hpp"

namespace ppsim::test {
namespace {

Program tied(const std::string& name, int ranks, int microbatches, bool each) {
  const Schedule schedule =
      with_tied_ends(generated(name, {.ranks = ranks, .microbatches = microbatches})).value();
  return lower(schedule, {.reduce_grad = true, .reduce_each_microbatch = each, .optimizer = true}).value();
}

/// Nothing but the gradients of the weights that the first and the last stage share.
SizeTable shared_gradients(const Program& program) {
  SizeTable sizes;
  sizes.set({TensorKind::gradients, program.pipeline().blocks() - 1}, 1);
  return sizes;
}

Bytes peak_of_last_rank(const Program& program) {
  const AnalyzedProgram analyzed(program, {});
  const auto run =
      simulate_program(program, {}, cost_table({.forward = kUnitTime, .backward = 2 * kUnitTime}));
  const std::vector<Bytes> sizes = tensor_sizes(analyzed.tensors(), shared_gradients(program));
  return replay_memory(program, run->value(), analyzed.tensors(), sizes).items().back().peak_bytes;
}

Bytes worst_of_last_rank(const Program& program) {
  VerifyOptions options;
  options.sizes = shared_gradients(program);
  return verify(program, options).memory.back().bytes;
}

// The last rank is done with B of a microbatch 2 (p - 1) units before the first one, if B takes two. Until
// then its part waits for the sum: from the start of its B that is 2 p units, and a B starts every three. One
// that starts when a sum is due finds its part still there. The sums are one more.
TEST(ReduceEachMicrobatch, PartsOfTheLastRankWaitForTheFirst) {
  for (const int ranks : {2, 3, 4, 6, 8}) {
    for (const int microbatches : {1, ranks, 3 * ranks}) {
      const Bytes waiting = std::min(microbatches, 2 * ranks / 3 + 1);
      EXPECT_EQ(peak_of_last_rank(tied("1f1b", ranks, microbatches, true)), waiting + 1)
          << ranks << ' ' << microbatches;
      EXPECT_EQ(peak_of_last_rank(tied("1f1b", ranks, microbatches, false)), 1);
    }
  }
}

// Nothing but the update waits for a sum: in some timing no sum is complete before the last B.
TEST(ReduceEachMicrobatch, AtWorstThereIsAPartForEveryMicrobatch) {
  for (const int ranks : {2, 3, 4}) {
    EXPECT_EQ(worst_of_last_rank(tied("1f1b", ranks, 3 * ranks, true)), 3 * ranks + 1);
    EXPECT_EQ(worst_of_last_rank(tied("1f1b", ranks, 3 * ranks, false)), 1);
  }
}

// One sum after the loop takes its time once. A sum for every microbatch takes it that often: beside
// computation while it is shorter than a microbatch; a longer one decides the step.
TEST(ReduceEachMicrobatch, CostsTheTimeOfASumForEachMicrobatch) {
  constexpr int kRanks = 4;
  constexpr int kMicrobatches = 12;
  const auto step = [&](bool each, Nanoseconds sum) {
    const Program program = tied("1f1b", kRanks, kMicrobatches, each);
    CostTable costs = cost_table({.forward = kUnitTime, .backward = 2 * kUnitTime});
    costs.set({OpKind::reduce_grad, kRanks}, sum * kUnitTime);
    const TimedTrace trace = simulate_program(program, {}, costs)->value();
    Nanoseconds end = 0;
    for (const Span& span : trace.spans) end = std::max(end, span.end.time);
    return end / kUnitTime;
  };
  const Nanoseconds pipeline = 3 * (kMicrobatches + kRanks - 1);
  EXPECT_EQ(step(false, 0), pipeline);
  EXPECT_EQ(step(true, 0), pipeline);
  EXPECT_EQ(step(false, 2), pipeline + 2);
  EXPECT_EQ(step(true, 2), pipeline + 2);
  EXPECT_EQ(step(false, 9), pipeline + 9);
  // The first sum begins when rank 0 is done with its first B.
  EXPECT_EQ(step(true, 9), 3 * kRanks + kMicrobatches * 9);
}

TEST(ReduceEachMicrobatch, IsProvedAndItsCertificateHolds) {
  for (const std::string name : {"gpipe", "1f1b", "zb-h1", "interleaved-1f1b", "looped-bfs"}) {
    const Program program = tied(name, 2, 4, true);
    const SizeTable sizes = shared_gradients(program);
    const VerifyOptions options{.sizes = sizes};
    const AnalyzedProgram analyzed(program, options.capabilities);
    const VerifyReport report = verify(analyzed, options);
    EXPECT_TRUE(report.all_proved()) << name;
    const Certificate certificate = make_certificate(analyzed, options, report).value();
    EXPECT_TRUE(check_certificate(certificate, program, &sizes).has_value()) << name;
    EXPECT_FALSE(check_certificate(certificate, tied(name, 2, 4, false), &sizes).has_value()) << name;
  }
}

/// The Program without one REDUCE_GRAD of the shared weights.
Program without_sum(const Program& program, int microbatch) {
  const Action sum = make_action(OpKind::reduce_grad, program.pipeline().blocks() - 1, microbatch);
  ProgramDraft draft = to_draft(program);
  for (auto& row : draft.rows) {
    std::erase_if(row, [&](const InstructionDraft& one) { return one.actions.front() == sum; });
    for (InstructionDraft& one : row) one.after.clear();
  }
  return ProgramBuilder::build(program.pipeline(), draft).value();
}

TEST(ReduceEachMicrobatch, AMissingSumIsRefuted) {
  const Program program = without_sum(tied("1f1b", 2, 3, true), 1);
  const VerifyReport report = verify(program, {});
  EXPECT_FALSE(report.proved(Property::well_formed));
  EXPECT_FALSE(report.proved(Property::deadlock_free));
  VerifyOptions versions;
  versions.properties = {Property::weight_versions};
  EXPECT_FALSE(verify(program, versions).proved(Property::weight_versions));
}

}  // namespace
}  // namespace ppsim::test
