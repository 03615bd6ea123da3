#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>

#include "support/closed_forms.hpp"
#include "support/expect_forms.hpp"

// The zero-bubble orders that PyTorch has too, beside its formulas; the closed forms; the greedy's limit.

namespace ppsim {
namespace {

using test::between;
using test::draw_costs;
using test::expect_makespan;
using test::expect_span;
using test::generated;

std::vector<Action> row_of(const Schedule& schedule, int rank) {
  std::vector<Action> row;
  for (const Cell& cell : schedule.row(RankId(rank))) row.push_back(cell.actions().front());
  return row;
}

/// ScheduleInterleavedZeroBubble of PyTorch, where every index is a function of the step.
class InterleavedZeroBubble {
 public:
  InterleavedZeroBubble(int p, int n, int v) : p_(p), all_(n * v), v_(v), group_(n / std::max(1, n / p)) {}

  [[nodiscard]] std::vector<Action> row(int rank) const {
    const int warmup = std::min((v_ - 1) * group_ + p_ - 1 - rank, all_);
    std::vector<Action> row;
    for (int step = 0; step < warmup + all_; ++step) {
      const int backward = step - warmup;
      if (step < all_) row.push_back(action(OpKind::forward, step, rank));
      if (backward >= 0) row.push_back(action(OpKind::backward_input, backward, rank));
      if (backward >= rank) row.push_back(action(OpKind::backward_weight, backward - rank, rank));
    }
    for (int i = std::max(0, all_ - rank); i < all_; ++i) {
      row.push_back(action(OpKind::backward_weight, i, rank));
    }
    return row;
  }

 private:
  /// The i-th of its kind on a rank: turn i / group, whose chunk and microbatch follow from counting turns.
  [[nodiscard]] Action action(OpKind kind, int i, int rank) const {
    const int turn = i / group_;
    const int chunk = kind == OpKind::forward ? turn % v_ : v_ - 1 - turn % v_;
    return make_action(kind, chunk * p_ + rank, turn / v_ * group_ + i % group_);
  }

