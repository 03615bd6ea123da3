#include "ppsim/planner/effects/replay.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "effects/replay_parts.hpp"
#include "ppsim/core/ir/units.hpp"
#include "ppsim/core/text/as_text.hpp"
#include "ppsim/simulator/effects/factor_draws.hpp"

namespace ppsim::planner {
namespace {

constexpr double kMaxReplayFactor = 1e6;

/// Goes through a Program in an order in which it runs, start by start and end by end. `Times` says of a
/// message whether it `waits` and when its data is there, of the step when it `begin`s, of an instruction
/// when it `starts` (given when nothing keeps it from starting any more) and `ends` (given when it waited for
/// nobody any more).
template <class Times>
class Replay {
 public:
  Replay(const AnalyzedProgram& analyzed, Times& times)
      : graph_(analyzed.timed_graph()),
        order_(analyzed.timed_order()),
        times_(times),
        starts_(analyzed.program().size(), 0),
        ends_(analyzed.program().size(), 0) {}

  TimedTrace run() {
    for (const std::uint32_t item : order_.items) {
      const InstructionId id(static_cast<std::int32_t>(item / 2));
      if (item % 2 == 0) {
        starts_[id] = times_.starts(id, free_at(id));
      } else {
        ends_[id] = times_.ends(id, begun_at(id));
      }
    }
    TimedTrace trace{TimedTrace::Spans(starts_.size())};
    for (std::size_t i = 0; i < starts_.size(); ++i) {
      const InstructionId id(static_cast<std::int32_t>(i));
      trace.spans[id] = {{starts_[id], 0}, {ends_[id], 0}};
    }
    return trace;
  }

 private:
  [[nodiscard]] Nanoseconds free_at(InstructionId id) const {
    Nanoseconds free = times_.begin();
    for (const InstructionId before : graph_.predecessors_of(id)) free = std::max(free, ends_[before]);
    return free;
  }

  /// When it waits for nobody any more. An earlier message of a channel is on the same queue, so it is over.
  [[nodiscard]] Nanoseconds begun_at(InstructionId id) {
    Nanoseconds begun = starts_[id];
    for (const std::uint32_t index : graph_.messages_of(id)) {
      const Nanoseconds sent = sending_at(index);
      begun = std::max(begun, graph_.messages[index].receive == id ? times_.data_there(index, sent) : sent);
    }
    const std::int32_t match = graph_.match_of[id.index()];
    if (match < 0) return begun;
    for (const InstructionId member : graph_.members_of(graph_.matches[as_size(match)]))
      begun = std::max(begun, starts_[member]);
    return begun;
  }

  /// When nothing keeps the SEND of a message from sending any more.
  [[nodiscard]] Nanoseconds sending_at(std::uint32_t index) const {
    const Message& message = graph_.messages[index];
    const Nanoseconds start = starts_[message.send];
    if (!times_.waits(index)) return start;
    if (!graph_.capabilities.credits) return std::max(start, starts_[message.receive]);
    if (message.credit < 0) return start;
    return std::max(start, ends_[graph_.messages[as_size(message.credit)].receive]);
  }

  const ExecutionGraph& graph_;
  const RunOrder& order_;
  Times& times_;
  IdVector<InstructionId, Nanoseconds> starts_;
  IdVector<InstructionId, Nanoseconds> ends_;
};

/// Takes a trace apart.
class TakenApart {
 public:
  TakenApart(const AnalyzedProgram& analyzed, const TimedTrace& trace)
      : graph_(analyzed.timed_graph()),
        trace_(trace),
        costs_{IdVector<InstructionId, Nanoseconds>(analyzed.program().size(), 0),
               IdVector<InstructionId, Nanoseconds>(analyzed.program().size(), 0),
               std::vector<ReplayMessage>(graph_.messages.size()), 0} {
    graph_.capabilities.credits ? find_credits() : find_eager(ReplayPlaces(analyzed));
    std::optional<Nanoseconds> first;
    for (const InstructionId id : analyzed.program().ids()) {
      if (is_traced(id)) first = std::min(first.value_or(start_of(id)), start_of(id));
    }
    costs_.begin = first.value_or(0);
  }

