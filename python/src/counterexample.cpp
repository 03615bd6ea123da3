#include "counterexample.hpp"

#include <nanobind/stl/string.h>

#include "ppsim/core/memory/tensors.hpp"

namespace ppsim::python {
namespace {

nb::dict data_of(const Program&, const std::vector<Violation>& violations) {
  nb::list messages;
  for (const Violation& violation : violations) messages.append(violation.message);
  nb::dict result;
  result["violations"] = messages;
  return result;
}

nb::list waits_data(const std::vector<Wait>& waits) {
  nb::list result;
  for (const Wait& wait : waits) {
    nb::dict item = place_data(wait.who);
    item["waits_for"] = place_data(wait.waits_for);
    item["why"] = wait.why;
    result.append(item);
  }
  return result;
}

nb::dict data_of(const Program&, const Deadlock& deadlock) {
  nb::list absent;
  for (const Wait& culprit : deadlock.culprits) {
    nb::dict item = place_data(culprit.who);
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
  for (const Place& place : hang.resident) resident.append(place_data(place));
  nb::dict result;
  result["residency"] = hang.residency;
  result["resident"] = resident;
  result["waits"] = waits_data(hang.waits);
  result["blocked_instructions"] = hang.blocked;
  return result;
}

nb::dict data_of(const Program& program, const MemoryOverrun& overrun) {
  nb::list live;
  for (const Tensor& tensor : overrun.live) live.append(tensor_text(tensor));
  nb::list firing_order;
  for (std::size_t i = 0; i < overrun.firing_order.moment; ++i) {
    const std::uint32_t item = overrun.firing_order.items[i];
    nb::dict event = place_data(place_of(program, InstructionId(static_cast<std::int32_t>(item / 2))));
    event["event"] = item % 2 == 0 ? "start" : "end";
    firing_order.append(event);
  }
  nb::dict result;
  result["rank"] = overrun.rank.value();
  result["bytes"] = overrun.bytes;
  result["limit"] = overrun.limit;
  result["live"] = live;
  result["firing_order"] = firing_order;
  return result;
}

nb::dict data_of(const Program& program, const LateEnd& late) {
  nb::list path;
  for (const TimedStep& step : late.critical_path) {
    nb::dict item = place_data(place_of(program, step.instruction));
    item["start_ns"] = step.start;
    item["end_ns"] = step.end;
    path.append(item);
  }
  nb::dict result;
  result["makespan_ns"] = late.makespan;
  result["limit_ns"] = late.limit;
  result["critical_path"] = path;
  return result;
}

}  // namespace

nb::dict place_data(const Place& place) {
  nb::dict result;
  result["rank"] = place.rank.value();
  result["index"] = place.index;
  result["action"] = place.action;
  return result;
}

nb::dict counterexample_data(const Program& program, const Counterexample& counterexample) {
  return std::visit([&](const auto& value) { return data_of(program, value); }, counterexample);
}

}  // namespace ppsim::python
