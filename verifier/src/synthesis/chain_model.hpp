#pragma once

#include <cstddef>
#include <vector>

#include "ppsim/verifier/synthesis/synthesis.hpp"
#include "synthesis/kept_order.hpp"

namespace ppsim::verifier::synthesis {

/// A time in units of the model.
using Slot = std::int64_t;

/// start(after) >= start(before) + lag.
struct Precedence {
  int before = 0;
  int after = 0;
  Slot lag = 0;
};

/// The actions that a rank runs for each microbatch, in that order.
[[nodiscard]] std::vector<OpKind> phases_of(BackwardForm form);

/// The actions of a chain as tasks of one machine per rank. A rank runs each of its phases (F, I, W or F, B)
/// in the order of the microbatches. Tasks are numbered by rank, then phase, then microbatch.
class ChainModel {
 public:
  /// Durations are rounded to the nearest multiple of `unit`, at least one.
  /// Requires: a request that check_request accepts, limit >= 1.
  ChainModel(const SynthesisRequest& request, Nanoseconds unit);

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int microbatches() const { return microbatches_; }
  [[nodiscard]] int limit() const { return limit_; }
  [[nodiscard]] int phases() const { return static_cast<int>(kinds_.size()); }
  [[nodiscard]] OpKind kind(int phase) const { return kinds_[static_cast<std::size_t>(phase)]; }
  [[nodiscard]] Nanoseconds unit() const { return unit_; }

  [[nodiscard]] int task(int rank, int phase, int microbatch) const {
    return (rank * phases() + phase) * microbatches_ + microbatch;
  }
  [[nodiscard]] int tasks() const { return ranks_ * phases() * microbatches_; }
  [[nodiscard]] int rank_of(int task) const { return task / (phases() * microbatches_); }
  [[nodiscard]] int phase_of(int task) const { return task / microbatches_ % phases(); }
  [[nodiscard]] int microbatch_of(int task) const { return task % microbatches_; }

  [[nodiscard]] Slot duration(int rank, int phase) const {
    const int row = rank * phases() + phase;
    return durations_[static_cast<std::size_t>(row)];
  }
  [[nodiscard]] Slot duration(int task) const {
    return durations_[static_cast<std::size_t>(task / microbatches_)];
  }
  /// Of an activation or a gradient. Requires: ranks next to each other.
  [[nodiscard]] Slot transfer(int from, int to) const {
    return from < to ? forward_[static_cast<std::size_t>(from)] : backward_[static_cast<std::size_t>(to)];
  }
  /// The clock of a rank begins here: 0 for the makespan, its earliest start for the span.
  [[nodiscard]] Slot clock_start(int rank) const { return clock_starts_[static_cast<std::size_t>(rank)]; }
  /// The longest lag of a precedence.
  [[nodiscard]] Slot longest_lag() const { return longest_lag_; }
  /// From the start of a microbatch's F on a rank to the end of its W or B there, when nothing else runs.
  [[nodiscard]] Slot round_trip(int rank) const;

  /// Empty when the order of F and I is open.
  [[nodiscard]] const KeptOrder& kept_order() const { return kept_order_; }
  [[nodiscard]] const std::vector<Precedence>& precedences() const { return precedences_; }
  /// All tasks, each behind those that precede it.
  [[nodiscard]] const std::vector<int>& order() const { return order_; }

 private:
  void read_costs(const SynthesisRequest& request);
  void add_precedences();
  void keep_order();
  void precede(int before, int after, Slot transfer);
  void sort_tasks();

  int ranks_;
  int microbatches_;
  int limit_;
  Nanoseconds unit_;
  std::vector<OpKind> kinds_;
  KeptOrder kept_order_;
  std::vector<Slot> durations_;     // by rank and phase
  std::vector<Slot> forward_;       // transfer from rank r to r + 1
  std::vector<Slot> backward_;      // transfer from rank r + 1 to r
  std::vector<Slot> clock_starts_;  // by rank
  std::vector<Precedence> precedences_;
  std::vector<int> order_;
  Slot longest_lag_ = 0;
};

/// Errors: as synthesize.
[[nodiscard]] Expected<void> check_request(const SynthesisRequest& request);

/// The longest time of which all durations are multiples. Requires: check_request(request).
[[nodiscard]] Nanoseconds common_unit(const SynthesisRequest& request);

}  // namespace ppsim::verifier::synthesis
