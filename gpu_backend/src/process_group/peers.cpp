#include "peers.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "agreement.hpp"
#include "bytes.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {
namespace {

using namespace std::chrono_literals;

constexpr auto kFinalStates = 4s;         // for processes that are known to run, or to wait in a driver
constexpr auto kFinalStatesGone = 500ms;  // where one is gone: the launcher is about to end all

[[noreturn]] void fail(const Error& error) { throw BackendError(error.code, error.message); }

/// Calls a function once a time is over, unless it is destroyed before; without a time, never.
class Timer {
 public:
  Timer(std::optional<std::chrono::nanoseconds> time, std::function<void()> over) {
    if (!time) return;
    thread_ = std::jthread([time = *time, over = std::move(over)](const std::stop_token& ended) {
      std::mutex mutex;
      std::condition_variable_any wake;
      std::unique_lock lock(mutex);
      wake.wait_for(lock, ended, time, [] { return false; });
      if (!ended.stop_requested()) over();
    });
  }

 private:
  std::jthread thread_;
};

}  // namespace

Peers::Peers(PeersSetup setup) : in_(std::move(setup)) {
  if (!alone()) in_.processes->listen(this);
}

Peers::~Peers() {
  if (!alone()) in_.processes->listen(nullptr);
}

void Peers::assemble() {
  if (alone()) return;
  if (const auto here = in_.processes->barrier(in_.timeout); !here) fail(here.error());
}

void Peers::assemble(const StepDeadline& deadline) {
  if (alone()) return;
  const Timer timer(deadline.limit(), [&] { static_cast<void>(stop(deadline.late())); });
  if (const auto here = in_.processes->barrier(); !here) fail(here.error());
}

std::string Peers::from_leader(const std::string& bytes) {
  return from_all(leads() ? bytes : std::string()).front();
}

std::vector<std::string> Peers::from_all(const std::string& bytes) {
  if (alone()) return {bytes};
  auto all = in_.processes->allgather(bytes, in_.timeout);
  if (!all) fail(all.error());
  return std::move(*all);
}

void Peers::begin_step(int step, const StepDeadline& deadline) {
  step_ = step;
  assemble(deadline);
}

Error Peers::stop(const Error& error) {
  if (alone()) return error;
  Error named = error;
  named.message = process_text(in_.processes->process(), in_.here) + ": " + error.message;
  in_.processes->stop(named);
  return stop_reason();
}

void Peers::stop_unbegun(const Error& error) {
  stop(error);
  send_states({}, true);
}

Error Peers::stop_reason() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stop_.has_value(); });
  return *stop_;
}

void Peers::throw_if_stopped() {
  if (stopped_) fail(stop_reason());
}

LocalRanks Peers::ranks_of(int process) const {
  const int each = in_.here.end - in_.here.begin;
  return {process * each, (process + 1) * each};
}

void Peers::send_states(std::span<const InstructionState> states, bool last) {
  if (alone()) return;
  const auto first = in_.program.first(RankId(in_.here.begin)).index();
  const auto end = in_.program.last(RankId(in_.here.end - 1)).index();
  const auto own = states.empty() ? states : states.subspan(first, end - first);
  if (last) own_.assign(states.begin(), states.end());
  in_.processes->note(ByteWriter().put(step_).put(last).put_all(own).take());
}

std::optional<Error> Peers::on_note(int process, std::string_view note) {
  ByteReader reader(note);
  const auto step = reader.get<int>();
  const bool last = reader.get<bool>();
  const auto own = reader.get_all<InstructionState>();
  const std::lock_guard lock(mutex_);
  if (states_.empty() || step > states_step_) {
    states_.assign(in_.program.size(), InstructionState::waiting);
    states_step_ = step;
  }
  if (step < states_step_ || hung_) return std::nullopt;
  const auto first = in_.program.first(RankId(ranks_of(process).begin)).index();
  std::ranges::copy(own, states_.begin() + static_cast<std::ptrdiff_t>(first));
  if (last) final_states_.insert(process);
  changed_.notify_all();
  const bool over =
      std::ranges::all_of(states_, [](InstructionState s) { return s == InstructionState::complete; });
  if (stop_ || over || can_move(in_.program, in_.graph, states_)) return std::nullopt;
  hung_ = true;
  return Error{ErrorCode::deadlock, "the run hung"};
}

