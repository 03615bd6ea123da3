// tensor_use: what the facts of an action do not order, yet its tensors need. Every Program here that is
// refuted has all other properties.

#include <gtest/gtest.h>

#include "ppsim/core/certificate/certificate.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/hand_program.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

using Lines = std::vector<std::string>;

/// The misuses that tensor_use reports, where the other properties hold.
Lines misuses(const Program& program) {
  Lines lines;
  for (const PropertyResult& result : verify(program).results) {
    const auto* refuted = std::get_if<Refuted>(&result.verdict);
    if (refuted == nullptr) continue;
    EXPECT_EQ(result.property, Property::tensor_use);
    lines = explain(program, refuted->counterexample);
  }
  return lines;
}

TEST(TensorUse, ActivationsThatARecomputationMakesCannotBeOffloaded) {
  HandProgram p{chain_spec(1, 1, 1)};
  p.rows = {{"0F0", "0OFFLOAD0", "0RELOAD0", "0R0", "0B0"}};
  EXPECT_EQ(
      misuses(p.build()),
      (Lines{"rank 0: 0OFFLOAD0 uses saved_for_input of stage 0, microbatch 0, which nothing has written "
             "by then",
             "rank 0: 0OFFLOAD0 uses saved_for_weight of stage 0, microbatch 0, which nothing has written "
             "by then"}));
  p.rows = {{"0F0", "0OFFLOAD0", "0RELOAD0", "0B0"}};
  EXPECT_EQ(misuses(p.build()), Lines{});
}

/// Stage 2 reads outputs of stages 0 and 1, and stage 3 that of stage 1, which comes once, with the input of
/// stage 2: it may start before the other part has come.
TEST(TensorUse, AStageThatReadsOnePartOfItsSiblingsInputWaitsForThatPartAlone) {
  const char* text = R"({"format": "ppsim-schedule", "version": 1, "pipeline": {"ranks": 2, "stages": 4,
    "microbatches": 1, "placement": [1, 1, 0, 0], "edges": [[0, 2], [1, 2], [1, 3]]},
    "rows": [["3F0", "2F0", "2B0", "3B0"], ["1F0", "0F0", "0B0", "1B0"]]})";
  const Program program = lower(std::get<Schedule>(ir_from_json(text, "file").value()), {}).value();
  EXPECT_EQ(misuses(program), Lines{});
  const VerifyOptions options;
  const auto certificate = make_certificate({program, options.capabilities}, options, verify(program));
  ASSERT_TRUE(certificate) << to_string(certificate.error());
  EXPECT_TRUE(check_certificate(*certificate, program, nullptr));
}

/// Rank 0 lends its only activations to rank 1, with something before and behind.
Program lent(Lines before, Lines behind) {
  HandProgram p{chain_spec(2, 2, 1), communicators({{0, 1}, {0, 1}, {0, 1}, {0, 1}})};
  Lines first = {"0F0", "0SEND_F0@0"};
  first.insert(first.end(), before.begin(), before.end());
  for (const char* text : {"0SEND_A0>1@2", "0RECV_A0<1@3"}) first.emplace_back(text);
  first.insert(first.end(), behind.begin(), behind.end());
  for (const char* text : {"0RECV_B0@1", "0B0"}) first.emplace_back(text);
  p.rows = {first, {"1RECV_F0@0", "1F0", "0RECV_A0<0@2", "0SEND_A0>0@3", "1B0", "1SEND_B0@1"}};
  return p.build();
}

TEST(TensorUse, WhatIsFreedIsNotLent) {
  EXPECT_EQ(misuses(lent({}, {})), Lines{});
  EXPECT_EQ(
      misuses(lent({"0OFFLOAD0"}, {"0RELOAD0"})),
      (Lines{
          "rank 0: 0SEND_A0>1 can use saved_for_input of stage 0, microbatch 0 after 0OFFLOAD0 has freed it",
          "rank 0: 0SEND_A0>1 can use saved_for_weight of stage 0, microbatch 0 after 0OFFLOAD0 has freed "
          "it"}));
}

TEST(TensorUse, WhatIsLentIsNotRecomputed) {
  EXPECT_EQ(misuses(lent({}, {"0R0"})).front(),
            "rank 0: 0SEND_A0>1 uses saved_for_input of stage 0, microbatch 0, which nothing has written by "
            "then");
}

TEST(TensorUse, ParametersInUseAreNotGatheredAgain) {
  HandProgram p{chain_spec(1, 1, 1), communicators({{0}})};
  p.rows = {{"0UNSHARD@0", "0F0", "0UNSHARD@0", "0B0", "0RESHARD"}};
  EXPECT_EQ(misuses(p.build()),
            Lines{"rank 0: 0F0 can use gathered_parameters of stage 0 before 0UNSHARD has completed it"});
  p.rows = {{"0UNSHARD@0", "0F0", "0RESHARD", "0UNSHARD@0", "0B0", "0RESHARD"}};
  EXPECT_EQ(misuses(p.build()), Lines{});
}

TEST(TensorUse, HoldsOfWhatLoweringAdds) {
  const auto schedule = generate("interleaved-1f1b", {.ranks = 2, .microbatches = 4, .chunks = 2});
  LoweringOptions options{
      .load = true, .unshard = true, .reduce_grad = true, .optimizer = true, .clip = true};
  options.offload.percent = 50;
  EXPECT_EQ(misuses(*lower(*schedule, options)), Lines{});
}

TEST(TensorUse, IsUnknownWhereTheProgramHangs) {
  VerifyOptions options;
  options.properties = {Property::tensor_use};
  EXPECT_EQ(std::get<Unknown>(verify(deferred_receives(false), options).results.at(0).verdict).reason,
            "the Program deadlocks, which deadlock_free shows");
}

TEST(TensorUse, CertificatesRestOnItWhereItWasAsked) {
  const Program program = lent({"0OFFLOAD0"}, {"0RELOAD0"});
  EXPECT_EQ(make_certificate({program, rendezvous()}, {}, verify(program)).error().message,
            "tensor_use is not proved");
}

}  // namespace
}  // namespace ppsim::test
