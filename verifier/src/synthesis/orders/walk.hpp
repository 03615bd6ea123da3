#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "synthesis/orders/timed_rows.hpp"

namespace ppsim::verifier::synthesis {

/// The same numbers for a seed on every machine.
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014 (SplitMix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t operator()() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }

  /// 0 to count - 1. Requires: count > 0.
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>((*this)() % static_cast<std::uint64_t>(count));
  }
  /// True once in so many times.
  bool one_in(std::int64_t count) { return below(count) == 0; }
  /// 1, or with half the chance each 2, 3, ...
  int step() {
    int step = 1;
    for (std::uint64_t bits = (*this)(); (bits & 1U) != 0 && step < 32; bits >>= 1U) ++step;
    return step;
  }

 private:
  std::uint64_t state_;
};

/// How long a search may go on.
class Effort {
 public:
  Effort(std::int64_t steps, std::function<bool()> late) : all_(steps), late_(std::move(late)) {}
  /// Takes so many steps. Returns: false where there are none left, or it is late.
  bool take(std::int64_t steps = 1) {
    if (over_) return false;
    if (taken_ + steps > all_) over_ = true;
    if (over_) return false;
    taken_ += steps;
    // To ask for the time takes longer than a step.
    if ((asked_ += steps) >= kBetweenLooks) {
      asked_ = 0;
      over_ = over_ || late_();
    }
    return !over_;
  }
  [[nodiscard]] bool over() const { return over_; }
  [[nodiscard]] std::int64_t taken() const { return taken_; }

 private:
  static constexpr std::int64_t kBetweenLooks = 128;
  std::int64_t all_;
  std::int64_t taken_ = 0;
  std::int64_t asked_ = 0;
  bool over_ = false;
  std::function<bool()> late_;
};

/// A walk from rows to neighbours: an action of a critical path moves past others of its rank, or any action
/// does. What is longer is taken, too, by less and less (threshold accepting).
/// Source: van Laarhoven, Aarts and Lenstra, "Job shop scheduling by simulated annealing", Operations
/// Research 40 (1992), for moves on critical paths; Dueck and Scheuer, "Threshold accepting", Journal of
/// Computational Physics 90 (1990).
class Walk {
 public:
  Walk(const Shop& shop, std::uint64_t seed) : shop_(shop), random_(seed), timed_(shop) {}

  /// Requires: rows that TimedRows::assign accepts.
  void begin(const TaskRows& rows);
  /// So many steps; at the first one what is longer by `heat` is accepted, at the last one nothing is. Ends
  /// where the best objective is `enough`.
  void go(std::int64_t steps, Slot heat, Slot enough, Effort& effort);

  [[nodiscard]] const TaskRows& best() const { return best_; }
  [[nodiscard]] RowsValue value() const { return best_value_; }

 private:
  /// A change of one row.
  struct Change {
    int rank = 0;
    int from = 0;
  };

  bool propose(Change& change);
  bool move_earlier(int rank, int place, int count, Change& change);
  bool move_later(int rank, int place, int count, Change& change);
  bool make_room(Change& change);
  void find_critical();
  [[nodiscard]] int critical_end();
  void step(Slot heat);
  [[nodiscard]] static Slot cost(const RowsValue& value) {
    return kObjective * value.objective + value.mean_end;
  }

  static constexpr Slot kObjective = 4;  // how much more the objective counts than the mean end

  const Shop& shop_;
  Random random_;
  TimedRows timed_;
  TaskRows best_;
  RowsValue best_value_;
  std::vector<int> critical_;  // tasks that wait for the one before them in their row, on a critical path
  bool critical_is_known_ = false;
  std::vector<int> window_;
};

}  // namespace ppsim::verifier::synthesis
