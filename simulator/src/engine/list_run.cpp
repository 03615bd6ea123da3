#include "ppsim/simulator/engine/list_run.hpp"

#include <algorithm>
#include <vector>

#include "class_costs.hpp"
#include "clock.hpp"
#include "event_run.hpp"
#include "groups.hpp"
#include "ppsim/core/execution/large_vector.hpp"
#include "ppsim/core/execution/rank_windows.hpp"

namespace ppsim::simulator {
namespace {

constexpr Instant kNotHappened{-1, 0};

bool is_for_lists(const TransportCapabilities& capabilities) {
  return !capabilities.credits && !capabilities.residency &&
         capabilities.launches.order != LaunchOrder::completion;
}

/// The times are its state: what stands before `next_` in the list of its rank has started, and without an
/// end is not complete. Spans of the others are not set.
class ListRun {
 public:
  ListRun(const Program& program, const ExecutionGraph& graph, const CostTable& costs)
      : program_(program),
        graph_(graph),
        costs_(costs),
        durations_(program.pipeline()),
        subjects_(subject_count(program.pipeline())),
        recent_(kOpKindCount * subjects_),
        trace_{TimedTrace::Spans(large_vector<Span>(program.size()))},
        can_run_(static_cast<std::size_t>(program.pipeline().ranks()), 1) {
    for (const CollectiveMatch& match : graph.matches) open_members_.push_back(match.member_count);
    for (RankId rank(0); rank.value() < program.pipeline().ranks(); rank = next(rank)) {
      next_.push_back(program.first(rank));
    }
  }

  std::optional<Expected<TimedTrace>> run() {
    run_in_windows(program_.pipeline().ranks(), [&](RankId rank) {
      const bool can_run = meets_ && can_run_[rank] != 0;
      can_run_[rank] = 0;
      if (can_run) advance(rank);
      return can_run;
    });
    if (!meets_ || completed_ != program_.size()) return std::nullopt;
    if (overflows_) return Expected<TimedTrace>(tl::unexpected(durations_do_not_fit()));
    return Expected<TimedTrace>(std::move(trace_));
  }

 private:
  /// Starts what a rank can start.
  void advance(RankId rank) {
    InstructionId id = next_[rank];
    for (const InstructionId end = program_.last(rank); id < end; id = next(id)) {
      Instant start;
      for (const InstructionId before : graph_.predecessors_of(id)) {
        if (before >= id || !happened(trace_.spans[before].end)) return leave(rank, id);
        start = std::max(start, trace_.spans[before].end);
      }
      trace_.spans[id] = {start, kNotHappened};
      begin(id, rank);
    }
    next_[rank] = id;
  }

  /// The rank goes on with `id` at its next turn. What it will read then comes from memory while others have
  /// theirs: no processor foresees that by itself where ranks are many.
  void leave(RankId rank, InstructionId id) {
    next_[rank] = id;
    constexpr std::int32_t kTurn = 8;  // instructions, and some more
    if (id.value() + 2 * kTurn >= program_.last(rank).value()) return;
    const Span* const spans = &trace_.spans[id];
    const Action* const actions = &program_.actions(id).front();
    for (int k = 2; k <= kTurn + 2; k += 2) __builtin_prefetch(spans + k, 1);
    for (int k = 4; k <= kTurn; k += 4) __builtin_prefetch(actions + k);
    fetch(graph_.predecessor_begin, id.index() + kTurn);
    fetch(graph_.predecessors, graph_.predecessor_begin[id.index()] + 2 * kTurn);
    fetch(graph_.message_begin, id.index() + kTurn);
    fetch(graph_.message_items, graph_.message_begin[id.index()] + 2 * kTurn);
  }

  template <class T>
  static void fetch(const std::vector<T>& items, std::size_t at) {
    if (at < items.size()) __builtin_prefetch(items.data() + at);
  }

