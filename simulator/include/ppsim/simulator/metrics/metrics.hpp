#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/core/execution/wait_analysis.hpp"
#include "ppsim/simulator/engine/simulate.hpp"

namespace ppsim::simulator {

/// A finished run of an analyzed Program: its times, and the costs and sizes that it had. Only refers to its
/// parts.
struct TimedRun {
  const AnalyzedProgram& analyzed;
  const TimedTrace& trace;
  const CostTable& costs;
  const SizeTable& sizes;
  /// The trace was measured: transfers took what it says, not what the costs say.
  bool measured = false;
  const Program& program = analyzed.program();
  const ExecutionGraph& graph = analyzed.timed_graph();
};

/// Where the compute queue of a rank stands idle between the step's start and its end. The parts add up to
/// makespan - busy.
///
/// A gap before a compute action belongs to exposed communication as far as the transfer, collective or copy
/// whose end the action waited for was in flight during the gap. The rest of a gap belongs to warm-up when it
/// lies before the rank's first B or I (on a rank without one: before its first compute action), to cool-down
/// when it lies after its last F (without one: after its last compute action), and to steady else. Of that
/// rest, the time by which the rank computes less than the rank that computes most is imbalance: it is taken
/// from steady, then from cool-down, then from warm-up.
struct BubbleBreakdown {
  Nanoseconds warmup = 0;
  Nanoseconds steady = 0;
  Nanoseconds cooldown = 0;
  Nanoseconds exposed_communication = 0;
  Nanoseconds imbalance = 0;

  [[nodiscard]] Nanoseconds total() const {
    return warmup + steady + cooldown + exposed_communication + imbalance;
  }
  BubbleBreakdown& operator+=(const BubbleBreakdown& other);
  friend bool operator==(const BubbleBreakdown&, const BubbleBreakdown&) = default;
};

/// Figures of one rank. Busy, start and end are those of its compute queue.
struct RankMetrics {
  RankTimes times;
  BubbleBreakdown bubble;
  Bytes peak_bytes = 0;
  Nanoseconds peak_at = 0;
  int peak_live_activations = 0;  ///< as the function of this name counts them
  Bytes sent_bytes = 0;           ///< by its SENDs

  [[nodiscard]] Nanoseconds idle() const { return times.span() - times.busy; }  ///< within its span
  friend bool operator==(const RankMetrics&, const RankMetrics&) = default;
};

/// One piece of the critical path. For a transfer or collective, the end that began last.
struct CriticalPiece {
  InstructionId instruction;
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  std::optional<WaitReason> reason;  ///< why it did not begin earlier; nothing at the start of the step
  friend bool operator==(const CriticalPiece&, const CriticalPiece&) = default;
};
/// "data", "queue", "after", "host", "channel", "credit", "place" or "step_start".
[[nodiscard]] std::string_view critical_reason_name(const CriticalPiece& piece);

/// Everything that the simulator says about one run.
struct RunMetrics {
  StepTimes times;
  IdVector<RankId, RankMetrics> ranks;
  IdVector<RankId, MemoryProfile> memory;

  /// Sum over the ranks.
  [[nodiscard]] BubbleBreakdown bubble() const;
  /// The share of the makespan in which a rank does not compute.
  [[nodiscard]] double bubble_fraction(RankId rank) const;
  friend bool operator==(const RunMetrics&, const RunMetrics&) = default;
};

/// Times of the compute queues of a run.
[[nodiscard]] StepTimes step_times(const Program& program, const TimedTrace& trace);

/// Requires: every instruction of the trace is complete.
[[nodiscard]] RunMetrics measure(const TimedRun& run);

/// Most (stage, microbatch, slice) of each rank that are live at once: from the start of F to the end of B or
/// W, to the end of the run without one; to the end of F on a rank that runs no backward at all. Every round
/// counts.
[[nodiscard]] IdVector<RankId, int> peak_live_activations(const Program& program, const TimedTrace& trace);

/// The longest chain of waits that leads to the end of the run, back to the step's start; in time order, each
/// step begins when the one before it ends. Of a measured run there is none: between an end and the start
/// that it allows lies time that nothing explains. Requires: every instruction of the trace is complete;
/// unless measured, its transfers took their costs.
[[nodiscard]] std::vector<CriticalPiece> critical_path(const TimedRun& run);

/// The throughput of one step on all devices together.
struct StepWork {
  double tokens = 0;
  double model_flops = 0;
  double peak_flops = 0;  ///< per second, of all devices
};
[[nodiscard]] double tokens_per_second(const StepWork& work, Nanoseconds makespan);
/// 0 where the peak is unknown.
[[nodiscard]] double model_flops_utilization(const StepWork& work, Nanoseconds makespan);

}  // namespace ppsim::simulator

namespace ppsim {
using simulator::BubbleBreakdown;
using simulator::critical_path;
using simulator::critical_reason_name;
using simulator::CriticalPiece;
using simulator::measure;
using simulator::model_flops_utilization;
using simulator::peak_live_activations;
using simulator::RankMetrics;
using simulator::RunMetrics;
using simulator::step_times;
using simulator::StepWork;
using simulator::TimedRun;
using simulator::tokens_per_second;
}  // namespace ppsim
