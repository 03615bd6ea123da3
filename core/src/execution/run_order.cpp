#include <algorithm>

#include "ppsim/core/execution/execution_graph.hpp"

namespace ppsim {
namespace {

/// Runs a Program without times: starts what can start, completes what can complete, until nothing moves.
class Runner {
 public:
  explicit Runner(const ExecutionGraph& graph)
      : graph_(graph),
        open_waits_(graph.size()),
        open_messages_(graph.size()),
        started_(graph.size(), 0),
        sent_(graph.messages.size(), 0),
        received_(graph.messages.size(), 0),
        open_members_(graph.matches.size()) {
    build_successors();
    for (std::size_t i = 0; i < graph.matches.size(); ++i) {
      open_members_[i] = graph.matches[i].complete ? graph.matches[i].member_count : ~std::uint32_t{0};
    }
  }

  RunOrder run() {
    order_.items.reserve(2 * graph_.size());
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      if (open_waits_[i] == 0) ready_.emplace_back(static_cast<std::int32_t>(i));
    }
    for (std::size_t head = 0; head < ready_.size(); ++head) start(ready_[head]);
    order_.complete = order_.items.size() == 2 * graph_.size();
    return std::move(order_);
  }

 private:
  void build_successors() {
    successor_begin_.assign(graph_.size() + 1, 0);
    for (const InstructionId p : graph_.predecessors) ++successor_begin_[p.index() + 1];
    for (std::size_t i = 0; i < graph_.size(); ++i) successor_begin_[i + 1] += successor_begin_[i];
    successors_.resize(graph_.predecessors.size());
    std::vector<std::uint32_t> fill(successor_begin_.begin(), successor_begin_.end() - 1);
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const InstructionId id(static_cast<std::int32_t>(i));
      for (const InstructionId p : graph_.predecessors_of(id)) successors_[fill[p.index()]++] = id;
      open_waits_[i] = static_cast<std::uint32_t>(graph_.predecessors_of(id).size());
      open_messages_[i] = static_cast<std::uint32_t>(graph_.messages_of(id).size());
    }
    // One wait more than will ever be satisfied.
    for (const Unsatisfiable& u : graph_.unsatisfiable) ++open_waits_[u.instruction.index()];
  }

  void start(InstructionId id) {
    started_[id.index()] = 1;
    order_.items.push_back(2 * static_cast<std::uint32_t>(id.value()));
    const auto messages = graph_.messages_of(id);
    const std::int32_t match = graph_.match_of[id.index()];
    if (!messages.empty()) {
      for (const std::uint32_t m : messages) advance(m);
    } else if (match >= 0) {
      join(as_size(match));
    } else {
      complete(id);
    }
  }

  void join(std::size_t match) {
    if (--open_members_[match] > 0) return;
    for (const InstructionId member : graph_.members_of(graph_.matches[match])) complete(member);
  }

  [[nodiscard]] bool started(InstructionId id) const { return id.valid() && started_[id.index()] != 0; }
  [[nodiscard]] bool previous_sent(const Message& m) const {
    return m.previous < 0 || sent_[as_size(m.previous)] != 0;
  }

  /// Moves message `first` and those after it on its channel as far as they go.
  void advance(std::uint32_t first) {
    for (std::size_t m = first; m < graph_.messages.size(); ++m) {
      if (m != first && graph_.messages[m].previous < 0) return;  // another channel
      if (!(graph_.capabilities.credits ? advance_buffered(m) : advance_rendezvous(m))) return;
    }
  }

  /// True when the message moved, so that the next one may.
  bool advance_rendezvous(std::size_t m) {
    const Message& message = graph_.messages[m];
    if (sent_[m] != 0 || !started(message.send) || !started(message.receive) || !previous_sent(message))
      return false;
    sent_[m] = received_[m] = 1;
    finish_end(message.send);
    finish_end(message.receive);
    return true;
  }

  bool advance_buffered(std::size_t m) {
    const Message& message = graph_.messages[m];
    bool moved = false;
    const bool credit = message.credit < 0 || received_[as_size(message.credit)] != 0;
    if (sent_[m] == 0 && started(message.send) && previous_sent(message) && credit) {
      sent_[m] = 1;
      moved = true;
      finish_end(message.send);
    }
    const bool in_order = message.previous < 0 || received_[as_size(message.previous)] != 0;
    if (received_[m] == 0 && sent_[m] != 0 && in_order && started(message.receive)) {
      received_[m] = 1;
      moved = true;
      finish_end(message.receive);
      wake_credit(m);
    }
    return moved;
  }

  /// The message that waited for the receipt of `m` may start now.
  void wake_credit(std::size_t m) {
    const std::size_t next = m + as_size(*graph_.capabilities.credits);
    if (next < graph_.messages.size() && graph_.messages[next].credit == static_cast<std::int32_t>(m)) {
      woken_.push_back(static_cast<std::uint32_t>(next));
    }
    if (waking_) return;
    waking_ = true;
    while (!woken_.empty()) {
      const std::uint32_t message = woken_.back();
      woken_.pop_back();
      advance(message);
    }
    waking_ = false;
  }

  void finish_end(InstructionId id) {
    if (--open_messages_[id.index()] == 0) complete(id);
  }

  void complete(InstructionId id) {
    order_.items.push_back(2 * static_cast<std::uint32_t>(id.value()) + 1);
    for (std::uint32_t s = successor_begin_[id.index()]; s < successor_begin_[id.index() + 1]; ++s) {
      if (--open_waits_[successors_[s].index()] == 0) ready_.push_back(successors_[s]);
    }
  }

  const ExecutionGraph& graph_;
  std::vector<std::uint32_t> successor_begin_;
  std::vector<InstructionId> successors_;
  std::vector<std::uint32_t> open_waits_;
  std::vector<std::uint32_t> open_messages_;
  std::vector<char> started_;
  std::vector<char> sent_;
  std::vector<char> received_;
  std::vector<std::uint32_t> open_members_;
  std::vector<InstructionId> ready_;
  std::vector<std::uint32_t> woken_;
  bool waking_ = false;
  RunOrder order_;
};

}  // namespace

bool ExecutionGraph::waits_forever(InstructionId id) const {
  const auto at = std::ranges::lower_bound(unsatisfiable, id, {}, &Unsatisfiable::instruction);
  return at != unsatisfiable.end() && at->instruction == id;
}

bool is_chained(const LaunchChain& chain, const Program& program, InstructionId id) {
  if (chain.order == LaunchOrder::none) return false;
  if (chain.everything) return true;
  const OpKind kind = program.actions(id).front().kind;
  if (is_communication(kind))
    return program.communicator(program.communicators_of(id).front()).members.size() > 1;
  return chain.compute && info(kind).resource == Resource::compute;
}

RunOrder run_order(const ExecutionGraph& graph) { return Runner(graph).run(); }

}  // namespace ppsim
