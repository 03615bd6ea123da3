// Everything of a small size: the verifier's answers and what visiting every state says are the same.

#include <gtest/gtest.h>

#include <array>
#include <iostream>
#include <vector>

#include "ppsim/verifier/verify.hpp"
#include "support/exhaustive.hpp"
#include "support/reachable_states.hpp"
#include "support/small_scope.hpp"

namespace ppsim::test::small_scope_test {
namespace {

/// Powers of 4, of which at most two count at once, to classes of tensors in an order that the number draws.
SizeTable distinct_sizes(int stages, std::uint64_t number) {
  constexpr auto kKinds =
      std::to_array({TensorKind::boundary_input, TensorKind::boundary_output, TensorKind::saved_for_input,
                     TensorKind::saved_for_weight, TensorKind::incoming_gradient,
                     TensorKind::outgoing_gradient, TensorKind::inner_gradients, TensorKind::workspace});
  SizeTable sizes;
  for (int s = 0; s < stages; ++s) {
    for (std::size_t k = 0; k < kKinds.size(); ++k) {
      const std::size_t digit = (k * (1 + 2 * (number % 4)) + number / 4) % kKinds.size();
      sizes.set({.kind = kKinds[k], .subject = s}, Bytes{1} << (2 * digit));
    }
  }
  return sizes;
}

struct Tally {
  std::size_t programs = 0, questions = 0, ill_formed = 0, mismatched = 0, hang = 0, proved = 0, memory = 0;
  std::size_t states = 0, too_large = 0;

  friend std::ostream& operator<<(std::ostream& out, const Tally& t) {
    return out << t.programs << " programs, " << t.questions << " questions: " << t.proved << " proved, "
               << t.hang << " hang, " << t.mismatched << " mismatched, " << t.ill_formed << " ill-formed, "
               << t.memory << " worst cases, " << t.states << " states, " << t.too_large << " too large";
  }
};

/// Asks about one Program and looks at all its states.
class Comparison {
 public:
  Comparison(const Program& program, std::uint64_t number)
      : program_(program),
        table_(tensor_table(program)),
        sizes_(distinct_sizes(program.pipeline().stages(), number)) {}

  /// Returns: whether the answer can be another one under other capabilities.
  bool run(const TransportCapabilities& capabilities, std::size_t limit, Tally& tally) const {
    const auto truth = reachable_states(program_, capabilities, table_, limit);
    if (!truth) {
      ++tally.too_large;
      return true;
    }
    ++tally.questions;
    tally.states += truth->states;
    VerifyOptions options;
    options.capabilities = capabilities;
    options.sizes = sizes_;
    options.properties = {Property::well_formed, Property::matched, Property::deadlock_free,
                          Property::memory};
    const VerifyReport report = verify(program_, options);
    EXPECT_EQ(report.proved(Property::well_formed), truth->lists.ordered && truth->lists.paired);
    EXPECT_EQ(report.proved(Property::matched), truth->lists.matched);
    if (!truth->lists.ordered || !truth->lists.paired) ++tally.ill_formed;
    if (!truth->lists.matched) {
      ++tally.mismatched;
      return false;
    }
    const Verdict& deadlock = report.find(Property::deadlock_free)->verdict;
    EXPECT_EQ(std::holds_alternative<Refuted>(deadlock), truth->hangs);
    EXPECT_EQ(std::holds_alternative<Proved>(deadlock), !truth->hangs);
    ++(truth->hangs ? tally.hang : tally.proved);
    if (!truth->hangs) compare_memory(*truth, report, capabilities.residency.has_value());
    tally.memory += report.memory.size();
    return true;
  }

 private:
  void compare_memory(const Reachable& truth, const VerifyReport& report, bool limited) const {
    ASSERT_EQ(report.memory.size(), static_cast<std::size_t>(program_.pipeline().ranks()));
    const std::vector<Bytes> bytes = tensor_sizes(table_, sizes_);
    for (std::size_t r = 0; r < report.memory.size(); ++r) {
      const Bytes most = truth.most(table_, bytes, RankId(static_cast<std::int32_t>(r)));
      // A residency limit is left out of the bound.
      EXPECT_TRUE(limited ? report.memory[r].bytes >= most : report.memory[r].bytes == most)
          << "rank " << r << ": " << report.memory[r].bytes << ", in some state " << most;
    }
  }

