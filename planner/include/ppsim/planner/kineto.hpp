#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim::planner {

/// One time that PyTorch did an action: what its profiler calls `PP:<cell>`.
struct KinetoRange {
  std::string cell;  ///< "0F3", "(0F8;7B3)OVERLAP_F_B"
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  friend bool operator==(const KinetoRange&, const KinetoRange&) = default;
};

/// The ranges of one file of torch.profiler, on the clock of its process.
struct KinetoRanges {
  std::string file;
  bool on_device = false;           ///< of kernels; else of the host, which may wait for messages inside them
  std::vector<KinetoRange> ranges;  ///< by start
};

/// Reads a trace in JSON. Where it has ranges of the GPU for computation, these count, else those of the
/// host. Errors: bad_file for what is no such trace, has no such range, or is compressed.
[[nodiscard]] Expected<KinetoRanges> read_kineto(std::string_view text, const std::string& file);

/// Reads a report of Nsight Systems that was exported to SQLite: of each process its NVTX ranges. Where
/// kernels were recorded a range goes from the start of the first kernel launched within it to the end of the
/// last one, those of NCCL aside, else it is that of the host. Errors: bad_file for what is no such export,
/// or has no such range.
[[nodiscard]] Expected<std::vector<KinetoRanges>> read_nsys(const std::string& file);

/// The .json files of folders, by name, and files as they are.
/// Errors: io; bad_file for a folder without such files.
[[nodiscard]] Expected<std::vector<std::string>> kineto_files(const std::vector<std::string>& paths);

/// The offset added to the times of a rank, so that all have the clock of the first one, and by how much that
/// may be off in both directions; nothing: no message says.
struct RankClock {
  Nanoseconds offset = 0;
  std::optional<Nanoseconds> error;
  friend bool operator==(const RankClock&, const RankClock&) = default;
};

/// The newest step in traces of all ranks. Its transfers and collectives did not happen, as far as the trace
/// says: a range of one is the time of its launch.
struct KinetoStep {
  TimedTrace trace;
  IdVector<RankId, RankClock> clocks;
  bool shared_clock = false;  ///< no message contradicts the clocks as they are, so that they were left
};

/// Finds the computation of a Program in traces, one a rank, in any order, and puts it on one clock.
///
/// A message is there before it is used: its producer ends before its consumer starts, or ends where a range
/// of the host contains the wait. So each message bounds the difference of two clocks on one side, messages
/// back on the other side, and chains of messages as well; the offset is the middle of what is left. Errors:
/// bad_file for computation that is missing, doubled between files or out of order, and for messages that no
/// clocks explain.
[[nodiscard]] Expected<KinetoStep> step_of_kineto(std::span<const KinetoRanges> files,
                                                  const Program& program);

}  // namespace ppsim::planner

namespace ppsim {
using planner::kineto_files;
using planner::KinetoRange;
using planner::KinetoRanges;
using planner::KinetoStep;
using planner::RankClock;
using planner::read_kineto;
using planner::read_nsys;
using planner::step_of_kineto;
}  // namespace ppsim