  [[nodiscard]] Nanoseconds begin() const { return costs_.begin; }

  [[nodiscard]] bool waits(std::uint32_t index) const { return costs_.messages[index].waits; }

  Nanoseconds data_there(std::uint32_t index, Nanoseconds sent) {
    const Message& message = graph_.messages[index];
    ReplayMessage& measured = costs_.messages[index];
    if (measured.waits && !graph_.capabilities.credits) return sent;
    Nanoseconds there = is_traced(message.send) ? end_of(message.send) : sent;
    if (is_traced(message.receive)) there = std::min(there, end_of(message.receive));
    there = std::max(there, sent);
    measured.arrival = there - sent;
    return there;
  }

  Nanoseconds starts(InstructionId id, Nanoseconds free) {
    if (!is_traced(id)) return free;
    const Nanoseconds start = std::max(free, start_of(id));
    costs_.delays[id] = start - free;
    return start;
  }

  Nanoseconds ends(InstructionId id, Nanoseconds begun) {
    if (!is_traced(id)) return begun;
    const Nanoseconds end = std::max(begun, end_of(id));
    costs_.durations[id] = end - begun;
    return end;
  }

  ReplayCosts take() { return std::move(costs_); }

 private:
  [[nodiscard]] Nanoseconds start_of(InstructionId id) const { return trace_.spans[id].start.time; }
  [[nodiscard]] Nanoseconds end_of(InstructionId id) const { return trace_.spans[id].end.time; }
  [[nodiscard]] bool is_traced(InstructionId id) const {
    return happened(trace_.spans[id].start) && happened(trace_.spans[id].end);
  }

  /// The SENDs of a class that are known not to have waited, for their RECVs started before them or after
  /// their ends.
  struct Sends {
    Nanoseconds durations = 0;
    std::int64_t count = 0;
    bool before_receipt = false;  ///< one ended before its RECV started
    bool at_receipt = false;      ///< one ended when its RECV started

    /// One that ends when its RECV starts waited for it if transfers of the class take no time.
    [[nodiscard]] bool eager() const { return before_receipt || (at_receipt && usual() > 0); }
    [[nodiscard]] Nanoseconds usual() const { return count == 0 ? 0 : durations / count; }
  };

  void find_eager(const ReplayPlaces& places) {
    std::map<CostClass, Sends> classes;
    for (const Message& message : graph_.messages) {
      if (is_traced(message)) add(message, classes[places.class_of(message)]);
    }
    for (std::size_t i = 0; i < graph_.messages.size(); ++i) {
      if (!is_traced(graph_.messages[i])) continue;
      const Sends& of_class = classes.at(places.class_of(graph_.messages[i]));
      if (of_class.eager()) costs_.messages[i].waits = waited(graph_.messages[i], of_class.usual());
    }
  }

  void add(const Message& message, Sends& of_class) const {
    const Nanoseconds sent = start_of(message.send);
    const Nanoseconds received = start_of(message.receive);
    const Nanoseconds end = end_of(message.send);
    of_class.before_receipt = of_class.before_receipt || end < received;
    of_class.at_receipt = of_class.at_receipt || (sent < end && end == received);
    if (sent < received && received <= end) return;
    of_class.durations = checked_add(of_class.durations, end - sent);
    ++of_class.count;
  }

  /// Of a RECV that started while its SEND ran: whether the time from then on is more like the usual one than
  /// the whole time is.
  [[nodiscard]] bool waited(const Message& message, Nanoseconds usual) const {
    const Nanoseconds sent = start_of(message.send);
    const Nanoseconds received = start_of(message.receive);
    const Nanoseconds end = end_of(message.send);
    if (received <= sent || end < received) return false;
    return std::abs(end - received - usual) < std::abs(end - sent - usual);
  }