void Peers::on_stop(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (!stop_) {
      stop_ = error;
      final_states_.clear();
    }
    stopped_ = true;
    changed_.notify_all();
  }
  in_.on_stop();
}

void Peers::wait_for_final_states(std::unique_lock<std::mutex>& lock) {
  if (hung_) return;  // the states that were sent before the stop say it all
  const std::vector<int> gone = in_.processes->gone();
  std::vector<int> expected;  // a process may have sent its final states and left
  for (int process = 0; process < in_.processes->size(); ++process) {
    if (!std::ranges::binary_search(gone, process)) expected.push_back(process);
  }
  const auto has_spoken = [&](int process) { return final_states_.contains(process); };
  changed_.wait_for(lock, gone.empty() ? kFinalStates : kFinalStatesGone,
                    [&] { return std::ranges::all_of(expected, has_spoken); });
  for (const int process : expected) {
    if (process == 0 || has_spoken(process)) continue;
    silent_.insert(process);
    in_.processes->give_up(process);  // nothing else waits for it
  }
}

std::vector<InstructionState> Peers::last_states() {
  if (alone() || !leads()) return {};
  std::unique_lock lock(mutex_);
  wait_for_final_states(lock);
  return states_;
}

std::vector<Wait> Peers::report() {
  if (alone()) return {};
  if (!leads()) {
    if (all_here() || own_.empty()) return {};
    return hang_report(in_.program, in_.graph, rank_queues(in_.program, in_.here.begin, in_.here.end), own_);
  }
  std::unique_lock lock(mutex_);
  wait_for_final_states(lock);
  if (hung_) return hang_report(in_.program, in_.graph, rank_queues(in_.program), states_);
  if (states_.empty()) return {};
  std::vector<RankQueue> queues;
  for (const int process : final_states_) {
    const LocalRanks ranks = ranks_of(process);
    for (RankQueue& queue : rank_queues(in_.program, ranks.begin, ranks.end))
      queues.push_back(std::move(queue));
  }
  return hang_report(in_.program, in_.graph, queues, states_);
}

Error Peers::explained(Error error) {
  const std::vector<Wait> waits = report();
  for (const int process : silent_)
    error.message += "\n" + process_text(process, ranks_of(process)) + " did not answer";
  for (const Wait& wait : waits) error.message += "\n" + to_string(wait);
  return error;
}

void Peers::collect(RunResult& result, const std::vector<StepBegin>& begins) {
  if (alone()) return;
  const std::string own = result_bytes(result, {in_.program, in_.here, begins});
  if (leads()) {
    const std::jthread at_work = in_.processes->at_work();
    put_together(result, own);
  } else if (const auto sent = in_.processes->gather(own); !sent) {
    fail(sent.error());
  }
  assemble();  // nobody leaves, and ends its connections, before process 0 has all
}

void Peers::put_together(RunResult& result, const std::string& own) {
  const auto parts = in_.processes->gather(own, in_.timeout);
  if (!parts) fail(parts.error());
  const auto clocks = in_.processes->clock_offsets(in_.timeout);
  if (!clocks) fail(clocks.error());
  result.processes.clear();
  for (int p = 0; p < in_.processes->size(); ++p) {
    const LocalRanks ranks = ranks_of(p);
    result.processes.push_back({RankId(ranks.begin), ranks.end - ranks.begin, (*clocks)[as_size(p)]});
  }
  merge_results(result, in_.program, *parts);
}

}  // namespace ppsim::gpu_backend