  const Program& program_;
  TensorTable table_;
  SizeTable sizes_;
};

constexpr auto kCapabilities = std::to_array<TransportCapabilities>({
    {},
    {.residency = 1},
    {.residency = 2},
    {.credits = 1},
    {.credits = 1, .residency = 1},
    {.credits = 1, .residency = 2},
});

class SmallScopes : public testing::TestWithParam<SmallScope> {};

/// Of how many Programs of a scope one is asked about.
std::size_t stride_of(const SmallScope& scope) {
  const bool in_place = scope.posting == Posting::in_place;
  // One stage a rank: these two name the communicators of the other two policies otherwise, and that is all.
  const bool renamed =
      scope.policy == CommunicatorPolicy::per_pair || scope.policy == CommunicatorPolicy::per_stage_edge;
  const bool large = scope.splits_backward && in_place;
  if (exhaustive()) return large && renamed ? 101 : 1;
  return large ? 1'999 : scope.splits_backward || in_place ? 19 : 1;
}

TEST_P(SmallScopes, AgreeWithEveryState) {
  Tally tally;
  std::uint64_t number = 0;
  const std::size_t all =
      for_each_small_program(GetParam(), stride_of(GetParam()), [&](const Program& program) {
        if (HasFailure()) return;
        const Comparison comparison(program, number++);
        for (const TransportCapabilities& capabilities : kCapabilities) {
          const bool goes_on = comparison.run(capabilities, 1'000'000, tally);
          if (HasFailure()) ADD_FAILURE() << "number " << number << " under " << capabilities;
          if (!goes_on || HasFailure()) break;
        }
        ++tally.programs;
      });
  std::cout << GetParam() << ": of " << all << ", " << tally << '\n';
  EXPECT_EQ(tally.too_large, 0u);
  EXPECT_GT(tally.proved, 0u);
  EXPECT_GT(tally.hang, 0u);
}

std::vector<SmallScope> all_scopes() {
  std::vector<SmallScope> scopes;
  for (const bool split : {false, true}) {
    for (const Posting posting : {Posting::ahead, Posting::in_place}) {
      for (const CommunicatorPolicy policy :
           {CommunicatorPolicy::per_rank, CommunicatorPolicy::per_pair, CommunicatorPolicy::per_edge,
            CommunicatorPolicy::per_stage_edge}) {
        for (const Grouping grouping : {Grouping::none, Grouping::paired})
          scopes.push_back({split, posting, policy, grouping});
      }
    }
  }
  return scopes;
}

INSTANTIATE_TEST_SUITE_P(TwoRanks, SmallScopes, testing::ValuesIn(all_scopes()));

class SmallSample : public testing::TestWithParam<int> {};

TEST_P(SmallSample, OfThreeRanksAgreesWithEveryState) {
  constexpr int kShards = 4;
  const std::uint64_t count = exhaustive() ? 100'000 : 4'000;
  const std::size_t limit = exhaustive() ? 200'000 : 20'000;
  Tally tally;
  for (auto number = static_cast<std::uint64_t>(GetParam()); number < count && !HasFailure();
       number += kShards) {
    const Program program = random_small_program(2, 1'000'003 * number + 1);
    const Comparison comparison(program, number);
    TransportCapabilities capabilities;
    if (number / kShards % 2 == 1) capabilities.credits = 1 + static_cast<int>(number / 16 % 2);
    if (number / kShards % 3 == 1) capabilities.residency = 1 + static_cast<int>(number / 12 % 3);
    comparison.run(capabilities, limit, tally);
    if (HasFailure()) ADD_FAILURE() << "number " << number << " under " << capabilities;
    ++tally.programs;
  }
  std::cout << "three ranks: " << tally << '\n';
  EXPECT_GT(tally.proved, tally.programs / 10);
  EXPECT_GT(tally.hang, tally.programs / 10);
}

INSTANTIATE_TEST_SUITE_P(Shards, SmallSample, testing::Range(0, 4));

}  // namespace
}  // namespace ppsim::test::small_scope_test
