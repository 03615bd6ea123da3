#include "action_times.hpp"

#include <chrono>

#include "ppsim/core/ir/check.hpp"

namespace ppsim::gpu_backend {
namespace {

/// The costs of a transfer stand under its SEND.
std::vector<Nanoseconds> times_in(const Program& program, const CostTable& costs) {
  std::vector<Nanoseconds> times;
  times.reserve(program.all_actions().size());
  for (const InstructionId id : program.ids()) {
    const auto actions = program.actions(id);
    for (const Action& action : actions) {
      if (!is_communication(action.kind)) {
        times.push_back(costs(cost_class_of(actions, program.instruction(id).form)));
      } else if (is_receive(action.kind)) {
        times.push_back(costs(cost_class_of(counterpart(action, program.rank_of(id)))));
      } else {
        times.push_back(costs(cost_class_of(action)));
      }
    }
  }
  return times;
}

}  // namespace

ActionTimes::ActionTimes(const Program& program, const RunOptions& options)
    : program_(program), options_(options) {
  const auto* const emulated = std::get_if<EmulatedOptions>(&options.backend);
  given_ = emulated != nullptr || options.action_times;
  if (emulated != nullptr && !options.action_times) times_ = times_in(program, emulated->costs);
}

void ActionTimes::begin_step(int step) {
  if (!options_.action_times) return;
  times_ = options_.action_times(step);
  PPSIM_CHECK(times_.size() == program_.all_actions().size(), "a time for every action");
}

void ActionTimes::wait(InstructionId id, WallClock::time_point started) {
  const Nanoseconds takes = given_ ? (*this)(id, 0) : 0;
  if (takes == 0) return;
  ask_for_precise_waits();
  std::unique_lock lock(mutex_);
  over_.wait_until(lock, started + std::chrono::nanoseconds(takes), [&] { return interrupted_; });
}

void ActionTimes::interrupt() {
  const std::lock_guard lock(mutex_);
  interrupted_ = true;
  over_.notify_all();
}

}  // namespace ppsim::gpu_backend
