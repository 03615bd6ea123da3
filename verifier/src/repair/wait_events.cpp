#include "repair/wait_events.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace ppsim::verifier::repairing {
namespace {

Event start(InstructionId id) { return 2 * static_cast<Event>(id.value()); }
Event end(InstructionId id) { return start(id) + 1; }

}  // namespace

WaitEvents::WaitEvents(const ExecutionGraph& graph, const std::vector<int>& credits)
    : instructions_(static_cast<Event>(graph.size())),
      first_received_(2 * instructions_ + static_cast<Event>(graph.messages.size())),
      first_match_(first_received_ + static_cast<Event>(graph.messages.size())) {
  std::vector<Precedence> all;
  all.reserve(graph.predecessors.size() + graph.size() + 6 * graph.messages.size());
  instruction_waits(graph, all);
  message_waits(graph, credits, all);
  const std::size_t events = first_match_ + graph.matches.size();
  begin_.assign(events + 1, 0);
  for (const Precedence& p : all) ++begin_[p.before + 1];
  for (std::size_t e = 0; e < events; ++e) begin_[e + 1] += begin_[e];
  successors_.resize(all.size());
  std::vector<std::uint32_t> fill(begin_.begin(), begin_.end() - 1);
  for (const Precedence& p : all) successors_[fill[p.before]++] = p.after;
}

void WaitEvents::instruction_waits(const ExecutionGraph& graph, std::vector<Precedence>& all) const {
  for (Event i = 0; i < instructions_; ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    all.push_back({start(id), end(id)});
    for (const InstructionId p : graph.predecessors_of(id)) all.push_back({end(p), start(id)});
    for (const std::uint32_t m : graph.messages_of(id)) {
      const bool receives = graph.messages[m].receive == id;
      all.push_back({(receives ? first_received_ : 2 * instructions_) + m, end(id)});
    }
    if (graph.match_of[i] < 0) continue;
    const Event match = first_match_ + static_cast<Event>(graph.match_of[i]);
    all.push_back({start(id), match});
    all.push_back({match, end(id)});
  }
}

void WaitEvents::message_waits(const ExecutionGraph& graph, const std::vector<int>& credits,
                               std::vector<Precedence>& all) const {
  std::vector<int> place(graph.messages.size(), 0);  // in the channel
  for (std::uint32_t m = 0; m < graph.messages.size(); ++m) {
    const Message& message = graph.messages[m];
    const Event out = 2 * instructions_ + m;
    const Event in = first_received_ + m;
    all.push_back({start(message.send), out});
    all.push_back({out, in});
    all.push_back({start(message.receive), credits[m] > 0 ? in : out});
    if (message.previous < 0) continue;
    const auto previous = static_cast<Event>(message.previous);
    place[m] = place[previous] + 1;
    all.push_back({2 * instructions_ + previous, out});
    all.push_back({first_received_ + previous, in});
    if (credits[m] > 0 && place[m] >= credits[m]) all.push_back({in - static_cast<Event>(credits[m]), out});
  }
}

std::vector<char> WaitEvents::on_or_behind_cycles() const {
  std::vector<std::uint32_t> open(begin_.size() - 1, 0);
  for (const Event e : successors_) ++open[e];
  std::vector<Event> ready;
  for (Event e = 0; e < open.size(); ++e) {
    if (open[e] == 0) ready.push_back(e);
  }
  std::vector<char> left(open.size(), 1);
  for (std::size_t head = 0; head < ready.size(); ++head) {
    left[ready[head]] = 0;
    for (std::uint32_t s = begin_[ready[head]]; s < begin_[ready[head] + 1]; ++s) {
      if (--open[successors_[s]] == 0) ready.push_back(successors_[s]);
    }
  }
  return left;
}

/// Tarjan's algorithm without recursion. Returns: the strongly connected component of each event that lies on
/// a cycle, -1 for the others.
std::vector<int> WaitEvents::components() const {
  constexpr std::uint32_t kNew = std::numeric_limits<std::uint32_t>::max();
  const std::vector<char> left = on_or_behind_cycles();
  std::vector<std::uint32_t> number(left.size(), kNew);
  std::vector<std::uint32_t> low(left.size(), 0);
  std::vector<int> component(left.size(), -1);
  std::vector<char> open(left.size(), 0);
  std::vector<Event> stack;
  std::vector<std::pair<Event, std::uint32_t>> path;  // an event and its next successor
  std::uint32_t count = 0;
  int components = 0;
  const auto enter = [&](Event e) {
    number[e] = low[e] = count++;
    open[e] = 1;
    stack.push_back(e);
    path.emplace_back(e, begin_[e]);
  };
  const auto leave = [&](Event e) {
    if (low[e] != number[e]) return;
    const bool alone = stack.back() == e;
    for (Event member = kNew; member != e;) {
      member = stack.back();
      stack.pop_back();
      open[member] = 0;
      if (!alone) component[member] = components;
    }
    components += alone ? 0 : 1;
  };
  for (Event root = 0; root < left.size(); ++root) {
    if (left[root] == 0 || number[root] != kNew) continue;
    enter(root);
    while (!path.empty()) {
      auto& [e, next] = path.back();
      if (next < begin_[e + 1]) {
        const Event successor = successors_[next++];
        if (left[successor] == 0) continue;
        if (number[successor] == kNew) {
          enter(successor);
        } else if (open[successor] != 0) {
          low[e] = std::min(low[e], number[successor]);
        }
        continue;
      }
      const Event done = e;
      path.pop_back();
      if (!path.empty()) low[path.back().first] = std::min(low[path.back().first], low[done]);
      leave(done);
    }
  }
  return component;
}

/// Breadth-first within the component of `source`.
std::vector<Event> WaitEvents::shortest_through(Event source, const std::vector<int>& component) const {
  std::unordered_map<Event, Event> parent;
  std::vector<Event> queue{source};
  for (std::size_t head = 0; head < queue.size(); ++head) {
    const Event e = queue[head];
    for (std::uint32_t s = begin_[e]; s < begin_[e + 1]; ++s) {
      const Event next = successors_[s];
      if (next == source) {
        std::vector<Event> cycle{e};
        while (cycle.back() != source) cycle.push_back(parent.at(cycle.back()));
        std::ranges::reverse(cycle);
        return cycle;
      }
      if (component[next] == component[source] && parent.emplace(next, e).second) queue.push_back(next);
    }
  }
  return {};
}

std::vector<std::vector<Event>> WaitEvents::cycles(const Program& program) const {
  const std::vector<int> component = components();
  std::vector<std::vector<Event>> found;
  const auto look_from = [&](Event e) {
    std::vector<Event> cycle = shortest_through(e, component);
    std::rotate(cycle.begin(), std::ranges::min_element(cycle), cycle.end());
    if (std::ranges::find(found, cycle) == found.end()) found.push_back(std::move(cycle));
  };
  const auto on_cycle = [](int c) { return c >= 0; };
  for (const RankId rank : program.pipeline().rank_ids()) {
    const auto begin = component.begin() + static_cast<std::ptrdiff_t>(start(program.first(rank)));
    const auto end = component.begin() + static_cast<std::ptrdiff_t>(start(program.last(rank)));
    const auto first = std::find_if(begin, end, on_cycle);
    if (first == end) continue;
    look_from(static_cast<Event>(first - component.begin()));
    const auto last = std::find_if(std::reverse_iterator(end), std::reverse_iterator(begin), on_cycle);
    look_from(static_cast<Event>(last.base() - component.begin()) - 1);
  }
  return found;
}

}  // namespace ppsim::verifier::repairing
