#include "ppsim/core/certificate/certificate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "support/hand_program.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

Certificate deadlock_certificate(const Program& program, const TransportCapabilities& capabilities) {
  return {.program_hash = program_hash(program),
          .capabilities_hash = capabilities_hash(capabilities),
          .capabilities = capabilities,
          .properties = {"well_formed", "matched", "deadlock_free"},
          .order = run_order(build_execution_graph(program, capabilities)).items};
}

/// Empty when the certificate holds, else why not.
std::string why_not(const Certificate& certificate, const Program& program,
                    const SizeTable* sizes = nullptr) {
  const auto checked = check_certificate(certificate, program, sizes);
  if (checked) return "";
  EXPECT_EQ(checked.error().code, ErrorCode::refused);
  return checked.error().message;
}

constexpr std::uint32_t start(std::uint32_t instruction) { return 2 * instruction; }
constexpr std::uint32_t end(std::uint32_t instruction) { return 2 * instruction + 1; }

/// 0: 0F0, 1: 0SEND_F0, 2: 0RECV_B0, 3: 0B0, 4: 1RECV_F0, 5: 1F0, 6: 1B0, 7: 1SEND_B0.
class TwoRanks : public testing::Test {
 protected:
  std::string with_order(std::vector<std::uint32_t> order,
                         TransportCapabilities capabilities = rendezvous()) {
    Certificate certificate = deadlock_certificate(program_, capabilities);
    certificate.order = std::move(order);
    return why_not(certificate, program_);
  }

  const Program program_ = two_rank_step();
  const std::vector<std::uint32_t> order_ = {start(0), end(0), start(4), start(2), start(1), end(4),
                                             start(5), end(1), end(5),   start(6), end(6),   start(7),
                                             end(7),   end(2), start(3), end(3)};
};

TEST_F(TwoRanks, ACertificateHolds) {
  EXPECT_EQ(why_not(deadlock_certificate(program_, rendezvous()), program_), "");
  EXPECT_EQ(why_not(deadlock_certificate(program_, {.credits = 1}), program_), "");
  EXPECT_EQ(with_order(order_), "");
}

TEST_F(TwoRanks, OfAnotherProgramItIsRefused) {
  const Certificate certificate = deadlock_certificate(deferred_receives(true), rendezvous());
  EXPECT_EQ(why_not(certificate, program_).find("certificate: it is about program "), 0U);
}

TEST_F(TwoRanks, OfOtherCapabilitiesItIsRefused) {
  Certificate certificate = deadlock_certificate(program_, rendezvous());
  certificate.capabilities.credits = 2;
  EXPECT_EQ(why_not(certificate, program_).find("certificate: it is about capabilities "), 0U);
}

TEST_F(TwoRanks, CapabilitiesWithoutMeaningAreRefused) {
  EXPECT_EQ(why_not(deadlock_certificate(program_, {.credits = 0}), program_),
            "certificate: credits are at least 1");
  EXPECT_EQ(why_not(deadlock_certificate(program_, {.residency = 0}), program_),
            "certificate: a residency limit is at least 1");
}

TEST_F(TwoRanks, AResidencyLimitThatMayBindIsRefused) {
  EXPECT_EQ(why_not(deadlock_certificate(program_, {.residency = 2}), program_), "");
  EXPECT_EQ(why_not(deadlock_certificate(program_, {.residency = 1}), program_),
            "certificate: rank 0 has 2 communication queues and 1 operations may be in flight: a run order "
            "proves nothing under such a limit");
}

TEST_F(TwoRanks, WhatIsClaimedIsNamedOnce) {
  const auto with = [&](std::vector<std::string> properties) {
    Certificate certificate = deadlock_certificate(program_, rendezvous());
    certificate.properties = std::move(properties);
    return why_not(certificate, program_);
  };
  EXPECT_EQ(with({"deadlock_free", "well_formed", "tensor_use", "matched"}), "");
  EXPECT_EQ(with({}), "certificate: it does not claim well_formed");
  EXPECT_EQ(with({"well_formed", "matched"}), "certificate: it does not claim deadlock_free");
  EXPECT_EQ(with({"well_formed", "matched", "deadlock_free", "makespan"}),
            "certificate: it claims makespan, which no certificate can be about");
  EXPECT_EQ(with({"well_formed", "matched", "deadlock_free", "matched"}),
            "certificate: it claims matched twice");
  EXPECT_EQ(with({"well_formed", "matched", "deadlock_free", "memory"}),
            "certificate: it claims memory but bounds none");
}

