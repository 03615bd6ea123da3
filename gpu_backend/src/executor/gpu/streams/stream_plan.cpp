#include "stream_plan.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>

namespace ppsim::gpu_backend {
namespace {

/// How many instructions of each queue are complete for certain.
using Clock = std::vector<std::int32_t>;

void merge(Clock& into, const Clock& from) {
  for (std::size_t q = 0; q < into.size(); ++q) into[q] = std::max(into[q], from[q]);
}

class Planner {
 public:
  Planner(const Program& program, const ExecutionGraph& graph, RankId rank)
      : program_(program), graph_(graph), first_(program.first(rank)), last_(program.last(rank)) {
    std::set<int> queues = {Program::kComputeQueue};
    for (InstructionId id = first_; id < last_; id = next(id)) {
      for (const int queue : program_.queues_of(id)) queues.insert(queue);
    }
    plan_.queues.assign(queues.begin(), queues.end());
    const auto count = as_size(last_.value() - first_.value());
    known_.assign(plan_.queues.size(), 0);
    issued_.assign(plan_.queues.size(), 0);
    tail_.assign(plan_.queues.size(), Clock(plan_.queues.size(), 0));
    after_.resize(count);
    place_.resize(count);
    issue_number_.resize(count);
    find_blocking();
  }

  StreamPlan plan() {
    for (const InstructionId id : issue_order()) add(id);
    return finish();
  }

  /// Appends an instruction. Requires: all that it waits for on its rank is there.
  void add(InstructionId id) {
    plan_.host.push_back({HostCall::Kind::begin, plan_.instructions.size()});
    add_step(id);
  }
  /// Appends one whose end is appended, too, if it ever comes.
  void add_begin(InstructionId id) {
    add(id);
    plan_.instructions.back().ends_apart = true;
  }
  void add_end(InstructionId id) { plan_.host.push_back({HostCall::Kind::end, issue_number_[offset(id)]}); }
  void add(const HostCall& call) { plan_.host.push_back(call); }

  StreamPlan finish() {
    plan_.complete = plan_.instructions.size() == after_.size();
    mark_awaited();
    return std::move(plan_);
  }

 private:
  /// Where an instruction stands on its stream.
  struct Place {
    std::size_t queue = 0;
    std::int32_t number = 0;  ///< counted from 1
  };

  [[nodiscard]] std::size_t offset(InstructionId id) const { return as_size(id.value() - first_.value()); }
  [[nodiscard]] std::size_t dense(int queue) const {
    const auto at = std::ranges::lower_bound(plan_.queues, queue);
    return as_size(at - plan_.queues.begin());
  }

  void find_blocking() {
    InstructionId blocking;
    for (InstructionId id = first_; id < last_; id = next(id)) {
      blocking_before_.push_back(blocking);
      if (program_.instruction(id).blocking) blocking = id;
    }
  }

  /// By position in the list among those whose predecessors are issued.
  [[nodiscard]] std::vector<InstructionId> issue_order() const {
    std::vector<std::size_t> open(after_.size(), 0);
    std::vector<std::vector<InstructionId>> successors(after_.size());
    std::priority_queue<InstructionId, std::vector<InstructionId>, std::greater<>> ready;
    for (InstructionId id = first_; id < last_; id = next(id)) {
      open[offset(id)] = graph_.predecessors_of(id).size() + (graph_.waits_forever(id) ? 1 : 0);
      for (const InstructionId p : graph_.predecessors_of(id)) successors[offset(p)].push_back(id);
      if (open[offset(id)] == 0) ready.push(id);
    }
    std::vector<InstructionId> order;
    while (!ready.empty()) {
      order.push_back(ready.top());
      ready.pop();
      for (const InstructionId s : successors[offset(order.back())]) {
        if (--open[offset(s)] == 0) ready.push(s);
      }
    }
    return order;
  }

  void add_step(InstructionId id) {
    StreamInstruction instruction{.id = id};
    const auto queues = program_.queues_of(id);
    instruction.queue = queues.front();
    for (std::size_t i = 1; i < queues.size(); ++i) instruction.other_queues.push_back(queues[i]);
    const std::size_t queue = dense(instruction.queue);
    if (const InstructionId blocking = blocking_before_[offset(id)]; blocking > host_known_) {
      instruction.host_wait = host_known_ = blocking;
      merge(known_, after_[offset(blocking)]);
    }
    Clock clock = tail_[queue];
    merge(clock, known_);
    add_waits(instruction, clock);
    Place& place = place_[offset(id)] = {queue, ++issued_[queue]};
    clock[queue] = place.number;
    after_[offset(id)] = clock;
    tail_[queue] = std::move(clock);
    plan_.instructions.push_back(std::move(instruction));
  }

  /// The latest issued first: an instruction that an earlier one implies is never later than it.
  void add_waits(StreamInstruction& instruction, Clock& clock) {
    const auto predecessors = graph_.predecessors_of(instruction.id);
    std::vector<InstructionId> candidates(predecessors.begin(), predecessors.end());
    std::ranges::sort(candidates, [&](InstructionId a, InstructionId b) {
      return issue_number_[offset(a)] > issue_number_[offset(b)];
    });
    for (const InstructionId p : candidates) {
      const Place& place = place_[offset(p)];
      if (clock[place.queue] >= place.number) continue;
      instruction.waits.push_back(p);
      merge(clock, after_[offset(p)]);
    }
    issue_number_[offset(instruction.id)] = plan_.instructions.size();
  }

