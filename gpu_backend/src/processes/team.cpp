#include "team.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "agreement.hpp"
#include "bytes.hpp"
#include "merge_results.hpp"
#include "ppsim/gpu_backend/device.hpp"

namespace ppsim {
namespace {

using namespace std::chrono_literals;

constexpr auto kQuiet = 25ms;           // states that last so long are worth a message
constexpr auto kLastWords = 5s;         // for processes that are known to be there
constexpr auto kLastWordsGone = 500ms;  // where one is not: the launcher is about to end all

}  // namespace

Team::Team(const RunInput& input, const ExecutionGraph& graph, Monitor& monitor)
    : input_(input), graph_(graph), monitor_(monitor), processes_(input.options.processes) {
  if (!alone()) processes_->listen(this);
}

Team::~Team() {
  if (!alone()) processes_->listen(nullptr);
}

void Team::assemble() {
  if (alone()) return;
  if (const auto here = processes_->barrier(); !here)
    throw BackendError(here.error().code, here.error().message);
}

void Team::begin_step(int step) {
  step_ = step;
  sent_changes_ = std::numeric_limits<std::uint64_t>::max();
  assemble();
}

void Team::watch() {
  const std::lock_guard lock(mutex_);
  if (stop_) monitor_.stop(StepEnd::stopped);
}

StepEnd Team::wait_for_end(std::optional<std::chrono::nanoseconds> deadline) {
  if (alone()) return monitor_.wait_for_end(deadline);
  const StepEnd end = wait_together(deadline);
  if (end != StepEnd::finished && end != StepEnd::stopped) return end;
  send_states(monitor_.snapshot(), true);
  if (end == StepEnd::stopped) return end;
  const auto all = processes_->barrier();
  if (all) return end;
  on_stop(all.error());
  send_states(monitor_.snapshot(), true);  // once more: these are the last words
  return StepEnd::stopped;
}

StepEnd Team::wait_together(std::optional<std::chrono::nanoseconds> deadline) {
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    if (const auto end = monitor_.wait_for_end_within(kQuiet)) return *end;
    if (deadline && std::chrono::steady_clock::now() - begin > *deadline) monitor_.stop(StepEnd::late);
    const Monitor::Snapshot snapshot = monitor_.snapshot();
    if (snapshot.quiet && snapshot.changes != sent_changes_) send_states(snapshot, false);
  }
}

Error Team::stop(const Error& error) {
  Error named = error;
  if (!alone()) {
    named.message = process_text(processes_->process(), input_.here) + ": " + error.message;
    processes_->stop(named);
    send_states(monitor_.snapshot(), true);
    return stop_reason();
  }
  return named;
}

Error Team::stop_reason() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stop_.has_value(); });
  return *stop_;
}

RankRange Team::ranks_of(int process) const {
  const int each = input_.here.end - input_.here.begin;
  return {process * each, (process + 1) * each};
}

void Team::send_states(const Monitor::Snapshot& snapshot, bool last) {
  sent_changes_ = snapshot.changes;
  const auto first = input_.program.first(RankId(input_.here.begin)).index();
  const auto end = input_.program.last(RankId(input_.here.end - 1)).index();
  const std::span<const InstructionState> own(snapshot.states.data() + first, end - first);
  processes_->note(ByteWriter().put(step_).put(last).put_all(own).take());
}

std::optional<Error> Team::on_note(int process, std::string_view note) {
  ByteReader reader(note);
  const auto step = reader.get<int>();
  const bool last = reader.get<bool>();
  const auto own = reader.get_all<InstructionState>();
  const std::lock_guard lock(mutex_);
  if (states_.empty() || step > states_step_) {
    states_.assign(input_.program.size(), InstructionState::waiting);
    states_step_ = step;
  }
  if (step < states_step_ || hung_) return std::nullopt;
  const auto first = input_.program.first(RankId(ranks_of(process).begin)).index();
  std::copy(own.begin(), own.end(), states_.begin() + static_cast<std::ptrdiff_t>(first));
  if (last) last_words_.insert(process);
  changed_.notify_all();
  const bool over = std::all_of(states_.begin(), states_.end(),
                                [](InstructionState s) { return s == InstructionState::complete; });
  if (stop_ || over || can_move(graph_, states_)) return std::nullopt;
  hung_ = true;
  return Error{ErrorCode::deadlock, "the run hung"};
}

void Team::on_stop(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (!stop_) {
      stop_ = error;
      last_words_.clear();
    }
    changed_.notify_all();
  }
  monitor_.stop(StepEnd::stopped);
}

std::vector<HangWait> Team::report() {
  if (alone() || !leads()) return {};
  std::unique_lock lock(mutex_);
  if (hung_) return hang_report(graph_, make_lanes(input_.program), states_);
  const auto size = static_cast<std::size_t>(processes_->size());
  const std::vector<int> gone = processes_->gone();
  changed_.wait_for(lock, gone.empty() ? kLastWords : kLastWordsGone,
                    [&] { return last_words_.size() + gone.size() >= size; });
  if (states_.empty()) return {};
  std::vector<Lane> lanes;
  for (const int process : last_words_) {
    const RankRange ranks = ranks_of(process);
    for (Lane& lane : make_lanes(input_.program, ranks.begin, ranks.end)) lanes.push_back(std::move(lane));
  }
  return hang_report(graph_, lanes, states_);
}

void Team::collect(RunResult& result, const std::vector<Nanoseconds>& origins_ns) {
  if (alone()) return;
  const auto fail = [](const Error& error) { throw BackendError(error.code, error.message); };
  const auto parts = processes_->gather(result_bytes(result, input_, origins_ns));
  if (!parts) fail(parts.error());
  if (!leads()) return;
  const auto clocks = processes_->clock_offsets();
  if (!clocks) fail(clocks.error());
  result.processes.clear();
  for (int p = 0; p < processes_->size(); ++p) {
    const RankRange ranks = ranks_of(p);
    result.processes.push_back(
        {RankId(ranks.begin), ranks.end - ranks.begin, (*clocks)[static_cast<std::size_t>(p)]});
  }
  merge_results(result, input_.program, *parts);
}

}  // namespace ppsim
