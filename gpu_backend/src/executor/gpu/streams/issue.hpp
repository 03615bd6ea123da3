#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <iterator>
#include <mutex>
#include <thread>
#include <vector>

#include "executor/gpu/rank_run.hpp"
#include "process_group/peers.hpp"

namespace ppsim::gpu_backend {

/// The input of enqueuing steps. Everything outlives it.
struct IssueSetup {
  std::deque<RankRun>& runs;
  const HostClock& clock;
  GpuChannels& channels;
  const Peers& peers;
  bool one_graph = false;  ///< the first rank's graph has the steps of all
};

/// The host's part of all steps of a run: the calling thread for all ranks, or a thread for each of them that
/// is there from the first step to the last one and waits in between.
class Issuer {
 public:
  /// Errors: throws BackendError where there are no more threads to be had.
  Issuer(const IssueSetup& setup, bool threads);

  /// Begins a step on every rank, as RankRun, and enqueues it; leaves at `end` what is not enqueued by then.
  /// Returns: false when the channels had to be released, for a thread that was held in a call.
  /// Errors: as RankRun; then the others leave too.
  [[nodiscard]] bool run_step(bool takes, Nanoseconds end) { return run({.takes = takes, .end = end}); }
  /// Captures a step on every rank in the same way, and ends the capture where all of it is in.
  [[nodiscard]] bool capture(bool takes, Nanoseconds end) {
    return run({.captures = true, .takes = takes, .end = end});
  }

 private:
  struct Step {
    std::uint64_t number = 0;  ///< from 1
    bool captures = false;
    bool takes = false;
    Nanoseconds end = 0;
  };

  [[nodiscard]] bool run(Step step);
  void begin(RankRun& run) const;
  void end(RankRun& run) const;
  void issue_together();
  template <class Work>
  void for_others(const Work& work) const {
    std::for_each(std::next(setup_.runs.begin()), setup_.runs.end(), work);
  }
  void begin_together() const;
  void end_together() const;
  [[nodiscard]] bool issue_with_threads();
  void serve(std::size_t rank, const std::stop_token& stop);
  void issue(RankRun& run);
  [[nodiscard]] bool wait_until_left();
  [[nodiscard]] bool over() const;

  IssueSetup setup_;
  Step step_;
  std::atomic<bool> failed_ = false;
  std::vector<std::exception_ptr> failures_;  ///< per rank, in this step
  std::mutex mutex_;                          ///< of the step, and of how many threads are inside of it
  std::condition_variable_any begun_;
  std::condition_variable left_;
  std::size_t inside_ = 0;
  std::vector<std::jthread> threads_;  ///< they end before what they use
};

}  // namespace ppsim::gpu_backend
