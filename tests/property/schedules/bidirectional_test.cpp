#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <array>

#include "support/closed_forms.hpp"
#include "support/expect_forms.hpp"

// Orders of two directions and of waves, against what they are derived from, and their closed forms where
// they have to hold.

namespace ppsim {
namespace {

using test::between;
using test::generated;

/// A rank of DualPipe as the steps of deepseek-ai/DualPipe and of PyTorch's ScheduleDualPipeV say it, with
/// every microbatch written as a function of the step's turn.
class RowOfDualPipe {
 public:
  struct Way {
    int stage;
    int first;
  };
  struct Place {
    int ranks;  ///< num_half_ranks of DualPipe, num_ranks of DualPipeV
    int rank;   ///< half_rank of DualPipe, rank of DualPipeV
    int microbatches;
  };

  RowOfDualPipe(const Place& place, const std::array<Way, 2>& ways) : at_(place), ways_(ways) {}

  std::vector<Cell> row() {
    const int p = at_.ranks;
    const int r = at_.rank;
    const int main = at_.microbatches - 2 * p + r + 1;
    for (int i = 0; i < 2 * (p - r - 1); ++i) add(F(0, i));
    for (int i = 0; i < r + 1; ++i) add(F(0, 2 * (p - r - 1) + i)), add(F(1, i));
    for (int i = 0; i < p - r - 1; ++i) add(I(1, i)), add_weight(), add(F(1, r + 1 + i));
    for (int i = 0; i < main; ++i) {
      add_pair(F(0, 2 * p - r - 1 + i), B(1, p - r - 1 + i), i == 0 && r == p - 1);
      add_pair(F(1, p + i), B(0, i), false);
    }
    for (int i = 0; i < p - r - 1; ++i) {
      add(B(1, p - r - 1 + main + i));
      add_pair(F(1, p + main + i), B(0, main + i), false);
    }
    drain(main);
    return row_;
  }

 private:
  void drain(int main) {
    const int p = at_.ranks;
    const int r = at_.rank;
    bool split = false;
    for (int i = 0; i < r + 1; ++i) {
      split = split || (i == (r + 1) / 2 && r % 2 == 1);
      add(split ? I(1, 2 * (p - r - 1) + main + i) : B(1, 2 * (p - r - 1) + main + i));
      split = split || (i == (r + 1) / 2 && r % 2 == 0);
      add(split ? I(0, p - r - 1 + main + i) : B(0, p - r - 1 + main + i));
    }
    for (int i = 0; i < p - r - 1; ++i) add_weight(), add(I(0, at_.microbatches - (p - r - 1) + i));
    for (int i = 0; i < r + 1; ++i) add_weight();
  }

  Action action(OpKind kind, std::size_t way, int i) {
    return make_action(kind, ways_[way].stage, ways_[way].first + i);
  }
  Action F(std::size_t way, int i) { return action(OpKind::forward, way, i); }
  Action B(std::size_t way, int i) { return action(OpKind::backward, way, i); }
  Action I(std::size_t way, int i) {
    weights_.push_back(action(OpKind::backward_weight, way, i));
    return action(OpKind::backward_input, way, i);
  }

  void add(const Action& action) { row_.emplace_back(action); }
  void add_pair(const Action& forward, const Action& backward, bool apart) {
    if (!apart) return row_.push_back(Cell(forward, backward));
    add(forward), add(backward);
  }
  void add_weight() {
    if (weights_used_ < weights_.size()) add(weights_[weights_used_++]);
  }