  int p_, all_, v_, group_;
};

TEST(InterleavedZb, IsPyTorchsWherePyTorchHasOne) {
  for (int p = 1; p <= 8; ++p) {
    for (int n = 1; n <= 24; ++n) {
      if (n % std::max(1, n / p) != 0) continue;
      for (int v = 1; v <= 4; ++v) {
        const Schedule schedule = generated("interleaved-zb", {.ranks = p, .microbatches = n, .chunks = v});
        const InterleavedZeroBubble pytorch(p, n, v);
        for (int r = 0; r < p; ++r)
          ASSERT_EQ(row_of(schedule, r), pytorch.row(r)) << p << ' ' << n << ' ' << v;
      }
    }
  }
}

/// ScheduleZBVZeroBubble of PyTorch, phase by phase with the microbatches as functions of the phase's turn.
std::vector<Action> pytorch_zbv_row(int p, int n, int r) {
  const int full = std::max(2 * p - 1, n);
  const std::array<int, 2> stage = {r, 2 * p - 1 - r};
  std::vector<Action> row;
  const auto add = [&](OpKind kind, std::size_t chunk, int microbatch) {
    if (microbatch < n) row.push_back(make_action(kind, stage[chunk], microbatch));
  };
  const auto F = [&](std::size_t chunk, int i) { add(OpKind::forward, chunk, i); };
  const auto I = [&](std::size_t chunk, int i) { add(OpKind::backward_input, chunk, i); };
  const auto W = [&](std::size_t chunk, int i) { add(OpKind::backward_weight, chunk, i); };
  for (int i = 0; i < 2 * (p - r) - 1; ++i) F(0, i);
  for (int i = 0; i < r; ++i) F(1, i), F(0, 2 * (p - r) - 1 + i);
  for (int i = 0; i < p - r; ++i) F(1, r + i), I(1, i), W(1, i);
  for (int i = 0; i < full - p; ++i) {
    F(0, 2 * p - r - 1 + i), I(0, i), W(0, i);
    F(1, p + i), I(1, p - r + i), W(1, p - r + i);
  }
  for (int i = 0; i < r; ++i) I(0, full - p + i), I(1, full - r + i);
  for (int i = 0; i < p - r; ++i) I(0, full - p + r + i), W(0, full - p + i);
  for (int i = full - r; i < full; ++i) W(1, i);
  for (int i = full - r; i < full; ++i) W(0, i);
  return row;
}

TEST(ZbV, IsPyTorchsCellByCell) {
  for (int p = 1; p <= 8; ++p) {
    for (int n = 1; n <= 32; ++n) {
      const Schedule schedule = generated("zb-v", {.ranks = p, .microbatches = n});
      for (int r = 0; r < p; ++r) ASSERT_EQ(row_of(schedule, r), pytorch_zbv_row(p, n, r)) << p << ' ' << n;
    }
  }
}

RC_GTEST_PROP(ClosedForms, InterleavedZbMakespanAndSpan, ()) {
  const StageCosts costs = draw_costs();
  const int p = between(1, 6);
  const ScheduleParameters parameters{.ranks = p, .microbatches = between(p, 4 * p), .chunks = between(1, 4)};
  expect_makespan("interleaved-zb", parameters, costs);
  expect_span("interleaved-zb", parameters, costs);
}

RC_GTEST_PROP(ClosedForms, InterleavedZbMakespanAndSpanWithTransfers, ()) {
  StageCosts costs = draw_costs();
  const auto most = std::min({costs.forward - 1, costs.backward_input - 1, costs.backward_weight / 2});
  costs.transfer = between(0, static_cast<int>(most));
  const int p = between(1, 6);
  const ScheduleParameters parameters{.ranks = p, .microbatches = p * between(2, 5), .chunks = between(1, 4)};
  expect_makespan("interleaved-zb", parameters, costs);
  expect_span("interleaved-zb", parameters, costs);
}

RC_GTEST_PROP(ClosedForms, ZbVSpan, ()) {
  const int p = between(1, 8);
  expect_span("zb-v", {.ranks = p, .microbatches = between(2 * p - 1, 5 * p)}, draw_costs());
}

/// Times that differ from stage to stage.
CostTable draw_uneven_costs(int ranks) {
  CostTable costs;
  for (int s = 0; s < ranks; ++s) {
    costs.set({OpKind::forward, s}, between(0, 30));
    costs.set({OpKind::backward_input, s}, between(0, 30));
    costs.set({OpKind::backward_weight, s}, between(0, 30));
    costs.set({OpKind::send_forward, s}, between(0, 5));
    costs.set({OpKind::send_backward, s}, between(0, 5));
  }
  return costs;
}

/// The most memory on a rank, in percent of what F allocates, by the order of its row.
int peak_percent(const Schedule& schedule, int rank, int weight_share) {
  int held = 0;
  int peak = 0;
  for (const Action& action : row_of(schedule, rank)) {
    if (action.kind == OpKind::forward) held += 100;
    peak = std::max(peak, held);
    if (action.kind == OpKind::backward_input) held -= 100 - weight_share;
    if (action.kind == OpKind::backward_weight) held -= weight_share;
  }
  return peak;
}

RC_GTEST_PROP(ZbGreedy, NeverExceedsItsLimit, ()) {
  const int p = between(1, 16);
  const int limit = between(1, 2 * p + 1);
  const int share = between(0, 100);
  const ScheduleParameters parameters{
      .ranks = p,
      .microbatches = between(1, 40),
      .settings = {{"memory_limit", std::to_string(limit)}, {"weight_share", std::to_string(share)}},
      .costs = draw_uneven_costs(p)};
  const Schedule schedule = generated("zb-greedy", parameters);
  for (int r = 0; r < p; ++r) RC_ASSERT(peak_percent(schedule, r, share) <= 100 * limit);
}

}  // namespace
}  // namespace ppsim
