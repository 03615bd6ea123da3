#pragma once

#include <cstddef>
#include <vector>

#include "ppsim/verifier/synthesis/synthesis.hpp"
#include "synthesis/kept_order.hpp"
#include "synthesis/rooms.hpp"

namespace ppsim::verifier::synthesis {

/// A time in units of the model.
using Slot = std::int64_t;

/// start(after) >= start(before) + lag.
struct Precedence {
  int before = 0;
  int after = 0;
  Slot lag = 0;
};

/// The actions of a chain as tasks of one machine per rank. Each stage runs each of its phases (F, I, W or
/// F, B) in the order of the microbatches: that is a strand. Tasks are numbered by stage, then phase, then
/// microbatch.
class ChainModel {
 public:
  /// Durations are rounded to the nearest multiple of `unit`, at least one.
  /// Requires: a request that check_request accepts, and room for one microbatch at a time.
  ChainModel(const SynthesisRequest& request, Nanoseconds unit);

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int stages() const { return static_cast<int>(placement_.size()); }
  [[nodiscard]] int microbatches() const { return microbatches_; }
  [[nodiscard]] int phases() const { return static_cast<int>(kinds_.size()); }
  [[nodiscard]] int strands() const { return stages() * phases(); }
  [[nodiscard]] OpKind kind(int phase) const { return kinds_[static_cast<std::size_t>(phase)]; }
  [[nodiscard]] Nanoseconds unit() const { return unit_; }
  /// Whether stage s is on rank s.
  [[nodiscard]] bool one_stage_each() const { return one_stage_each_; }

  [[nodiscard]] int strand(int stage, int phase) const { return stage * phases() + phase; }
  [[nodiscard]] int task(int stage, int phase, int microbatch) const {
    return strand(stage, phase) * microbatches_ + microbatch;
  }
  [[nodiscard]] int tasks() const { return strands() * microbatches_; }
  [[nodiscard]] int strand_of(int task) const { return task / microbatches_; }
  [[nodiscard]] int stage_of(int task) const { return strand_of(task) / phases(); }
  [[nodiscard]] int phase_of(int task) const { return strand_of(task) % phases(); }
  [[nodiscard]] int microbatch_of(int task) const { return task % microbatches_; }
  [[nodiscard]] int rank_of_stage(int stage) const { return placement_[as_size(stage)]; }
  [[nodiscard]] int rank_of(int task) const { return rank_of_stage(stage_of(task)); }
  /// The stages of a rank, ascending.
  [[nodiscard]] const std::vector<int>& stages_of(int rank) const { return stages_of_[as_size(rank)]; }

  [[nodiscard]] Slot duration(int stage, int phase) const {
    return durations_[as_size(strand(stage, phase))];
  }
  [[nodiscard]] Slot duration(int task) const { return durations_[as_size(task / microbatches_)]; }
  /// Of an activation or a gradient between stages next to each other; none on one rank.
  [[nodiscard]] Slot transfer(int from, int to) const {
    return from < to ? forward_[as_size(from)] : backward_[as_size(to)];
  }
  /// The clock of a rank begins here, or before: 0 for the makespan, its earliest start for the span.
  [[nodiscard]] Slot clock_start(int rank) const { return clock_starts_[as_size(rank)]; }
  /// The longest lag of a precedence.
  [[nodiscard]] Slot longest_lag() const { return longest_lag_; }
  /// From the start of a microbatch's F of a stage to the end of its W or B there, when nothing else runs.
  [[nodiscard]] Slot round_trip(int stage) const;

  /// Microbatches of a stage that can be live at a time, at most.
  [[nodiscard]] int limit(int stage) const { return limits_[as_size(stage)]; }
  /// The room that is certain to be taken in every timing.
  [[nodiscard]] const Rooms& certain_rooms() const { return certain_; }

  /// Empty when the order of F and I is open.
  [[nodiscard]] const KeptOrder& kept_order() const { return kept_order_; }
  [[nodiscard]] const std::vector<Precedence>& precedences() const { return precedences_; }
  /// All tasks, each behind those that precede it.
  [[nodiscard]] const std::vector<int>& order() const { return order_; }

 private:
  void place(const SynthesisRequest& request);
  void read_costs(const SynthesisRequest& request);
  [[nodiscard]] Slot time_of_everything() const;
  void start_clocks(const SynthesisRequest& request);
  void add_precedences();
  void keep_order();
  void precede(int before, int after, Slot transfer);
  void sort_tasks();

  int ranks_;
  int microbatches_;
  Nanoseconds unit_;
  std::vector<OpKind> kinds_;
  KeptOrder kept_order_;
  Rooms certain_;
  bool one_stage_each_ = true;
  std::vector<int> placement_;               // by stage
  std::vector<std::vector<int>> stages_of_;  // by rank
  std::vector<int> limits_;                  // by stage
  std::vector<Slot> durations_;              // by strand
  std::vector<Slot> forward_;                // transfer from stage s to s + 1
  std::vector<Slot> backward_;               // transfer from stage s + 1 to s
  std::vector<Slot> clock_starts_;           // by rank
  std::vector<Precedence> precedences_;
  std::vector<int> order_;
  Slot longest_lag_ = 0;
};

/// Errors: as synthesize.
[[nodiscard]] Expected<void> check_request(const SynthesisRequest& request);

/// The longest time of which all durations are multiples. Requires: check_request(request).
[[nodiscard]] Nanoseconds common_unit(const SynthesisRequest& request);

}  // namespace ppsim::verifier::synthesis