  Place at_;
  std::array<Way, 2> ways_;
  std::vector<Cell> row_;
  std::vector<Action> weights_;
  std::size_t weights_used_ = 0;
};

std::vector<Cell> cells_of(const Schedule& schedule, int rank) {
  const auto row = schedule.row(RankId(rank));
  return {row.begin(), row.end()};
}

TEST(DualPipeV, IsPyTorchsCellByCell) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 2 * p; m <= 32; ++m) {
      const Schedule schedule = generated("dualpipe-v", {.ranks = p, .microbatches = m});
      for (int r = 0; r < p; ++r) {
        RowOfDualPipe published({p, r, m}, {{{r, 0}, {2 * p - 1 - r, 0}}});
        ASSERT_EQ(cells_of(schedule, r), published.row()) << p << ' ' << m << ' ' << r;
      }
    }
  }
}

TEST(DualPipe, IsDeepSeeksCellByCell) {
  for (int p = 2; p <= 10; p += 2) {
    for (int m = 2 * p; m <= 32; m += 2) {
      const Schedule schedule = generated("dualpipe", {.ranks = p, .microbatches = m});
      for (int r = 0; r < p; ++r) {
        const RowOfDualPipe::Way down{r, 0};
        const RowOfDualPipe::Way up{2 * p - 1 - r, m / 2};
        const bool first_half = r < p / 2;
        RowOfDualPipe published({p / 2, first_half ? r : p - 1 - r, m / 2},
                                {first_half ? down : up, first_half ? up : down});
        ASSERT_EQ(cells_of(schedule, r), published.row()) << p << ' ' << m << ' ' << r;
      }
    }
  }
}

/// The work of the ranks when, clock by clock, every microbatch that has entered goes one stage further, to
/// the end and back, and the next one enters every second clock; a unit enters when the first microbatch of
/// the one before has left. So the authors' generator of Chimera builds its orders.
class Clocks {
 public:
  Clocks(const Pipeline& pipeline, int unit) : pipeline_(pipeline), unit_(unit), rows_(rows_of_ranks()) {}

  std::vector<std::vector<Cell>> run() {
    const auto routes = static_cast<int>(pipeline_.spec().routes.size());
    waiting_ = pipeline_.microbatches() / routes;
    for (int clock = 0; !on_the_way_.empty() || entered_ < waiting_; ++clock) {
      enter(clock);
      for (const Traveller& traveller : on_the_way_) {
        for (int route = 0; route < routes; ++route) work(route, traveller);
      }
      for (Traveller& traveller : on_the_way_) ++traveller.steps;
    }
    return rows_;
  }

 private:
  struct Traveller {
    int number;
    int steps;
  };

  std::vector<std::vector<Cell>> rows_of_ranks() const {
    return std::vector<std::vector<Cell>>(static_cast<std::size_t>(pipeline_.ranks()));
  }

  int length() const { return static_cast<int>(pipeline_.spec().routes[RouteId(0)].size()); }

  void enter(int clock) {
    const bool left = !on_the_way_.empty() && on_the_way_.front().steps == 2 * length();
    if (left && on_the_way_.front().number % unit_ == 0) first_clock_ = clock;
    if (left) on_the_way_.erase(on_the_way_.begin());
    const bool next =
        clock - first_clock_ == entered_ % unit_ * 2 && (entered_ % unit_ != 0 || left || clock == 0);
    if (entered_ < waiting_ && next) on_the_way_.push_back({entered_++, 0});
  }

  void work(int route, const Traveller& traveller) {
    const auto& chain = pipeline_.spec().routes[RouteId(route)];
    const bool back = traveller.steps >= length();
    const int position = back ? 2 * length() - 1 - traveller.steps : traveller.steps;
    const StageId stage = chain[static_cast<std::size_t>(position)];
    rows_[pipeline_.rank_of(stage).index()].emplace_back(make_action(
        back ? OpKind::backward : OpKind::forward, stage.value(), route * waiting_ + traveller.number));
  }

  const Pipeline& pipeline_;
  int unit_;
  std::vector<std::vector<Cell>> rows_;
  std::vector<Traveller> on_the_way_;
  int waiting_ = 0;
  int entered_ = 0;
  int first_clock_ = 0;
};