TEST_F(TwoRanks, AnOrderOfAnotherLengthIsRefused) {
  std::vector<std::uint32_t> shorter = order_;
  shorter.pop_back();
  EXPECT_EQ(with_order(shorter),
            "certificate: the order has 15 items, expected a start and a completion of each "
            "of 8 instructions");
  std::vector<std::uint32_t> outside = order_;
  outside.back() = 16;
  EXPECT_EQ(with_order(outside), "certificate: the order names instruction 8, which is not there");
}

TEST_F(TwoRanks, EveryItemIsThereOnce) {
  std::vector<std::uint32_t> order = order_;
  order[1] = start(0);
  EXPECT_EQ(with_order(order), "certificate: rank 0: 0F0 starts twice");
  order = order_;
  order[2] = end(0);
  EXPECT_EQ(with_order(order), "certificate: rank 0: 0F0 completes twice");
}

TEST_F(TwoRanks, StartsComeBeforeCompletions) {
  std::vector<std::uint32_t> order = order_;
  std::swap(order[0], order[1]);
  EXPECT_EQ(with_order(order), "certificate: rank 0: 0F0 completes before it starts");
}

TEST_F(TwoRanks, WhatAnInstructionWaitsForIsComplete) {
  std::vector<std::uint32_t> order = order_;
  std::rotate(order.begin() + 1, order.begin() + 4, order.begin() + 5);
  EXPECT_EQ(with_order(order), "certificate: rank 0: 0SEND_F0 starts before rank 0: 0F0 is complete");
}

TEST_F(TwoRanks, BothEndsOfARendezvousStartFirst) {
  std::vector<std::uint32_t> order = order_;
  std::swap(order[4], order[5]);
  EXPECT_EQ(with_order(order),
            "certificate: rank 1: 1RECV_F0 completes before its transfer with rank 0: 0SEND_F0 can");
  EXPECT_NE(with_order(order, {.credits = 1}), "");
  // With credits a SEND need not wait for its RECV.
  const std::vector<std::uint32_t> eager = {start(0), end(0), start(1), end(1), start(4), end(4),
                                            start(5), end(5), start(6), end(6), start(7), end(7),
                                            start(2), end(2), start(3), end(3)};
  EXPECT_EQ(with_order(eager, {.credits = 1}), "");
  EXPECT_EQ(with_order(eager),
            "certificate: rank 0: 0SEND_F0 completes before its transfer with rank 1: 1RECV_F0 can");
}

