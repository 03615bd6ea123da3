#include "ppsim/gpu_backend/executor/measured_costs.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/padding.hpp"

namespace ppsim::gpu_backend {
namespace {

/// Durations of one Program's runs, by cost class.
class Samples {
 public:
  Samples(const Program& program, const ExecutionGraph& graph) : program_(program), graph_(graph) {}

  void add(const TimedTrace& trace) {
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(program_.size()); ++i)
      add_local(trace, InstructionId(i));
    for (const Message& message : graph_.messages) add_message(trace, message);
    for (const CollectiveMatch& match : graph_.matches) add_match(trace, match);
  }

  /// A class whose transfers are in no group without another class takes what the groups take.
  Durations take() {
    samples_.merge(in_mixed_groups_);
    return std::move(samples_);
  }

 private:
  void add_local(const TimedTrace& trace, InstructionId id) {
    const auto actions = program_.actions(id);
    if (is_communication(actions.front().kind)) return;
    if (is_padding(program_.pipeline(), actions)) return;  // a run leaves its arithmetic out
    add(cost_class_of(actions, program_.instruction(id).form), trace.spans[id].start, trace.spans[id].end);
  }

  void add_message(const TimedTrace& trace, const Message& message) {
    if (!message.complete()) return;
    const Span& send = trace.spans[message.send];
    const Span& receive = trace.spans[message.receive];
    if (!happened(send) || !happened(receive)) return;
    const CostClass key = class_of(message);
    const bool alone = is_alone(key, message.send) && is_alone(key, message.receive);
    const Instant start = graph_.capabilities.credits ? send.start : std::max(send.start, receive.start);
    const Instant end = graph_.capabilities.credits ? send.end : receive.end;
    add(key, start, end, alone ? samples_ : in_mixed_groups_);
  }

  [[nodiscard]] CostClass class_of(const Message& message) const {
    return cost_class_of(program_.all_actions()[message.send_action]);
  }
  /// Whether all transfers of an instruction have the class: a group ends with the longest of its members.
  [[nodiscard]] bool is_alone(const CostClass& key, InstructionId id) const {
    if (program_.actions(id).size() == 1) return true;
    return std::ranges::all_of(graph_.messages_of(id),
                               [&](std::uint32_t index) { return class_of(graph_.messages[index]) == key; });
  }

  void add_match(const TimedTrace& trace, const CollectiveMatch& match) {
    const auto members = graph_.members_of(match);
    Instant start{-1, 0};
    for (const InstructionId member : members) {
      if (!happened(trace.spans[member])) return;
      start = std::max(start, trace.spans[member].start);
    }
    for (const InstructionId member : members) {
      add(cost_class_of(program_.actions(member).front()), start, trace.spans[member].end);
    }
  }

  static bool happened(const Span& span) { return span.start.time >= 0 && span.end.time >= 0; }

  void add(const CostClass& key, Instant start, Instant end) { add(key, start, end, samples_); }
  static void add(const CostClass& key, Instant start, Instant end, Durations& samples) {
    if (start.time >= 0 && end.time >= start.time) samples[key].push_back(end.time - start.time);
  }

  const Program& program_;
  const ExecutionGraph& graph_;
  Durations samples_;
  Durations in_mixed_groups_;  ///< of transfers beside those of another class
};

/// Mean of all but a share at either end, which counts as one where it is a quarter of one.
Nanoseconds trimmed_mean(std::vector<Nanoseconds> values, double outliers) {
  const auto dropped = static_cast<std::size_t>(outliers * static_cast<double>(values.size()) + 0.75);
  std::ranges::sort(values);
  const std::span<const Nanoseconds> kept = std::span(values).subspan(dropped, values.size() - 2 * dropped);
  const auto count = static_cast<Nanoseconds>(kept.size());
  Nanoseconds whole = 0;
  Nanoseconds rest = 0;
  for (const Nanoseconds value : kept) {  // each is divided first, as 64 bits may not hold their sum
    whole += value / count;
    rest += value % count;
  }
  return whole + rest / count;
}

/// The value that a share of the others does not exceed, linearly between two of them: a median of two is
/// their mean. Requires: sorted values, one or more.
Nanoseconds quantile(const std::vector<Nanoseconds>& values, double share) {
  const double place = share * static_cast<double>(values.size() - 1);
  const auto before = static_cast<std::size_t>(place);
  const Nanoseconds low = values[before];
  const Nanoseconds high = values[std::min(before + 1, values.size() - 1)];
  return low + std::llround((place - static_cast<double>(before)) * static_cast<double>(high - low));
}

}  // namespace

Durations measured_durations(const AnalyzedProgram& analyzed, std::span<const TimedTrace> traces) {
  Samples samples(analyzed.program(), analyzed.graph());
  for (const TimedTrace& trace : traces) samples.add(trace);
  return samples.take();
}

CostTable mean_costs(const Durations& durations, double outliers) {
  PPSIM_CHECK(outliers >= 0 && outliers <= 0.1, "most durations count");
  CostTable table;
  for (const auto& [key, values] : durations) table.set(key, trimmed_mean(values, outliers));
  return table;
}

CostSpreads cost_spreads(const Durations& durations) {
  CostSpreads spreads;
  for (const auto& [key, unsorted] : durations) {
    std::vector<Nanoseconds> values = unsorted;
    std::ranges::sort(values);
    spreads[key] = {.samples = static_cast<std::int64_t>(values.size()),
                    .lower_quartile = quantile(values, 0.25),
                    .median = quantile(values, 0.5),
                    .upper_quartile = quantile(values, 0.75)};
  }
  return spreads;
}

}  // namespace ppsim::gpu_backend
