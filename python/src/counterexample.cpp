#include "counterexample.hpp"

#include <nanobind/stl/string.h>

#include "ppsim/core/memory/tensors.hpp"

namespace ppsim::python {
namespace {

nb::dict data_of(const Program&, const std::vector<Violation>& violations) {
  nb::list messages;
  for (const Violation& violation : violations) messages.append(violation.message);
  return data({{"violations", messages}});
}

nb::list waits_data(const std::vector<Wait>& waits) {
  nb::list result;
  for (const Wait& wait : waits) {
    nb::dict item = instruction_data(wait.who);
    item["waits_for"] = instruction_data(wait.waits_for);
    item["why"] = wait.why;
    result.append(item);
  }
  return result;
}

nb::dict data_of(const Program&, const Deadlock& deadlock) {
  nb::list absent;
  for (const Wait& culprit : deadlock.culprits) {
    nb::dict item = instruction_data(culprit.who);
    item["why"] = culprit.why;
    absent.append(item);
  }
  nb::dict result;
  result["cycle"] = waits_data(deadlock.cycle);
  if (!deadlock.culprits.empty()) result["absent"] = absent;
  result["blocked_instructions"] = deadlock.blocked;
  return result;
}

nb::dict data_of(const Program&, const ResidencyHang& hang) {
  nb::list resident;
  for (const NamedInstruction& place : hang.resident) resident.append(instruction_data(place));
  return data({{"residency", hang.residency},
               {"resident", resident},
               {"waits", waits_data(hang.waits)},
               {"blocked_instructions", hang.blocked}});
}

nb::dict data_of(const Program& program, const MemoryOverrun& overrun) {
  nb::list live;
  for (const Tensor& tensor : overrun.live) live.append(tensor_text(tensor));
  nb::list firing_order;
  for (std::size_t i = 0; i < overrun.firing_order.moment; ++i) {
    const std::uint32_t item = overrun.firing_order.items[i];
    nb::dict event =
        instruction_data(named_instruction(program, InstructionId(static_cast<std::int32_t>(item / 2))));
    event["event"] = item % 2 == 0 ? "start" : "end";
    firing_order.append(event);
  }
  return data({{"rank", overrun.rank.value()},
               {"bytes", overrun.bytes},
               {"limit", overrun.limit},
               {"live", live},
               {"firing_order", firing_order}});
}

nb::dict data_of(const Program& program, const LateEnd& late) {
  nb::list path;
  for (const TimedStep& step : late.critical_path) {
    nb::dict item = instruction_data(named_instruction(program, step.instruction));
    item["start_ns"] = step.start;
    item["end_ns"] = step.end;
    path.append(item);
  }
  return data({{"makespan_ns", late.makespan}, {"limit_ns", late.limit}, {"critical_path", path}});
}

}  // namespace

nb::dict instruction_data(const NamedInstruction& place) {
  return data({{"rank", place.rank.value()}, {"index", place.index}, {"action", place.action}});
}

nb::dict counterexample_data(const Program& program, const Counterexample& counterexample) {
  return std::visit([&](const auto& value) { return data_of(program, value); }, counterexample);
}

}  // namespace ppsim::python
