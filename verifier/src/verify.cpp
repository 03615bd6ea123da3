#include "ppsim/verifier/verify.hpp"

#include <algorithm>

#include "ppsim/core/check.hpp"
#include "properties/properties.hpp"

namespace ppsim {
namespace {

bool is_asked(const PropertyInfo& info, const VerifyOptions& options) {
  if (!options.properties.empty())
    return std::ranges::find(options.properties, info.property) != options.properties.end();
  if (info.property == Property::memory) return options.sizes.has_value();
  if (info.property == Property::makespan) return options.makespan_limit.has_value();
  return info.by_default;
}

bool all_matched(const ExecutionGraph& graph) {
  return std::ranges::all_of(graph.messages, &Message::matched) &&
         std::ranges::all_of(graph.meetings, &CollectiveMeeting::matched);
}

Answer decide(Property property, const Question& question, VerifyReport& report) {
  switch (property) {
    case Property::well_formed:
      return check_well_formed(question);
    case Property::matched:
      return check_matched(question);
    case Property::deadlock_free:
      return check_deadlock_free(question);
    case Property::collective_order:
      return check_collective_order(question);
    case Property::ascending_accumulation:
      return check_ascending_accumulation(question);
    case Property::weight_versions:
      return check_weight_versions(question);
    case Property::tensor_use:
      return check_tensor_use(question);
    case Property::memory:
      return check_memory(question, report.memory);
    case Property::makespan:
      return check_makespan(question, report.makespan);
  }
  PPSIM_CHECK(false, "unknown property");
}

}  // namespace

std::string_view verdict_name(const Verdict& verdict) {
  if (std::holds_alternative<Proved>(verdict)) return "proved";
  return std::holds_alternative<Refuted>(verdict) ? "refuted" : "unknown";
}

const PropertyResult* VerifyReport::find(Property property) const {
  const auto result = std::ranges::find(results, property, &PropertyResult::property);
  return result == results.end() ? nullptr : &*result;
}

bool VerifyReport::proved(Property property) const {
  const PropertyResult* result = find(property);
  return result != nullptr && std::holds_alternative<Proved>(result->verdict);
}

bool VerifyReport::all_proved() const {
  return std::ranges::all_of(
      results, [](const PropertyResult& r) { return std::holds_alternative<Proved>(r.verdict); });
}

VerifyReport verify(const Program& program, const VerifyOptions& options) {
  const Deadline deadline(options.timeout_s);
  Question question{program, options, deadline, build_execution_graph(program, options.capabilities), {}};
  question.matched = all_matched(question.graph);
  question.order = run_order(question.graph);
  question.finishes = question.matched && question.order.complete;
  VerifyReport report;
  for (const PropertyInfo& info : property_registry()) {
    if (!is_asked(info, options)) continue;
    const Deadline clock(0);
    Answer answer = decide(info.property, question, report);
    report.results.push_back({info.property, std::move(answer.verdict), std::move(answer.method),
                              -clock.remaining_s(), std::move(answer.notes)});
  }
  return report;
}

}  // namespace ppsim
