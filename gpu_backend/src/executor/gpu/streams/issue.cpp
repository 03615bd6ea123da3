#include "issue.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {
namespace {

using std::chrono::steady_clock;

/// Time that threads have to leave a step after its deadline. What has not left by then is held in a call:
/// the driver does not return from one while the queue that it belongs to is full.
constexpr std::chrono::seconds kLeaveTime(2);

}  // namespace

Issuer::Issuer(const IssueSetup& setup, bool threads) : setup_(setup) {
  if (!threads || setup_.one_graph) return;
  failures_.resize(setup_.runs.size());
  try {
    for (std::size_t r = 0; r < setup_.runs.size(); ++r) {
      threads_.emplace_back([this, r](const std::stop_token& stop) { serve(r, stop); });
    }
  } catch (const std::system_error& error) {
    throw BackendError(ErrorCode::io, std::string("a host thread for each rank: ") + error.what());
  }
}

bool Issuer::run(Step step) {
  {
    const std::scoped_lock lock(mutex_);
    step.number = step_.number + 1;
    step_ = step;
    inside_ = threads_.size();
  }
  if (!threads_.empty()) return issue_with_threads();
  issue_together();
  return true;
}

bool Issuer::over() const { return setup_.clock.now() >= step_.end || setup_.peers.stopped(); }

void Issuer::begin(RankRun& run) const {
  step_.captures ? run.begin_capture(step_.takes) : run.begin_step(step_.takes);
}

/// A capture is ended by the thread that began it.
void Issuer::end(RankRun& run) const {
  if (!step_.captures) return;
  run.issued() ? run.end_capture() : run.abandon_capture();
}

void Issuer::issue_together() {
  begin_together();
  const auto issued = [](const RankRun& run) { return run.issued(); };
  while (!std::ranges::all_of(setup_.runs, issued) && !over()) {
    bool moved = false;
    for (RankRun& run : setup_.runs) moved = run.advance() || moved;
    if (!moved) setup_.clock.pause();
  }
  end_together();
}

void Issuer::begin_together() const {
  if (!setup_.one_graph) {
    for (RankRun& run : setup_.runs) begin(run);
    return;
  }
  RankRun& leader = setup_.runs.front();
  if (step_.captures) {
    leader.begin_capture(step_.takes);
    for_others([&](RankRun& run) { run.join_capture(leader, step_.takes); });
    return;
  }
  for_others([&](RankRun& run) {
    run.await_leader();
    leader.begin_after(run);
  });
  leader.begin_step(step_.takes);
  for_others([](RankRun& run) { run.follow_leader(); });
}

void Issuer::end_together() const {
  if (!setup_.one_graph || !step_.captures) {
    for (RankRun& run : setup_.runs) end(run);
    return;
  }
  RankRun& leader = setup_.runs.front();
  const auto issued = [](const RankRun& run) { return run.issued(); };
  if (!std::ranges::all_of(setup_.runs, issued)) return leader.abandon_capture();
  for_others([&](RankRun& run) { run.leave_capture(leader); });
  end(leader);
}

bool Issuer::issue_with_threads() {
  begun_.notify_all();
  const bool left = wait_until_left();
  for (const std::exception_ptr& failure : failures_) {
    if (failure) std::rethrow_exception(failure);
  }
  return left;
}

/// Waits until all threads have left the step. Those that are late once they should leave are released again
/// and again. Returns: whether all left by themselves.
bool Issuer::wait_until_left() {
  constexpr std::chrono::milliseconds kLook(20);
  std::unique_lock lock(mutex_);
  steady_clock::time_point late = steady_clock::time_point::max();
  bool by_themselves = true;
  while (!left_.wait_for(lock, kLook, [&] { return inside_ == 0; })) {
    const auto now = steady_clock::now();
    if (late == steady_clock::time_point::max() && (failed_ || over())) late = now + kLeaveTime;
    if (now < late) continue;
    by_themselves = false;
    setup_.channels.release();
  }
  return by_themselves;
}

void Issuer::serve(std::size_t rank, const std::stop_token& stop) {
  for (std::uint64_t done = 0;; ++done) {
    {
      std::unique_lock lock(mutex_);
      if (!begun_.wait(lock, stop, [&] { return step_.number > done; })) return;
    }
    try {
      issue(setup_.runs[rank]);
    } catch (...) {
      failures_[rank] = std::current_exception();
      setup_.runs[rank].abandon_capture();
      failed_ = true;  // the others would wait for it
    }
    const std::scoped_lock lock(mutex_);
    if (--inside_ == 0) left_.notify_one();
  }
}

void Issuer::issue(RankRun& run) {
  begin(run);
  while (!failed_ && !run.issued() && !over()) {
    if (!run.advance()) setup_.clock.pause();
  }
  end(run);
}

}  // namespace ppsim::gpu_backend
