#include "rank_clocks.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "ppsim/core/ir/check.hpp"

namespace ppsim::verifier {
using ClockRow = std::span<std::int32_t>;

/// A table of clocks with a mark on those that are known.
class ClockTable {
 public:
  ClockTable(std::size_t rows, std::size_t lanes)
      : lanes_(lanes), counts_(rows * lanes, 0), known_(rows, 0) {}
  [[nodiscard]] ClockRow operator[](std::size_t row) { return {counts_.data() + row * lanes_, lanes_}; }
  /// Returns: whether the row was known before.
  [[nodiscard]] bool mark_known(std::size_t row) { return std::exchange(known_[row], 1) != 0; }

 private:
  std::size_t lanes_;
  std::vector<std::int32_t> counts_;
  std::vector<char> known_;
};

namespace {

/// Which lane an elementary completion belongs to, before lanes have numbers: (kind, channel or
/// communicator).
using LaneKey = std::pair<int, std::size_t>;
enum LaneKind { kCompute, kCopy, kOutgoing, kIncoming, kCollective };

constexpr std::size_t kBetweenLooks = 4096;  // items of the run order between looks at the clock

std::vector<std::size_t> channels_of_messages(const ExecutionGraph& graph) {
  std::vector<std::size_t> channel;
  for (std::size_t m = 0; m < graph.messages.size(); ++m) {
    channel.push_back(graph.messages[m].previous >= 0 ? channel[m - 1] : m);
  }
  return channel;
}

}  // namespace

bool is_within(ClockView a, ClockView b) {
  return std::equal(a.begin(), a.end(), b.begin(), std::less_equal<>());
}

void merge(std::span<std::int32_t> into, ClockView from) {
  for (std::size_t lane = 0; lane < into.size(); ++lane) into[lane] = std::max(into[lane], from[lane]);
}

/// Numbers the points of one rank and carries clocks of them through a run order of the whole Program.
class ClockPass {
 public:
  ClockPass(const MemoryQuestion& question, RankId rank, const Limits& limits, RankClocks& out)
      : program_(question.program),
        graph_(question.graph),
        limits_(limits),
        out_(out),
        last_(program_.last(rank)) {
    out_.first_ = program_.first(rank);
    number_points();
  }

  void run(const RunOrder& order) {
    const std::size_t rows = graph_.size() + 2 * graph_.messages.size() + graph_.meetings.size();
    limits_.need(rows, out_.lanes_ * sizeof(std::int32_t) + 1);
    instruction_ = ClockTable(graph_.size(), out_.lanes_);
    sent_ = ClockTable(graph_.messages.size(), out_.lanes_);
    received_ = ClockTable(graph_.capabilities.credits ? graph_.messages.size() : 0, out_.lanes_);
    met_ = ClockTable(graph_.meetings.size(), out_.lanes_);
    std::size_t done = 0;
    for (const std::uint32_t item : order.items) {
      if (++done % kBetweenLooks == 0) limits_.poll();
      const InstructionId id(static_cast<std::int32_t>(item / 2));
      item % 2 == 0 ? start(id) : complete(id);
    }
  }

 private:
  [[nodiscard]] bool is_own(InstructionId id) const { return id >= out_.first_ && id < last_; }
  [[nodiscard]] bool buffered() const { return graph_.capabilities.credits.has_value(); }

  void number_points() {
    const std::vector<std::size_t> channel = channels_of_messages(graph_);
    out_point_.resize(graph_.messages.size());
    in_point_.resize(graph_.messages.size());
    out_.point_begin_.push_back(0);
    for (InstructionId id = out_.first_; id < last_; id = InstructionId(id.value() + 1)) {
      for (const std::uint32_t m : graph_.messages_of(id)) number_message(m, channel[m], id);
      if (const std::int32_t meeting = graph_.meeting_of[id.index()]; meeting >= 0) {
        const CollectiveMeeting& met = graph_.meetings[static_cast<std::size_t>(meeting)];
        out_.points_.push_back(next_point({kCollective, met.communicator.index()}));
      } else if (graph_.messages_of(id).empty()) {
        const bool copies = info(program_.actions(id).front().kind).resource == Resource::copy;
        out_.points_.push_back(next_point({copies ? kCopy : kCompute, 0}));
      }
      out_.point_begin_.push_back(out_.points_.size());
    }
    out_.lanes_ = length_.size();
    std::size_t begin = 0;
    for (const std::int32_t length : length_) {
      out_.lane_begin_.push_back(begin);
      begin += static_cast<std::size_t>(length);
    }
    limits_.need(begin + out_.point_begin_.size(), out_.lanes_ * sizeof(std::int32_t) + 1);
    out_.before_point_.assign(begin * out_.lanes_, 0);
    out_.before_start_.assign((out_.point_begin_.size() - 1) * out_.lanes_, 0);
  }

