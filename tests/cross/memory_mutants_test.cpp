// One byte less than the worst case is refuted, and so is what no longer protects a buffer.

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "ppsim/verifier/verify.hpp"
#include "support/reachable_states.hpp"
#include "support/small_program.hpp"

namespace ppsim::test::memory_mutants_test {
namespace {

constexpr int kShards = 4;
constexpr std::size_t kMutantsPerShard = 50;  // of each kind
constexpr std::size_t kMaxStates = 20'000;

/// Sizes under which what is received weighs most.
SizeTable draw_sizes(Dice& dice) {
  SizeTable sizes;
  for (int k = 0; k < kTensorKindCount; ++k) {
    const auto kind = static_cast<TensorKind>(k);
    const bool received = kind == TensorKind::boundary_input || kind == TensorKind::incoming_gradient;
    sizes.set({.kind = kind}, received ? 20 + dice.below(10) : dice.below(4));
  }
  return sizes;
}

/// Which instruction waits for which by `after`.
struct AfterEdge {
  InstructionId later;
  InstructionId earlier;
};

std::vector<AfterEdge> after_edges(const Program& program) {
  std::vector<AfterEdge> edges;
  for (int i = 0; i < static_cast<int>(program.size()); ++i) {
    for (const InstructionId earlier : program.after(InstructionId(i)))
      edges.push_back({InstructionId(i), earlier});
  }
  return edges;
}

Program without(const Program& program, const AfterEdge& edge) {
  ProgramDraft draft = to_draft(program);
  InstructionDraft& later =
      draft.rows[program.rank_of(edge.later)][static_cast<std::size_t>(program.position(edge.later))];
  std::erase(later.after, program.position(edge.earlier));
  return *ProgramBuilder::build(program.pipeline(), draft);
}

/// A Program, its worst case over all states, and the question whether it stays within a limit.
class Question {
 public:
  Question(const Program& program, const TransportCapabilities& capabilities, const SizeTable& sizes)
      : program_(program), table_(tensor_table(program)), bytes_(tensor_sizes(table_, sizes)) {
    options_.capabilities = capabilities;
    options_.sizes = sizes;
    const auto states = reachable_states(program, capabilities, table_, kMaxStates);
    if (!states || states->hangs || !states->lists.matched) return;
    for (int r = 0; r < program.pipeline().ranks(); ++r) {
      const Bytes of_rank = states->most(table_, bytes_, RankId(r));
      if (!max_ || of_rank > *max_) max_ = of_rank;
    }
  }

  /// The largest worst case of a rank; nothing where the Program hangs or has too many states.
  [[nodiscard]] std::optional<Bytes> most() const { return max_; }

  /// The verdict under a limit is that of all states, and a refutation reaches what they reach. Returns the
  /// run of the refutation.
  std::optional<FiringOrder> ask(Bytes limit) {
    options_.memory_limit = limit;
    const VerifyReport report = verify(program_, options_);
    EXPECT_EQ(report.proved(Property::memory), *max_ <= limit);
    const auto* refuted = std::get_if<Refuted>(&report.find(Property::memory)->verdict);
    EXPECT_EQ(refuted != nullptr, *max_ > limit);
    if (refuted == nullptr) return std::nullopt;
    const auto& overrun = std::get<MemoryOverrun>(refuted->counterexample);
    EXPECT_EQ(overrun.bytes, *max_);
    Bytes live = 0;
    for (const Tensor& tensor : overrun.live) {
      EXPECT_EQ(tensor.rank, overrun.rank);
      live += (*options_.sizes)(tensor.size_class);
    }
    EXPECT_EQ(live, overrun.bytes);
    return overrun.firing_order;
  }

 private:
  const Program& program_;
  TensorTable table_;
  std::vector<Bytes> bytes_;
  VerifyOptions options_;
  std::optional<Bytes> max_;
};

/// Whether a run starts an instruction, before its worst moment, although what it waited for is not complete.
bool runs_ahead(const FiringOrder& run, const AfterEdge& edge) {
  const auto place = [&](std::uint32_t item) {
    return std::ranges::find(run.items, item) - run.items.begin();
  };
  const auto start = place(2 * static_cast<std::uint32_t>(edge.later.value()));
  const auto end = place(2 * static_cast<std::uint32_t>(edge.earlier.value()) + 1);
  return start < static_cast<std::ptrdiff_t>(run.moment) && start < end;
}

LoweringOptions draw_options(Dice& dice) {
  LoweringOptions options = draw_issue_options(dice);
  options.grouping = dice.one_of({Grouping::none, Grouping::paired});
  if (dice.one_in(2)) options.receive_buffers = 1;
  options.load = dice.one_in(3);
  return options;
}

class MemoryMutants : public testing::TestWithParam<int> {};

TEST_P(MemoryMutants, AreRefutedWhereSomeStateNeedsMore) {
  Dice dice(static_cast<std::uint64_t>(GetParam()) + 1);
  std::size_t limits = 0;
  std::size_t dropped = 0;
  std::size_t equivalent = 0;
  while ((limits < kMutantsPerShard || dropped < kMutantsPerShard) && !HasFailure()) {
    const auto program = draw_small_program(dice, draw_options(dice));
    if (!program) continue;
    TransportCapabilities capabilities;
    if (dice.one_in(3)) capabilities.credits = 1 + dice.below(2);
    const SizeTable sizes = draw_sizes(dice);
    Question whole(*program, capabilities, sizes);
    if (!whole.most()) continue;
    if (limits < kMutantsPerShard) {
      EXPECT_FALSE(whole.ask(*whole.most()).has_value());
      EXPECT_TRUE(whole.ask(*whole.most() - 1).has_value());
      ++limits;
    }
    for (const AfterEdge& edge : after_edges(*program)) {
      if (dropped == kMutantsPerShard) break;
      const Program mutant = without(*program, edge);
      Question question(mutant, capabilities, sizes);
      if (!question.most()) continue;
      const auto run = question.ask(*whole.most());
      ++(run ? dropped : equivalent);
      EXPECT_TRUE(!run || runs_ahead(*run, edge));
    }
  }
  std::cout << "a byte less: " << limits << " refuted; an `after` less: " << dropped << " refuted, "
            << equivalent << " need no more in any state\n";
}

INSTANTIATE_TEST_SUITE_P(Shards, MemoryMutants, testing::Range(0, kShards));

}  // namespace
}  // namespace ppsim::test::memory_mutants_test