  void mark_awaited() {
    std::vector<bool> awaited(after_.size(), false);
    for (const StreamInstruction& instruction : plan_.instructions) {
      for (const InstructionId p : instruction.waits) awaited[offset(p)] = true;
      if (instruction.host_wait.valid()) awaited[offset(instruction.host_wait)] = true;
    }
    for (StreamInstruction& instruction : plan_.instructions)
      instruction.awaited = awaited[offset(instruction.id)];
  }

  const Program& program_;
  const ExecutionGraph& graph_;
  InstructionId first_;
  InstructionId last_;
  StreamPlan plan_;
  std::vector<InstructionId> blocking_before_;  ///< per instruction: the last blocking one before it
  InstructionId host_known_;                    ///< the last blocking instruction that the host waited for
  Clock known_;                                 ///< instructions that the host knows to be complete
  Clock issued_;
  std::vector<Clock> tail_;   ///< per queue: complete once all issued on it is
  std::vector<Clock> after_;  ///< per instruction: complete once it is
  std::vector<Place> place_;
  std::vector<std::size_t> issue_number_;
};

/// Follows a run order, and finds where between its starts and completions messages move and collectives sum.
class JointPlanner {
 public:
  JointPlanner(const Program& program, const ExecutionGraph& graph)
      : program_(program),
        graph_(graph),
        started_(program.size(), false),
        moved_(graph.messages.size(), false),
        open_members_(graph.matches.size()) {
    for (RankId rank(0); rank.value() < program.pipeline().ranks(); rank = next(rank))
      planners_.emplace_back(program, graph, rank);
    for (std::size_t i = 0; i < graph.matches.size(); ++i)
      open_members_[i] = graph.matches[i].complete ? graph.matches[i].member_count : ~std::uint32_t{0};
  }

  std::vector<StreamPlan> plan(const RunOrder& order) {
    for (const std::uint32_t item : order.items) {
      const InstructionId id(static_cast<std::int32_t>(item / 2));
      item % 2 == 0 ? start(id) : complete(id);
    }
    std::vector<StreamPlan> plans;
    for (Planner& planner : planners_) {
      plans.push_back(planner.finish());
      plans.back().complete = plans.back().complete && order.complete;
    }
    return plans;
  }

 private:
  [[nodiscard]] bool communicates(InstructionId id) const {
    return is_communication(program_.actions(id).front().kind);
  }
  [[nodiscard]] Planner& planner_of(InstructionId id) { return planners_[program_.rank_of(id).index()]; }

  void start(InstructionId id) {
    started_[id.index()] = true;
    communicates(id) ? planner_of(id).add_begin(id) : planner_of(id).add(id);
    for (const std::uint32_t message : graph_.messages_of(id)) move_from(message);
    const std::int32_t match = graph_.match_of[id.index()];
    if (match >= 0) join(as_size(match));
  }

  void complete(InstructionId id) {
    if (communicates(id)) planner_of(id).add_end(id);
  }

  /// A message and those after it on its channel, as far as both of their ends have started.
  void move_from(std::size_t first) {
    const auto& messages = graph_.messages;
    for (std::size_t m = first; m < messages.size(); ++m) {
      if (m != first && messages[m].previous < 0) return;  // another channel
      if (!can_move(messages[m]) || moved_[m]) return;
      moved_[m] = true;
      planner_of(messages[m].send).add({HostCall::Kind::move, m, messages[m].send});
    }
  }
  [[nodiscard]] bool can_move(const Message& message) const {
    const auto started = [&](InstructionId id) { return id.valid() && started_[id.index()]; };
    return started(message.send) && started(message.receive) &&
           (message.previous < 0 || moved_[as_size(message.previous)]);
  }

  void join(std::size_t number) {
    if (--open_members_[number] > 0) return;
    const auto members = graph_.members_of(graph_.matches[number]);
    const auto lowest = std::min_element(
        members.begin(), members.end(),
        [&](InstructionId a, InstructionId b) { return program_.rank_of(a) < program_.rank_of(b); });
    planner_of(*lowest).add({HostCall::Kind::sum, number, *lowest});
  }

  const Program& program_;
  const ExecutionGraph& graph_;
  std::vector<Planner> planners_;
  std::vector<bool> started_;                ///< per instruction
  std::vector<bool> moved_;                  ///< per message
  std::vector<std::uint32_t> open_members_;  ///< per collective: that have not started
};

}  // namespace

StreamPlan plan_streams(const Program& program, const ExecutionGraph& graph, RankId rank) {
  return Planner(program, graph, rank).plan();
}

std::vector<StreamPlan> plan_ranks_together(const Program& program, const ExecutionGraph& graph,
                                            const RunOrder& order) {
  return JointPlanner(program, graph).plan(order);
}

}  // namespace ppsim::gpu_backend