  void number_message(std::uint32_t m, std::size_t channel, InstructionId id) {
    const bool arrives = out_.receipts_ == Receipts::lag && buffered() && graph_.messages[m].receive == id;
    Point& point = (arrives ? in_point_ : out_point_)[m];
    if (point.lane < 0) point = next_point({arrives ? kIncoming : kOutgoing, channel});
    out_.points_.push_back(point);
  }

  Point next_point(LaneKey key) {
    const auto [entry, fresh] = lane_of_.try_emplace(key, static_cast<std::int32_t>(length_.size()));
    if (fresh) length_.push_back(0);
    return {entry->second, length_[static_cast<std::size_t>(entry->second)]++};
  }

  /// Adds `point` to a clock that already holds all that precedes it.
  void tick(ClockRow clock, Point point) {
    if (point.lane < 0) return;
    clock[static_cast<std::size_t>(point.lane)] = point.index + 1;
    const auto row =
        out_.lane_begin_[static_cast<std::size_t>(point.lane)] + static_cast<std::size_t>(point.index);
    std::copy(clock.begin(), clock.end(),
              out_.before_point_.begin() + static_cast<std::ptrdiff_t>(row * out_.lanes_));
  }

  void start(InstructionId id) {
    const ClockRow clock = instruction_[id.index()];
    for (const InstructionId predecessor : graph_.predecessors_of(id))
      merge(clock, instruction_[predecessor.index()]);
    if (!is_own(id)) return;
    const auto row = static_cast<std::size_t>(id.value() - out_.first_.value());
    std::copy(clock.begin(), clock.end(),
              out_.before_start_.begin() + static_cast<std::ptrdiff_t>(row * out_.lanes_));
  }

  /// Until here the clock of an instruction is that of its start, which its messages and meeting take in.
  void complete(InstructionId id) {
    const ClockRow clock = instruction_[id.index()];
    const auto messages = graph_.messages_of(id);
    for (const std::uint32_t m : messages) end_of(m, id);
    for (const std::uint32_t m : messages) merge(clock, end_of(m, id));
    if (const std::int32_t meeting = graph_.meeting_of[id.index()]; meeting >= 0) {
      merge(clock, met(static_cast<std::size_t>(meeting)));
    } else if (messages.empty() && is_own(id)) {
      tick(clock, out_.points_of(id).front());
    }
  }

  ClockRow end_of(std::size_t m, InstructionId id) {
    return graph_.messages[m].receive == id ? received(m) : sent(m);
  }

  /// That the message before it is out goes without saying: its ends have the same queues, so they are
  /// complete when these start, or start with them in one group.
  ClockRow sent(std::size_t m) {
    const ClockRow clock = sent_[m];
    if (sent_.mark_known(m)) return clock;
    const Message& message = graph_.messages[m];
    merge(clock, instruction_[message.send.index()]);
    if (!buffered()) merge(clock, instruction_[message.receive.index()]);
    if (message.credit >= 0) merge(clock, received(static_cast<std::size_t>(message.credit)));
    tick(clock, out_point_[m]);
    return clock;
  }

  ClockRow received(std::size_t m) {
    if (!buffered()) return sent(m);
    const ClockRow clock = received_[m];
    if (received_.mark_known(m)) return clock;
    merge(clock, sent(m));
    merge(clock, instruction_[graph_.messages[m].receive.index()]);
    tick(clock, in_point_[m]);
    return clock;
  }

  ClockRow met(std::size_t meeting) {
    const ClockRow clock = met_[meeting];
    if (met_.mark_known(meeting)) return clock;
    Point own;
    for (const InstructionId member : graph_.members_of(graph_.meetings[meeting])) {
      merge(clock, instruction_[member.index()]);
      if (is_own(member)) own = out_.points_of(member).front();
    }
    tick(clock, own);
    return clock;
  }

  const Program& program_;
  const ExecutionGraph& graph_;
  const Limits& limits_;
  RankClocks& out_;
  InstructionId last_;
  std::map<LaneKey, std::int32_t> lane_of_;
  std::vector<std::int32_t> length_;  ///< per lane
  std::vector<Point> out_point_;      ///< per message: transferred, or on its way
  std::vector<Point> in_point_;       ///< per message: received by the rank, where receipts lag
  ClockTable instruction_{0, 0};
  ClockTable sent_{0, 0};
  ClockTable received_{0, 0};
  ClockTable met_{0, 0};
};

RankClocks::RankClocks(const MemoryQuestion& question, RankId rank, Receipts receipts, const Limits& limits)
    : receipts_(receipts) {
  PPSIM_CHECK(question.order.complete, "clocks of a Program that does not finish");
  ClockPass(question, rank, limits, *this).run(question.order);
}

}  // namespace ppsim::verifier