void expect_order_of_clocks(const Schedule& schedule, int unit) {
  const auto rows = Clocks(schedule.pipeline(), unit).run();
  for (int r = 0; r < schedule.pipeline().ranks(); ++r) {
    RC_ASSERT(cells_of(schedule, r) == rows[static_cast<std::size_t>(r)]);
  }
}

ScheduleParameters draw_even() { return {.ranks = 2 * between(1, 5), .microbatches = 2 * between(1, 24)}; }

ScheduleParameters draw_waves() {
  return {.ranks = between(1, 7), .microbatches = between(1, 24), .chunks = 2 * between(1, 3)};
}

RC_GTEST_PROP(Chimera, IsTheOrderOfTheClocks, ()) {
  const ScheduleParameters parameters = draw_even();
  expect_order_of_clocks(generated("chimera", parameters), parameters.ranks / 2);
}

RC_GTEST_PROP(BitPipe, IsTheOrderOfTheClocks, ()) {
  const ScheduleParameters parameters = draw_even();
  expect_order_of_clocks(generated("bitpipe", parameters), parameters.ranks / 2);
}

RC_GTEST_PROP(Hanayo, IsTheOrderOfTheClocks, ()) {
  const ScheduleParameters parameters = draw_waves();
  expect_order_of_clocks(generated("hanayo", parameters), parameters.ranks);
}

StageCosts draw_pass_costs() { return {.forward = between(1, 30), .backward = between(1, 60)}; }

/// The form is claimed, and it is the earliest time and that of a simulated run.
void expect_claimed_makespan(std::string_view name, const ScheduleParameters& parameters,
                             const StageCosts& costs) {
  const auto form = (*find_schedule(name))->forms.makespan(parameters, costs);
  RC_ASSERT(form.has_value());
  const Schedule schedule = generated(name, parameters);
  const CostTable table = test::cost_table(costs);
  RC_ASSERT(test::step_time(schedule, table).makespan == *form);
  RC_ASSERT(test::simulated_step_time(schedule, {.order = IssueOrder::timed}, table).makespan == *form);
}

RC_GTEST_PROP(ClosedForms, ChimeraMakespan, ()) {
  expect_claimed_makespan("chimera", draw_even(), draw_pass_costs());
}

RC_GTEST_PROP(ClosedForms, ChimeraMakespanOfDoubledUnits, ()) {
  ScheduleParameters parameters{.ranks = 2 * between(1, 4)};
  parameters.microbatches = 2 * parameters.ranks * between(1, 3);
  parameters.settings["concatenation"] = *rc::gen::element("forward-doubling", "backward-halving");
  expect_claimed_makespan("chimera", parameters, draw_pass_costs());
}

RC_GTEST_PROP(ClosedForms, BitPipeMakespan, ()) {
  expect_claimed_makespan("bitpipe", draw_even(), draw_pass_costs());
}

RC_GTEST_PROP(ClosedForms, HanayoMakespan, ()) {
  expect_claimed_makespan("hanayo", draw_waves(), draw_pass_costs());
}

StageCosts draw_even_pass_costs() {
  const int third = between(1, 30);
  return {.forward = third,
          .backward = 2 * third,
          .backward_input = third,
          .backward_weight = third,
          .overlap = between(2 * third, 4 * third)};
}

RC_GTEST_PROP(ClosedForms, DualPipeMakespan, ()) {
  const int p = 2 * between(1, 5);
  expect_claimed_makespan("dualpipe", {.ranks = p, .microbatches = 2 * p + 2 * between(0, 10)},
                          draw_even_pass_costs());
}

RC_GTEST_PROP(ClosedForms, DualPipeVMakespan, ()) {
  const int p = between(1, 6);
  expect_claimed_makespan("dualpipe-v", {.ranks = p, .microbatches = 2 * p + between(0, 10)},
                          draw_even_pass_costs());
}

}  // namespace
}  // namespace ppsim