TEST(Certificate, CreditsAreFreedByReceipts) {
  const Program program = HandProgram{
      .pipeline = chain_spec(2, 2, 2),
      .communicators = communicators({{0, 1}, {0, 1}}),
      .rows = {
          {"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "0RECV_B0@1", "0B0", "0RECV_B1@1", "0B1"},
          {"1RECV_F0@0", "1F0", "1RECV_F1@0", "1F1", "1B0", "1SEND_B0@1", "1B1",
           "1SEND_B1@1"}}}.build();
  Certificate certificate = deadlock_certificate(program, {.credits = 1});
  EXPECT_EQ(why_not(certificate, program), "");
  // Both messages are out before the first is received.
  std::vector<std::uint32_t> order = {start(0), end(0), start(1), end(1), start(2), end(2), start(3), end(3)};
  for (const std::uint32_t item : certificate.order) {
    if (std::find(order.begin(), order.end(), item) == order.end()) order.push_back(item);
  }
  certificate.order = order;
  EXPECT_EQ(why_not(certificate, program),
            "certificate: rank 0: 0SEND_F1 completes before its transfer with rank 1: 1RECV_F1 can");
  certificate.capabilities.credits = 2;
  certificate.capabilities_hash = capabilities_hash(certificate.capabilities);
  EXPECT_EQ(why_not(certificate, program), "");
}

TEST(Certificate, MembersOfACollectiveStartFirst) {
  HandProgram hand{.pipeline = chain_spec(2, 2, 1),
                   .communicators = communicators({{0, 1}, {0, 1}, {0, 1}}),
                   .rows = {{"0F0", "0SEND_F0@0", "0RECV_B0@1", "0B0", "0COLL@2"},
                            {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1", "0COLL@2"}}};
  hand.pipeline.collectives = {Collective{"barrier", {RankId(0), RankId(1)}}};
  const Program program = hand.build();
  Certificate certificate = deadlock_certificate(program, rendezvous());
  EXPECT_EQ(why_not(certificate, program), "");
  std::vector<std::uint32_t> order = {start(4), end(4)};
  for (const std::uint32_t item : certificate.order) {
    if (item / 2 != 4) order.push_back(item);
  }
  certificate.order = order;
  EXPECT_EQ(why_not(certificate, program),
            "certificate: rank 0: 0COLL completes before rank 1: 0COLL starts");
}

TEST(Certificate, WhatDeadlocksHasNone) {
  const Program program = deferred_receives(false);
  Certificate certificate = deadlock_certificate(program, rendezvous());
  EXPECT_NE(why_not(certificate, program), "");
  // Starts in list order, then completions: nothing there, but the waits do not hold.
  certificate.order.clear();
  for (std::uint32_t i = 0; i < program.size(); ++i) certificate.order.push_back(start(i));
  for (std::uint32_t i = 0; i < program.size(); ++i) certificate.order.push_back(end(i));
  EXPECT_EQ(why_not(certificate, program),
            "certificate: rank 0: 0SEND_F0 starts before rank 0: 0F0 is complete");
}

TEST(Certificate, IllFormedAndMismatchedProgramsHaveNone) {
  const auto refused = [](const HandProgram& hand) {
    const Program program = hand.build();
    Certificate certificate = deadlock_certificate(program, rendezvous());
    return why_not(certificate, program);
  };
  HandProgram hand{.pipeline = chain_spec(1, 1, 1), .rows = {{"0F0", "0B0", "0B0"}}};
  EXPECT_NE(refused(hand), "");
  hand.rows = {{"0F0", "0B0"}};
  EXPECT_EQ(refused(hand), "");
  HandProgram crossed{
      .pipeline = chain_spec(2, 2, 2),
      .communicators = communicators({{0, 1}}),
      .rows = {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0"}, {"1RECV_F1@0", "1F1", "1RECV_F0@0", "1F0"}}};
  EXPECT_NE(refused(crossed), "");
}

/// Why a certificate that claims a property beyond those of every certificate does not hold.
std::string claimed(const char* property, const Program& program) {
  Certificate certificate = deadlock_certificate(program, rendezvous());
  EXPECT_EQ(why_not(certificate, program), "");
  certificate.properties.emplace_back(property);
  return why_not(certificate, program);
}

TEST(CertificateClaims, OfOneOrderOfCollectives) {
  HandProgram p{chain_spec(2, 2, 1), communicators({{0, 1}, {0, 1}, {0, 1}, {0, 1}})};
  p.pipeline.collectives = {Collective{"a", {RankId(0), RankId(1)}}, Collective{"b", {RankId(0), RankId(1)}}};
  p.rows = {{"0F0", "0SEND_F0@0", "0RECV_B0@1", "0B0", "0COLL@2", "1COLL@3"},
            {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1", "0COLL@2", "1COLL@3"}};
  EXPECT_EQ(claimed("collective_order", p.build()), "");
  std::swap(p.rows[1][4], p.rows[1][5]);  // no hang: each communicator has a queue of its own
  EXPECT_EQ(claimed("collective_order", p.build()),
            "certificate: 2 collectives have no place in a common order");
}

TEST(CertificateClaims, OfAscendingAccumulation) {
  HandProgram p{chain_spec(1, 2, 2)};
  p.pipeline.placement = {RankId(0), RankId(0)};
  p.rows = {{"0F0", "1F0", "0F1", "1F1", "1B0", "1B1", "0B0", "0B1"}};
  EXPECT_EQ(claimed("ascending_accumulation", p.build()), "");
  std::swap(p.rows[0][6], p.rows[0][7]);
  EXPECT_EQ(claimed("ascending_accumulation", p.build()),
            "certificate: rank 0: 0B0 is not in ascending order");
}

TEST(CertificateClaims, OfVersionsOfWeights) {
  HandProgram p{chain_spec(2, 2, 1), communicators({{0, 1}, {0, 1}, {0, 1}})};
  p.pipeline.blocks = {ParameterBlock{{StageId(0), StageId(1)}}};
  p.rows = {{"0F0", "0SEND_F0@0", "0RECV_B0@1", "0B0", "0REDUCE_GRAD0@2", "0OPT0"},
            {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1", "0REDUCE_GRAD0@2", "0OPT0"}};
  EXPECT_EQ(claimed("weight_versions", p.build()), "");
  for (std::vector<std::string>& row : p.rows) row.erase(row.end() - 2);
  EXPECT_EQ(claimed("weight_versions", p.build()),
            "certificate: rank 0: 0OPT0 updates a copy of a block without the sum of all gradients");
}

/// Rank 0 lends its only activations to rank 1, with something before and behind.
Program lent(const std::vector<std::string>& before, const std::vector<std::string>& behind) {
  HandProgram p{chain_spec(2, 2, 1), communicators({{0, 1}, {0, 1}, {0, 1}, {0, 1}})};
  std::vector<std::string> row = {"0F0", "0SEND_F0@0"};
  row.insert(row.end(), before.begin(), before.end());
  row.insert(row.end(), {"0SEND_A0>1@2", "0RECV_A0<1@3"});
  row.insert(row.end(), behind.begin(), behind.end());
  row.insert(row.end(), {"0RECV_B0@1", "0B0"});
  p.rows = {row, {"1RECV_F0@0", "1F0", "0RECV_A0<0@2", "0SEND_A0>0@3", "1B0", "1SEND_B0@1"}};
  return p.build();
}

TEST(CertificateClaims, OfTheUseOfTensors) {
  EXPECT_EQ(claimed("tensor_use", lent({}, {})), "");
  EXPECT_EQ(claimed("tensor_use", lent({"0OFFLOAD0"}, {"0RELOAD0"})),
            "certificate: rank 0: saved_for_input subject 0 slice 0 of microbatch 0 may be used after it is "
            "freed");
  EXPECT_EQ(claimed("tensor_use", lent({}, {"0R0"})),
            "certificate: rank 0: 0SEND_A0>1 reads what nothing has written");
  HandProgram p{chain_spec(1, 1, 1), communicators({{0}})};
  p.rows = {{"0UNSHARD@0", "0F0", "0UNSHARD@0", "0B0", "0RESHARD"}};
  EXPECT_EQ(claimed("tensor_use", p.build()),
            "certificate: rank 0: gathered_parameters subject 0 may be used before it is complete");
}

/// Three microbatches in turn on one rank; activations only.
class MemoryWitnesses : public testing::Test {
 protected:
  MemoryWitnesses() {
    sizes_.set({.kind = TensorKind::saved_for_weight}, 5);
    certificate_ = deadlock_certificate(program_, rendezvous());
    certificate_.sizes_hash = sizes_hash(sizes_);
    certificate_.properties.emplace_back("memory");
    const TensorTable table = tensor_table(program_);
    for (std::uint32_t t = 0; t < table.tensors.size(); ++t) {
      if (table.tensors[t].size_class.kind == TensorKind::saved_for_weight) activations_.push_back(t);
      if (table.tensors[t].size_class.kind == TensorKind::parameters) weights_ = t;
    }
    certificate_.memory = {
        {RankId(0), 5, {{activations_[0], activations_[1], 5}, {activations_[1], activations_[2], 5}}}};
  }

  std::string with(Bytes bytes, std::vector<Reuse> reuse) {
    certificate_.memory[0] = {RankId(0), bytes, std::move(reuse)};
    return why_not(certificate_, program_, &sizes_);
  }

  const Program program_ = HandProgram{
      .pipeline = chain_spec(1, 1, 3),
      .rows = {{"0F0", "0B0", "0F1", "0B1", "0F2",
                "0B2"}}}.build();
  SizeTable sizes_;
  Certificate certificate_;
  std::vector<std::uint32_t> activations_;
  std::uint32_t weights_ = 0;
};

TEST_F(MemoryWitnesses, TheBoundFollowsFromTheReuses) {
  const auto a = activations_;
  EXPECT_EQ(why_not(certificate_, program_, &sizes_), "");
  EXPECT_EQ(with(15, {}), "");
  EXPECT_EQ(with(100, {}), "");
  EXPECT_EQ(with(14, {}), "certificate: rank 0: a bound of 14 bytes, but sizes less reuse are 15");
  EXPECT_EQ(with(10, {{a[0], a[2], 3}, {a[0], a[1], 2}}), "");
  EXPECT_EQ(with(9, {{a[0], a[2], 3}, {a[0], a[1], 2}}),
            "certificate: rank 0: a bound of 9 bytes, but sizes less reuse are 10");
}

TEST_F(MemoryWitnesses, AReuseGoesFromTheFreedToTheAllocated) {
  const auto a = activations_;
  const std::string rank = "certificate: rank 0: tensor ";
  EXPECT_EQ(with(10, {{a[1], a[0], 5}}), rank + std::to_string(a[1]) + " may be alive when tensor " +
                                             std::to_string(a[0]) + " is allocated");
  EXPECT_NE(with(10, {{a[0], a[0], 5}}), "");
  EXPECT_NE(with(15, {{weights_, a[0], 0}}), "");
  EXPECT_NE(with(15, {{a[0], weights_, 0}}), "");
  EXPECT_EQ(with(10, {{a[0], 1000, 5}}), rank + "1000 is not on the rank");
}

TEST_F(MemoryWitnesses, BytesAreReusedOnce) {
  const auto a = activations_;
  const auto too_many = [](std::uint32_t tensor) {
    return "certificate: rank 0: more bytes of tensor " + std::to_string(tensor) + " are reused than its 5";
  };
  EXPECT_EQ(with(5, {{a[0], a[1], 5}, {a[0], a[2], 5}}), too_many(a[0]));
  EXPECT_EQ(with(5, {{a[0], a[2], 5}, {a[1], a[2], 5}}), too_many(a[2]));
  EXPECT_EQ(with(5, {{a[0], a[1], 6}}), too_many(a[0]));
  EXPECT_EQ(with(15, {{a[0], a[1], -1}}), "certificate: rank 0: a reuse of -1 bytes");
}

TEST_F(MemoryWitnesses, NumbersAtTheirLimitsAreRefused) {
  constexpr Bytes kMax = std::numeric_limits<Bytes>::max();
  constexpr std::uint32_t kLast = std::numeric_limits<std::uint32_t>::max();
  const auto a = activations_;
  EXPECT_NE(with(kMax, {{a[0], a[1], kMax}}), "");
  EXPECT_NE(with(kMax, {{kLast, a[1], 1}}), "");
  EXPECT_NE(with(kMax, {{a[0], kLast, 1}}), "");
  EXPECT_NE(with(std::numeric_limits<Bytes>::min(), {}), "");
  EXPECT_EQ(with(kMax, {}), "");
  certificate_.memory[0].rank = RankId(std::numeric_limits<std::int32_t>::max());
  EXPECT_NE(why_not(certificate_, program_, &sizes_), "");
  certificate_.order.back() = kLast;
  EXPECT_NE(why_not(certificate_, program_, &sizes_), "");
}

TEST_F(MemoryWitnesses, SizesAreThoseThatTheCertificateNames) {
  EXPECT_EQ(why_not(certificate_, program_), "certificate: it bounds memory, and no sizes are given");
  SizeTable others = sizes_;
  others.set({.kind = TensorKind::gradients}, 1);
  EXPECT_EQ(why_not(certificate_, program_, &others).find("certificate: it is about sizes "), 0U);
  certificate_.memory.clear();
  EXPECT_EQ(why_not(certificate_, program_, &sizes_).find("certificate: it names sizes "), 0U);
}

TEST_F(MemoryWitnesses, AreClaimed) {
  certificate_.properties.pop_back();
  EXPECT_EQ(why_not(certificate_, program_, &sizes_), "certificate: it bounds memory but does not claim it");
}

TEST_F(MemoryWitnesses, EveryRankHasOne) {
  certificate_.memory.push_back(certificate_.memory[0]);
  EXPECT_EQ(why_not(certificate_, program_, &sizes_), "certificate: memory of rank 0 twice");
  certificate_.memory = {{RankId(1), 100, {}}};
  EXPECT_EQ(why_not(certificate_, program_, &sizes_), "certificate: memory of rank 1, which is not there");
  const Program two = two_rank_step();
  Certificate certificate = deadlock_certificate(two, rendezvous());
  certificate.sizes_hash = sizes_hash(sizes_);
  certificate.properties.emplace_back("memory");
  certificate.memory = {{RankId(0), 5, {}}};
  EXPECT_EQ(why_not(certificate, two, &sizes_), "certificate: no memory of rank 1");
  certificate.memory.push_back({RankId(1), 5, {}});
  EXPECT_EQ(why_not(certificate, two, &sizes_), "");
}

}  // namespace
}  // namespace ppsim::test
