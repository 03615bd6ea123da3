#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "ppsim/core/ir/overflow.hpp"
#include "ppsim/simulator/chakra/chakra_trace.hpp"

namespace ppsim::simulator {
namespace {

/// A node of a rank.
struct NodePlace {
  int rank = 0;
  std::uint32_t node = 0;
  friend auto operator<=>(const NodePlace&, const NodePlace&) = default;
};

class ChakraEvents {
 public:
  ChakraEvents(const ChakraTrace& trace, const ChakraNetwork& network)
      : trace_(trace), network_(network), lanes_(trace.ranks.size()) {
    all_.resize(trace.ranks.size());
    std::iota(all_.begin(), all_.end(), 0);
    run_.busy.assign(trace.ranks.size(), 0);
    for (const std::vector<ChakraNode>& nodes : trace.ranks) {
      run_.spans.emplace_back(nodes.size());
      open_.emplace_back(nodes.size(), 0);
      done_.emplace_back(nodes.size(), false);
      successors_.emplace_back(nodes.size());
      for (std::uint32_t i = 0; i < nodes.size(); ++i) {
        open_.back()[i] = nodes[i].needs.size();
        for (const std::uint32_t before : nodes[i].needs) successors_.back()[before].push_back(i);
      }
    }
  }

  Expected<ChakraRun> run() {
    for (int rank = 0; rank < ranks(); ++rank) {
      for (std::uint32_t i = 0; i < open_[index(rank)].size(); ++i) {
        if (open_[index(rank)][i] == 0) is_ready({rank, i});
      }
    }
    PPSIM_RETURN_IF_ERROR(begin_ready());
    start_lanes();
    while (!events_.empty()) {
      now_ = events_.top().at;
      while (!events_.empty() && events_.top().at == now_) {
        end_what_is_over();
        PPSIM_RETURN_IF_ERROR(begin_ready());
      }
      start_lanes();
    }
    PPSIM_RETURN_IF_ERROR(check_done());
    run_.makespan = now_;
    return std::move(run_);
  }

 private:
  struct Event {
    Nanoseconds at;
    NodePlace place;
    friend auto operator<=>(const Event&, const Event&) = default;
  };
  /// The nodes of both ends that have no counterpart yet.
  struct Channel {
    std::deque<NodePlace> sends;
    std::deque<NodePlace> receives;
  };
  /// A resource of a rank that runs one node at a time: computation, copies.
  struct Lane {
    bool idle = true;
    std::set<std::pair<std::uint64_t, std::uint32_t>> waiting;  ///< ids and places
  };
  struct Group {
    const std::vector<int>* members;
    std::vector<std::size_t> calls;              ///< of each rank
    std::deque<std::vector<NodePlace>> matches;  ///< from the first on, complete ones included
  };

  [[nodiscard]] int ranks() const { return static_cast<int>(trace_.ranks.size()); }
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  [[nodiscard]] const ChakraNode& node(NodePlace place) const {
    return trace_.ranks[index(place.rank)][place.node];
  }

  [[nodiscard]] Lane* lane_of(NodePlace place) {
    const ChakraWork work = node(place).work;
    if (work != ChakraWork::compute && work != ChakraWork::memory) return nullptr;
    return &lanes_[index(place.rank)][work == ChakraWork::compute ? 0 : 1];
  }

  void is_ready(NodePlace place) { ready_.emplace(place.rank, node(place).id, place.node); }

  /// Begins nodes by rank and id, not by place in the file: so messages and collectives of one instant meet.
  Expected<void> begin_ready() {
    for (const auto& [rank, id, node] : std::exchange(ready_, {})) PPSIM_RETURN_IF_ERROR(begin({rank, node}));
    return {};
  }

  /// All that a node needs is over.
  Expected<void> begin(NodePlace place) {
    const ChakraNode& starting = node(place);
    run_.spans[index(place.rank)][place.node].start = now_;
    switch (starting.work) {
      case ChakraWork::nothing:
      case ChakraWork::host:
        schedule(place, starting.duration);
        return {};
      case ChakraWork::compute:
      case ChakraWork::memory:
        lane_of(place)->waiting.emplace(starting.id, place.node);
        return {};
      case ChakraWork::send:
      case ChakraWork::receive:
        meet(place);
        return {};
      case ChakraWork::collective:
        return join(place);
    }
    return {};
  }

  /// One at a time of each lane of a rank.
  void start_lanes() {
    for (int rank = 0; rank < ranks(); ++rank) {
      for (Lane& lane : lanes_[index(rank)]) {
        if (!lane.idle || lane.waiting.empty()) continue;
        const NodePlace place{rank, lane.waiting.begin()->second};
        lane.waiting.erase(lane.waiting.begin());
        lane.idle = false;
        run_.spans[index(rank)][place.node].start = now_;
        if (node(place).work == ChakraWork::compute) run_.busy[index(rank)] += node(place).duration;
        schedule(place, node(place).duration);
      }
    }
  }

