#include "output/counterexample_json.hpp"

#include "ppsim/core/io/text.hpp"
#include "ppsim/core/text/as_text.hpp"

namespace ppsim::cli {

Json instruction_json(const NamedInstruction& place) {
  return {{"rank", place.rank.value()}, {"index", place.index}, {"action", place.action}};
}

namespace {

Json json_of(const Program&, const std::vector<Violation>& violations) {
  Json messages = Json::array();
  for (const Violation& violation : violations) messages.push_back(violation.message);
  return {{"violations", messages}};
}

Json waits_json(const std::vector<Wait>& waits) {
  Json result = Json::array();
  for (const Wait& wait : waits) {
    Json item = instruction_json(wait.who);
    item["waits_for"] = instruction_json(wait.waits_for);
    item["why"] = wait.why;
    result.push_back(std::move(item));
  }
  return result;
}

Json json_of(const Program&, const ResidencyHang& hang) {
  Json resident = Json::array();
  for (const NamedInstruction& place : hang.resident) resident.push_back(instruction_json(place));
  return {{"residency", hang.residency},
          {"resident", resident},
          {"waits", waits_json(hang.waits)},
          {"blocked_instructions", hang.blocked}};
}

Json json_of(const Program&, const Deadlock& deadlock) {
  Json result = {{"cycle", waits_json(deadlock.cycle)}};
  for (const Wait& culprit : deadlock.culprits) {
    Json item = instruction_json(culprit.who);
    item["why"] = culprit.why;
    result["absent"].push_back(std::move(item));
  }
  result["blocked_instructions"] = deadlock.blocked;
  return result;
}

Json json_of(const Program& program, const MemoryOverrun& overrun) {
  Json live = Json::array();
  for (const Tensor& tensor : overrun.live) live.push_back(tensor_text(tensor));
  Json firing_order = Json::array();
  for (std::size_t i = 0; i < overrun.firing_order.moment; ++i) {
    const std::uint32_t item = overrun.firing_order.items[i];
    const InstructionId id(static_cast<std::int32_t>(item / 2));
    firing_order.push_back({{"rank", program.rank_of(id).value()},
                            {"index", program.position(id)},
                            {"event", item % 2 == 0 ? "start" : "end"},
                            {"action", actions_text(program, id)}});
  }
  return {{"rank", overrun.rank.value()},
          {"bytes", overrun.bytes},
          {"limit", overrun.limit},
          {"live", live},
          {"firing_order", firing_order}};
}

Json json_of(const Program& program, const LateEnd& late) {
  Json result = {{"makespan_ns", late.makespan}, {"limit_ns", late.limit}};
  for (const auto& [cost_class, duration] : late.costs.entries())
    result["costs_ns"][as_text(cost_class)] = duration;
  result["critical_path"] = Json::array();
  for (const TimedInstruction& timed : late.critical_path) {
    Json item = instruction_json(named_instruction(program, timed.instruction));
    item["start_ns"] = timed.start;
    item["end_ns"] = timed.end;
    result["critical_path"].push_back(std::move(item));
  }
  return result;
}

}  // namespace

Json counterexample_json(const Program& program, const Counterexample& counterexample) {
  return std::visit([&](const auto& value) { return json_of(program, value); }, counterexample);
}

}  // namespace ppsim::cli