  /// A SEND that ended before its credit was free did not need it.
  void find_credits() {
    for (std::size_t i = 0; i < graph_.messages.size(); ++i) {
      const Message& message = graph_.messages[i];
      if (message.credit < 0 || !is_traced(message.send)) continue;
      const InstructionId freed_by = graph_.messages[as_size(message.credit)].receive;
      costs_.messages[i].waits = !is_traced(freed_by) || end_of(freed_by) <= end_of(message.send);
    }
  }

  [[nodiscard]] bool is_traced(const Message& message) const {
    return is_traced(message.send) && is_traced(message.receive);
  }

  const ExecutionGraph& graph_;
  const TimedTrace& trace_;
  ReplayCosts costs_;
};

/// Puts it together.
class PutTogether {
 public:
  explicit PutTogether(const ReplayCosts& costs) : costs_(costs) {}

  [[nodiscard]] Nanoseconds begin() const { return costs_.begin; }
  [[nodiscard]] bool waits(std::uint32_t index) const { return costs_.messages[index].waits; }
  [[nodiscard]] Nanoseconds data_there(std::uint32_t index, Nanoseconds sent) const {
    return checked_add(sent, costs_.messages[index].arrival);
  }
  [[nodiscard]] Nanoseconds starts(InstructionId id, Nanoseconds free) const {
    return checked_add(free, costs_.delays[id]);
  }
  [[nodiscard]] Nanoseconds ends(InstructionId id, Nanoseconds begun) const {
    return checked_add(begun, costs_.durations[id]);
  }

 private:
  const ReplayCosts& costs_;
};

Expected<void> check_changes(const ReplayPlaces& places, const std::vector<ReplayChange>& changes) {
  for (const ReplayChange& one : changes) {
    if (!(one.factor >= 0 && one.factor <= kMaxReplayFactor))
      return make_error(ErrorCode::bad_argument, "a factor out of range",
                        {.found = as_text(one.factor), .expected = "0 to 1000000"});
    const bool any = std::ranges::any_of(places.program().ids(), [&](InstructionId id) {
      for (std::size_t member = 0; member < places.members(id); ++member)
        if (places.is_in(one.group, id, member)) return true;
      return false;
    });
    if (any) continue;
    return make_error(
        ErrorCode::bad_argument, "nothing of this cost group is in the Program",
        {.found = as_text(one.group), .expected = "a kind, rank, stage, link or class that it has"});
  }
  return {};
}

}  // namespace

ReplayCosts replay_costs(const AnalyzedProgram& analyzed, const TimedTrace& trace) {
  TakenApart times(analyzed, trace);
  static_cast<void>(Replay(analyzed, times).run());
  return times.take();
}

TimedTrace replayed(const AnalyzedProgram& analyzed, const ReplayCosts& costs) {
  const PutTogether times(costs);
  return Replay(analyzed, times).run();
}

Expected<void> change(const AnalyzedProgram& analyzed, const std::vector<ReplayChange>& changes,
                      ReplayCosts& costs) {
  const ReplayPlaces places(analyzed);
  PPSIM_RETURN_IF_ERROR(check_changes(places, changes));
  const auto changed = [&](Nanoseconds time, const auto& is_in) {
    for (const ReplayChange& one : changes)
      if (is_in(one.group)) time = simulator::scaled_cost(time, one.factor);
    return time;
  };
  const IdVector<InstructionId, Nanoseconds> before = costs.durations;
  const MemberDurations members(analyzed, before);
  for (const InstructionId id : analyzed.program().ids()) {
    costs.durations[id] = 0;
    for (std::size_t member = 0; member < places.members(id); ++member) {
      const Nanoseconds taken = changed(
          members.of(id, member), [&](const CostGroup& group) { return places.is_in(group, id, member); });
      costs.durations[id] = std::max(costs.durations[id], taken);
    }
  }
  const std::vector<Message>& messages = analyzed.timed_graph().messages;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    Nanoseconds& arrival = costs.messages[i].arrival;
    arrival = changed(arrival, [&](const CostGroup& group) { return places.is_in(group, messages[i]); });
  }
  return {};
}

}  // namespace ppsim::planner