  void schedule(NodePlace place, Nanoseconds duration) {
    Nanoseconds at = 0;
    if (__builtin_add_overflow(now_, duration, &at)) throw Overflow("the times of a Chakra trace");
    events_.push({at, place});
  }

  void meet(NodePlace place) {
    const ChakraNode& end = node(place);
    Channel& channel = channels_[{end.from, end.to, end.tag}];
    (end.work == ChakraWork::send ? channel.sends : channel.receives).push_back(place);
    if (channel.sends.empty() || channel.receives.empty()) return;
    move({channel.sends.front(), channel.receives.front()});
    channel.sends.pop_front();
    channel.receives.pop_front();
  }

  Group& group_of(const std::string& name) {
    const auto found = trace_.groups.find(name);
    const std::vector<int>* members = found == trace_.groups.end() ? &all_ : &found->second;
    return groups_.try_emplace(name, Group{members, std::vector<std::size_t>(trace_.ranks.size(), 0), {}})
        .first->second;
  }

  Expected<void> join(NodePlace place) {
    Group& group = group_of(node(place).group);
    if (std::ranges::find(*group.members, place.rank) == group.members->end())
      return make_error(ErrorCode::bad_file, "a collective of a group that its rank is not in",
                        {.found = "node " + std::to_string(node(place).id) + " of rank " +
                                  std::to_string(place.rank) + ", group " + node(place).group,
                         .expected = "groups that have the ranks of their collectives"});
    const std::size_t nth = group.calls[index(place.rank)]++;
    if (nth >= group.matches.size()) group.matches.resize(nth + 1);
    std::vector<NodePlace>& match = group.matches[nth];
    match.push_back(place);
    if (match.size() == group.members->size()) move(match);
    return {};
  }

  /// Moves a message or a collective whose ends have all arrived.
  void move(const std::vector<NodePlace>& ends) {
    Nanoseconds duration = 0;
    Bytes bytes = 0;
    for (const NodePlace end : ends) {
      duration = std::max(duration, node(end).duration);
      bytes = std::max(bytes, node(end).bytes);
    }
    if (duration == 0) {
      const double rate = network_.gbytes_per_s;
      duration =
          checked_round(network_.latency_us * 1e3 + (rate > 0 ? static_cast<double>(bytes) / rate : 0));
      if (rate > 0 || network_.latency_us > 0) ++run_.priced_messages;
    }
    if (duration == 0 && bytes > 0) ++run_.free_messages;
    for (const NodePlace end : ends) schedule(end, duration);
  }

  void end_what_is_over() {
    while (!events_.empty() && events_.top().at == now_) {
      const NodePlace place = events_.top().place;
      events_.pop();
      end(place);
    }
  }

  void end(NodePlace place) {
    const std::size_t rank = index(place.rank);
    done_[rank][place.node] = true;
    run_.spans[rank][place.node].end = now_;
    if (Lane* lane = lane_of(place)) lane->idle = true;
    for (const std::uint32_t next : successors_[rank][place.node]) {
      if (--open_[rank][next] == 0) is_ready({place.rank, next});
    }
  }

  [[nodiscard]] Expected<void> check_done() const {
    for (int rank = 0; rank < ranks(); ++rank) {
      for (std::uint32_t i = 0; i < done_[index(rank)].size(); ++i) {
        if (done_[index(rank)][i]) continue;
        const ChakraNode& stuck = node({rank, i});
        const bool started = open_[index(rank)][i] == 0;
        return make_error(
            ErrorCode::deadlock, "the traces cannot be run to their end",
            {.found = "node " + std::to_string(stuck.id) + " (" + stuck.name + ") of rank " +
                      std::to_string(rank) +
                      (started ? " waits for a counterpart" : " waits for nodes that never end"),
             .expected = "messages and collectives with all their ends, and no circle of nodes"});
      }
    }
    return {};
  }

  const ChakraTrace& trace_;
  ChakraNetwork network_;
  ChakraRun run_;
  Nanoseconds now_ = 0;
  std::vector<int> all_;  ///< ranks
  std::vector<std::array<Lane, 2>> lanes_;
  std::set<std::tuple<int, std::uint64_t, std::uint32_t>> ready_;  ///< rank, id and place
  std::vector<std::vector<std::size_t>> open_;
  std::vector<std::vector<bool>> done_;
  std::vector<std::vector<std::vector<std::uint32_t>>> successors_;
  std::map<std::tuple<int, int, std::int64_t>, Channel> channels_;
  std::map<std::string, Group> groups_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace

Expected<ChakraRun> simulate_chakra(const ChakraTrace& trace, const ChakraNetwork& network) {
  return ChakraEvents(trace, network).run();
}

}  // namespace ppsim::simulator