  void begin(InstructionId id, RankId rank) {
    if (!graph_.matches.empty() && graph_.match_of[id.index()] >= 0)
      return join(static_cast<std::size_t>(graph_.match_of[id.index()]));
    const std::span<const Action> actions = program_.actions(id);
    const std::span<const std::uint32_t> messages = graph_.messages_of(id);
    if (!messages.empty()) return transfer(messages.front(), actions.front(), rank);
    const Nanoseconds ns = actions.size() == 1
                               ? duration(actions.front())
                               : duration(cost_class_of(actions, program_.instruction(id).form));
    complete(id, completion(trace_.spans[id].start, ns));
  }

  void complete(InstructionId id, Instant end) {
    trace_.spans[id].end = end;
    ++completed_;
  }

  /// The end that starts last, `last` of `rank`, moves a message. The one before it on the channel is out, or
  /// its ends would not have left the queues to these. Only the other end has to be woken: the rank of this
  /// one goes on by itself.
  void transfer(std::size_t index, const Action& last, RankId rank) {
    const Message& message = graph_.messages[index];
    fetch(graph_.messages, index + 2);  // mostly of the same channel
    meets_ = meets_ && message.complete() && message.matched;
    if (!meets_) return;
    const bool sends = is_send(last.kind);
    const RankId peer = peer_rank(program_.pipeline(), last);
    if ((sends ? message.receive : message.send) >= next_[peer]) return;
    const Nanoseconds ns = duration(sends ? last : counterpart(last, rank));
    const Instant begin = std::max(trace_.spans[message.send].start, trace_.spans[message.receive].start);
    const Instant out = completion(begin, ns);
    complete(message.send, out);
    complete(message.receive, out);
    can_run_[peer] = 1;
  }

  void join(std::size_t index) {
    const CollectiveMatch& match = graph_.matches[index];
    meets_ = meets_ && match.complete && match.matched;
    if (!meets_ || --open_members_[index] > 0) return;
    const auto members = graph_.members_of(match);
    Instant begin;
    for (const InstructionId member : members) begin = std::max(begin, trace_.spans[member].start);
    const Instant end = completion(begin, duration(program_.actions(members[0])[0]));
    for (const InstructionId member : members) {
      complete(member, end);
      can_run_[program_.rank_of(member)] = 1;
    }
  }

  /// Of an action by itself: mostly what it was for the last of its kind and subject.
  Nanoseconds duration(const Action& action) {
    Recent& recent =
        recent_[static_cast<std::size_t>(action.kind) * subjects_ + static_cast<std::size_t>(action.subject)];
    if (recent.peer == action.peer && recent.slice == action.slice) return counted(recent.ns);
    recent = {action.peer, action.slice, durations_.get(cost_class_of(action), costs_)};
    return counted(recent.ns);
  }

  Nanoseconds duration(const CostClass& key) { return counted(durations_.get(key, costs_)); }

  /// Each counts once, so that no time is longer than the sum of all.
  Nanoseconds counted(Nanoseconds ns) {
    overflows_ = overflows_ || __builtin_add_overflow(sum_, ns, &sum_);
    return overflows_ ? 0 : ns;
  }

  struct Recent {
    std::int32_t peer = -1;
    std::int32_t slice = -1;  ///< before the first
    Nanoseconds ns = 0;
  };

  const Program& program_;
  const ExecutionGraph& graph_;
  const CostTable& costs_;
  ByCostClass<Nanoseconds> durations_;
  std::size_t subjects_;
  std::vector<Recent> recent_;  ///< by kind and subject
  TimedTrace trace_;
  IdVector<RankId, InstructionId> next_;  ///< the first of its list that has not started
  IdVector<RankId, char> can_run_;        ///< there may be something to start
  std::vector<std::uint32_t> open_members_;
  Nanoseconds sum_ = 0;
  bool overflows_ = false;
  bool meets_ = true;  ///< whatever has started meets what it should
  std::size_t completed_ = 0;
};

}  // namespace

std::optional<Expected<TimedTrace>> run_in_list_order(const AnalyzedProgram& analyzed,
                                                      const CostTable& costs) {
  if (!is_for_lists(analyzed.capabilities())) return std::nullopt;
  const ExecutionGraph& graph = analyzed.timed_graph();
  if (!graph.unsatisfiable.empty() || has_groups(analyzed.program(), graph)) return std::nullopt;
  return ListRun(analyzed.program(), graph, costs).run();
}

}  // namespace ppsim::simulator
