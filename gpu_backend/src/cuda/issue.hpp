#pragma once

#include <deque>

#include "cuda/rank_run.hpp"
#include "processes/peers.hpp"

namespace ppsim {

/// A step that the host enqueues, and until when. Everything outlives it.
struct IssueSetup {
  std::deque<RankRun>& runs;
  const HostClock& clock;
  GpuChannels& channels;
  const Peers& peers;
  Nanoseconds end = 0;
};

/// With one thread for all ranks. Errors: as RankRun.
void issue_together(const IssueSetup& setup);
/// With a thread for each rank. Errors: as RankRun; then the others leave too.
void issue_with_threads(const IssueSetup& setup);

}  // namespace ppsim
