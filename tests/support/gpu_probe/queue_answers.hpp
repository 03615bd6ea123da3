#pragma once

#include "support/gpu_probe/probe_machine.hpp"

namespace ppsim::test {

/// Whether kernels still run on every part while so many streams wait for a number in memory.
struct WaitingStreams {
  int waiting = 0;
  bool kernels_run = false;
  bool all_released = false;  ///< once the number is there
};
/// `graphs`: the kernels and the waits of a part are branches of one graph. Errors: throws BackendError.
[[nodiscard]] WaitingStreams run_beside_waiting(const ProbeMachine& machine, int parts, int waiting,
                                                bool graphs);

/// A thread that launches kernels behind a wait until the queue is full, and another one that works on
/// another part meanwhile.
struct FullQueue {
  int launches = 0;         ///< that it tried
  int held_after = 0;       ///< as many came through before it was held; all: it never was
  bool others_run = false;  ///< while it was held
  bool released = false;    ///< it came through once the number was there
};
/// Requires: parts > 1. Errors: throws BackendError.
[[nodiscard]] FullQueue fill_queue(const ProbeMachine& machine, int parts);

/// Copies within the device on a stream of a part, and work on another stream of it, alone and together.
struct CopyTimes {
  std::int64_t bytes = 0;
  Nanoseconds whole_ns = 0;  ///< a copy, on the whole device
  Nanoseconds copy_ns = 0;   ///< on a part
  Nanoseconds work_ns = 0;
  Nanoseconds work_beside_ns = 0;
  Nanoseconds copy_beside_ns = 0;
};
[[nodiscard]] CopyTimes time_copies(const ProbeMachine& machine, int parts);

}  // namespace ppsim::test
