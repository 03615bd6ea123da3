#include <gtest/gtest.h>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "support/linear_model.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

Certificate certify(const Program& program, const TransportCapabilities& capabilities) {
  return {.program_hash = program_hash(program),
          .capabilities_hash = capabilities_hash(capabilities),
          .capabilities = capabilities,
          .properties = {"well_formed", "matched", "deadlock_free", "tensor_use"},
          .order = run_order(build_execution_graph(program, capabilities)).items};
}

TransportCapabilities credits(int n) {
  TransportCapabilities capabilities;
  capabilities.credits = n;
  return capabilities;
}

/// "ran", or why not.
std::string attempt(const Program& program, const Certificate* certificate,
                    const TransportCapabilities& capabilities = rendezvous()) {
  RunOptions options;
  options.certificate = certificate;
  options.capabilities = capabilities;
  const auto result = execute(program, NullModel(), options);
  if (result) return "ran";
  return std::string(error_code_name(result.error().code)) + ": " + result.error().message;
}

TEST(ExecutorAdmission, AProgramWithoutCertificateIsRefused) {
  EXPECT_EQ(attempt(two_rank_step(), nullptr),
            "refused: the program has no certificate; verify it with these sizes and this transport, or run "
            "it unverified");
}

TEST(ExecutorAdmission, ACertifiedProgramRuns) {
  const Program program = two_rank_step();
  const Certificate certificate = certify(program, rendezvous());
  EXPECT_EQ(attempt(program, &certificate), "ran");
}

TEST(ExecutorAdmission, ACertificateCoversAllThatARunReliesOn) {
  const Program program = two_rank_step();
  for (const std::string_view left_out : {"well_formed", "matched", "deadlock_free", "tensor_use"}) {
    Certificate certificate = certify(program, rendezvous());
    std::erase(certificate.properties, left_out);
    const std::string why = "refused: the certificate does not cover " + std::string(left_out);
    EXPECT_EQ(attempt(program, &certificate).rfind(why, 0), 0U);
  }
}

TEST(ExecutorAdmission, ACertificateOfAnotherProgramIsRefused) {
  const Certificate certificate = certify(deferred_receives(true), rendezvous());
  EXPECT_EQ(attempt(two_rank_step(), &certificate).rfind("refused: the certificate is of another program", 0),
            0U);
  RunOptions options;
  options.certificate = &certificate;
  options.certificate_file = "c.json";
  const auto result = execute(two_rank_step(), LinearModel(), options);
  ASSERT_FALSE(result);
  const ErrorPlace expected{
      .file = "c.json", .found = certificate.program_hash, .expected = program_hash(two_rank_step())};
  EXPECT_EQ(result.error().place, expected);
}

TEST(ExecutorAdmission, SafetyUnderRendezvousCoversCreditsAndNotTheOtherWayRound) {
  const Program program = two_rank_step();
  const Certificate strict = certify(program, rendezvous());
  EXPECT_EQ(attempt(program, &strict, credits(2)), "ran");
  const Certificate buffered = certify(program, credits(2));
  EXPECT_EQ(attempt(program, &buffered, credits(2)), "ran");
  EXPECT_EQ(attempt(program, &buffered).rfind("refused: the certificate is for another transport", 0), 0U);
  EXPECT_EQ(
      attempt(program, &buffered, credits(1)).rfind("refused: the certificate is for another transport", 0),
      0U);
}

TEST(ExecutorAdmission, AMemoryBoundIsForItsSizes) {
  const Program program = two_rank_step();
  const SizeTable sizes = NullModel().sizes(program.pipeline());
  Certificate certificate = certify(program, rendezvous());
  const TensorTable table = tensor_table(program);
  const std::vector<Bytes> tensors = tensor_sizes(table, sizes);
  for (int r = 0; r < program.pipeline().ranks(); ++r) {
    MemoryWitness witness{.rank = RankId(r)};
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (table.tensors[t].rank == RankId(r)) witness.bytes += tensors[t];
    }
    certificate.memory.push_back(witness);
  }
  certificate.properties.emplace_back("memory");
  certificate.sizes_hash = sizes_hash(sizes);
  EXPECT_EQ(attempt(program, &certificate), "ran");
  EXPECT_EQ(attempt(program, &certificate, credits(1)), "ran");  // nothing is shared, in whatever timing
  certificate.sizes_hash = sizes_hash(SizeTable());
  EXPECT_EQ(attempt(program, &certificate).rfind("refused: the certificate bounds the memory of other", 0),
            0U);
}

TEST(ExecutorAdmission, TheClaimsOfACertificateAreChecked) {
  const Program program = deferred_receives(false);
  const Certificate certificate = certify(program, rendezvous());  // its order stops at the deadlock
  EXPECT_EQ(attempt(program, &certificate).rfind("refused: ", 0), 0U);
}

TEST(ExecutorAdmission, OptionsOutsideTheirDomainAreBadArguments) {
  const Program program = two_rank_step();
  const auto code_of = [&](auto change) {
    RunOptions options = unverified();
    change(options);
    const auto result = execute(program, NullModel(), options);
    return result ? std::string("ran") : std::string(error_code_name(result.error().code));
  };
  EXPECT_EQ(code_of([](RunOptions&) {}), "ran");
  EXPECT_EQ(code_of([](RunOptions& o) { o.steps = 0; }), "bad_argument");
  EXPECT_EQ(code_of([](RunOptions& o) { o.deadline_s = -1; }), "bad_argument");
  EXPECT_EQ(code_of([](RunOptions& o) { o.clip_norm = 0; }), "bad_argument");
  EXPECT_EQ(code_of([](RunOptions& o) { o.capabilities.credits = 0; }), "bad_argument");
  EXPECT_EQ(code_of([](RunOptions& o) { o.capabilities.residency = 2; }), "bad_argument");
  EXPECT_EQ(code_of([](RunOptions& o) { o.capabilities.captures_graphs = true; }), "bad_argument");
}

}  // namespace
}  // namespace ppsim::test
