#include "ppsim/planner/costs/rank_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/executor/execute.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/closed_forms.hpp"
#include "support/hand_program.hpp"

namespace ppsim::test {
namespace {

/// Sizes between which gaps are left that the next tensor does not fill.
SizeTable uneven_sizes() {
  constexpr Bytes kUnit = Bytes{64} << 20U;
  SizeTable sizes;
  sizes.set({.kind = TensorKind::boundary_input}, 2 * kUnit);
  sizes.set({.kind = TensorKind::boundary_output}, kUnit);
  sizes.set({.kind = TensorKind::saved_for_input}, 2 * kUnit);
  sizes.set({.kind = TensorKind::saved_for_weight}, kUnit);
  sizes.set({.kind = TensorKind::incoming_gradient}, 16 * kUnit);
  sizes.set({.kind = TensorKind::outgoing_gradient}, 30 * kUnit);
  sizes.set({.kind = TensorKind::inner_gradients}, 2 * kUnit);
  sizes.set({.kind = TensorKind::workspace}, 8 * kUnit);
  return sizes;
}

Program program_of(std::string_view name) {
  return lower(generated(name, {.ranks = 4, .microbatches = 12, .chunks = 2}), {}).value();
}

/// The largest pool of a rank, in per cent of what the rank needs at once in its worst timing.
Bytes percent_of_worst(const Program& program, const SizeTable& sizes) {
  const RankMemory memory = rank_memory({program, rendezvous()}, sizes);
  const VerifyReport report = verify(program, {.properties = {Property::memory}, .sizes = sizes});
  Bytes percent = 0;
  for (const WorstCase& worst : report.memory)
    percent = std::max(percent, 100 * memory.pool_bytes.value()[worst.rank] / worst.bytes);
  return percent;
}

TEST(RankMemory, PoolsOfUnevenSizesAreNearTheWorstCase) {
  for (const auto& [name, percent] : {std::pair("looped-bfs", 110), {"kimi-k2", 116}, {"zb-v", 118}}) {
    const Bytes found = percent_of_worst(program_of(name), uneven_sizes());
    EXPECT_GE(found, 100) << name;
    EXPECT_LE(found, percent) << name;
  }
}

TEST(RankMemory, PoolsOfLikeSizesAreTheWorstCase) {
  EXPECT_EQ(percent_of_worst(program_of("interleaved-1f1b"), activation_size_table(1 << 20)), 100);
}

TEST(RankMemory, PoolsAreThoseOfARun) {
  const Program program = program_of("v-half");
  RunOptions options;
  options.unverified = true;
  options.backend = EmulatedOptions{};
  const auto ran = execute(program, NullModel(uneven_sizes()), options);
  ASSERT_TRUE(ran) << ran.error();
  EXPECT_EQ(rank_memory({program, rendezvous()}, uneven_sizes()).pool_bytes, ran->pool_bytes);
}

TEST(RankMemory, APlanThatTakesLongIsLeftOut) {
  const Program program = program_of("1f1b-v");
  EXPECT_EQ(
      rank_memory({program, rendezvous()}, uneven_sizes(), {.limits = {.max_conflicts = 100}}).pool_bytes,
      std::nullopt);
}

TEST(RankMemory, APlanThatComesTooLateIsLeftOut) {
  const Program program = program_of("1f1b-v");
  RankMemoryOptions options;
  int asked = 0;
  options.limits.stopped = [&] { return ++asked > 4; };
  const RankMemory memory = rank_memory({program, rendezvous()}, uneven_sizes(), options);
  EXPECT_EQ(memory.pool_bytes, std::nullopt);
  EXPECT_TRUE(memory.stopped);
  EXPECT_EQ(memory.transport_bytes.size(), static_cast<std::size_t>(program.pipeline().ranks()));
  options.limits.stopped = [] { return false; };
  EXPECT_EQ(rank_memory({program, rendezvous()}, uneven_sizes(), options).pool_bytes,
            rank_memory({program, rendezvous()}, uneven_sizes()).pool_bytes);
}

TEST(RankMemory, PlacesAreWhatTheAlignmentAllows) {
  const Program program = lower(generated("1f1b", {.ranks = 2, .microbatches = 4}), {}).value();
  const SizeTable sizes = activation_size_table(1);
  EXPECT_EQ(rank_memory({program, rendezvous()}, sizes).pool_bytes.value()[RankId(0)], 2 * 64);
  EXPECT_EQ(rank_memory({program, rendezvous()}, sizes, {.alignment = 1}).pool_bytes.value()[RankId(0)], 2);
}

/// Rank 0 sends outputs of stage 0, then of stage 2, each of two microbatches, on one channel; rank 1 sends
/// those of stage 1 on another.
Program two_sizes_on_a_channel() {
  return HandProgram{.pipeline = chain_spec(2, 4, 2),
                     .communicators = communicators({{0, 1}, {0, 1}}),
                     .rows = {{"0F0", "0SEND_F0@0", "0F1", "0SEND_F1@0", "2RECV_F0@1", "2F0", "2SEND_F0@0",
                               "2RECV_F1@1", "2F1", "2SEND_F1@0"},
                              {"1RECV_F0@0", "1F0", "1SEND_F0@1", "1RECV_F1@0", "1F1", "1SEND_F1@1",
                               "3RECV_F0@0", "3F0", "3RECV_F1@0", "3F1"}}}
      .build();
}

TEST(RankMemory, TransportsKeepMessagesInARow) {
  SizeTable sizes;
  sizes.set({.kind = TensorKind::boundary_output, .subject = 0}, 10);
  sizes.set({.kind = TensorKind::boundary_output, .subject = 1}, 7);
  sizes.set({.kind = TensorKind::boundary_output, .subject = 2}, 100);
  const auto bytes = [&](const TransportCapabilities& transport) {
    return rank_memory({two_sizes_on_a_channel(), transport}, sizes).transport_bytes.items();
  };
  EXPECT_EQ(bytes(rendezvous()), (std::vector<Bytes>{0, 0}));
  EXPECT_EQ(bytes({.credits = 1}), (std::vector<Bytes>{100, 7}));
  EXPECT_EQ(bytes({.credits = 2}), (std::vector<Bytes>{200, 14}));
  EXPECT_EQ(bytes({.credits = 3}), (std::vector<Bytes>{210, 14}));
  EXPECT_EQ(bytes({.credits = 9}), (std::vector<Bytes>{220, 14}));
}

TEST(RankMemory, CommunicatorsTakeMemoryOfBothEndsOfEachDirection) {
  EXPECT_EQ(communicator_bytes(two_sizes_on_a_channel(), {.at_sender = 3, .at_receiver = 10}).items(),
            (std::vector<Bytes>{13, 13}));
  // A rank in the middle sends and receives in both directions; at the ends, in one each.
  const Program chain = lower(generated("1f1b", {.ranks = 3, .microbatches = 4}), {}).value();
  EXPECT_EQ(communicator_bytes(chain, {.at_sender = 3, .at_receiver = 10}).items(),
            (std::vector<Bytes>{13, 26, 13}));
  EXPECT_EQ(communicator_bytes(chain, edge_memory("in-process")).items(), (std::vector<Bytes>{0, 0, 0}));
  EXPECT_EQ(communicator_bytes(chain, edge_memory("nccl"))[RankId(0)], Bytes{48} << 20U);
}

}  // namespace
}  // namespace ppsim::test
