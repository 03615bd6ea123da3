#include "duration_check.hpp"

#include <algorithm>
#include <limits>

#include "effects/device_loads.hpp"
#include "engine/event_run.hpp"

namespace ppsim::simulator {
namespace {

/// Of computation on a shared device, so that its parts can be counted: a day.
constexpr Nanoseconds kMaxSharedWork = 86'400'000'000'000;

/// Without other ranks, but beside a transfer where that is slower.
Nanoseconds own_duration(const CostClass& key, const ContendedCosts& costs) {
  return std::max(costs.costs(key), costs.beside_transfers(key));
}

/// Whether other ranks of the device can slow the action down: they do not slow transfers down.
bool is_shared_work(const CostClass& key, const SharedDevices& devices) {
  return slows_down(devices) && info(key.kind).resource == Resource::compute;
}

/// The duration of an action that everything slows down that can; negative where that does not fit.
Nanoseconds max_duration(const CostClass& key, const ContendedCosts& costs, const SharedDevices& devices) {
  const Nanoseconds duration = own_duration(key, costs);
  if (!is_shared_work(key, devices)) return duration;
  const Rate rate = DeviceLoads::both(DeviceLoads::rate(devices, key.kind, devices.ranks - 1),
                                      DeviceLoads::own_rate(devices, true, true));
  __extension__ using Wide = __int128;
  const Wide slowed = (Wide{duration} * kFullSpeed + rate - 1) / rate;
  return slowed > std::numeric_limits<Nanoseconds>::max() ? -1 : static_cast<Nanoseconds>(slowed);
}

/// Whether `fits` holds for the cost class of every instruction, and of every action of a group.
template <class F>
bool all_classes(const Program& program, F fits) {
  for (const InstructionId id : program.ids()) {
    const auto actions = program.actions(id);
    const InstructionForm form = program.instruction(id).form;
    if (form != InstructionForm::group) {
      if (!fits(cost_class_of(actions, form))) return false;
      continue;
    }
    for (const Action& action : actions)
      if (!fits(cost_class_of(action))) return false;
  }
  return true;
}

/// Whether the parts of all computation on shared devices can be counted.
bool parts_fit(const Program& program, const ContendedCosts& costs, const SharedDevices& devices) {
  return all_classes(program, [&](const CostClass& key) {
    return !is_shared_work(key, devices) || own_duration(key, costs) <= kMaxSharedWork;
  });
}

/// Whether all durations together fit in 64 bits, so that no sum of some of them can overflow.
bool durations_fit(const Program& program, const ContendedCosts& costs, const SharedDevices& devices) {
  Nanoseconds all = 0;
  return all_classes(program, [&](const CostClass& key) {
    const Nanoseconds longest = max_duration(key, costs, devices);
    return longest >= 0 && !__builtin_add_overflow(all, longest, &all);
  });
}

}  // namespace

Expected<void> check_durations(const Program& program, const ContendedCosts& costs,
                               const SharedDevices& devices) {
  if (!parts_fit(program, costs, devices))
    return make_error(ErrorCode::bad_argument, "computation on a shared device takes too long",
                      {.found = "an action of more than a day", .expected = "at most 24 hours each"});
  if (!durations_fit(program, costs, devices)) return tl::unexpected(durations_do_not_fit());
  return {};
}

}  // namespace ppsim::simulator
