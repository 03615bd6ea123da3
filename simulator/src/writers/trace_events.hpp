#pragma once

#include <string>
#include <vector>

#include "ppsim/simulator/metrics/metrics.hpp"

namespace ppsim::simulator {

/// An instruction on one of its queues.
struct TraceSlice {
  RankId rank;
  int queue = 0;
  InstructionId instruction;
  Nanoseconds start = 0;
  Nanoseconds end = 0;
};

/// A message, as an arrow from a moment within its SEND to a moment within its RECV, never backwards in time.
struct TraceFlow {
  std::size_t from = 0;  ///< slice of the SEND
  std::size_t to = 0;    ///< slice of the RECV
  Nanoseconds leaves = 0;
  Nanoseconds arrives = 0;
};

/// A queue that a rank uses.
struct TraceQueue {
  RankId rank;
  int queue = 0;
};

/// A run as viewers of traces show it.
struct TraceEvents {
  std::vector<TraceQueue> queues;  ///< rank by rank, ascending
  std::vector<TraceSlice> slices;  ///< queue by queue, in issue order
  std::vector<TraceFlow> flows;
  IdVector<RankId, MemoryProfile> memory;
};

[[nodiscard]] TraceEvents trace_events(const TimedRun& run);

/// Which of the runs of a trace this is, and how they number their ranks and flows so that none has two of
/// the same number.
struct TracePlace {
  int run = 0;
  int runs = 1;
  std::string name = {};  ///< of the run; empty: there is no other

  [[nodiscard]] int process(RankId rank) const { return rank.value() * runs + run; }
  [[nodiscard]] std::size_t flow(std::size_t index) const { return index * as_size(runs) + as_size(run); }
  [[nodiscard]] std::string process_name(RankId rank) const {
    return "rank " + std::to_string(rank.value()) + (name.empty() ? "" : " " + name);
  }
};

/// "PP:" and the text of the instruction's actions.
[[nodiscard]] std::string slice_name(const Program& program, InstructionId id);

}  // namespace ppsim::simulator
