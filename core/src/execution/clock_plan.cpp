#include "ppsim/core/execution/clock_plan.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "ppsim/core/ir/check.hpp"

namespace ppsim {

/// Writes the entries with a row for everything that has a clock, then lets those share rows that are never
/// in use together.
class ClockPlanMaker {
 public:
  ClockPlanMaker(const ExecutionGraph& graph, ClockPlan& plan)
      : graph_(graph),
        plan_(plan),
        first_sent_(graph.size()),
        first_received_(first_sent_ + graph.messages.size()),
        first_met_(first_received_ + graph.messages.size()),
        made_(first_met_ + graph.matches.size(), 0) {
    PPSIM_CHECK(made_.size() < std::numeric_limits<std::uint32_t>::max(), "clocks have 32-bit numbers");
  }

  void write(const RunOrder& order) {
    plan_.entries_.reserve(2 * order.items.size());
    for (const std::uint32_t item : order.items) {
      const InstructionId id(static_cast<std::int32_t>(item / 2));
      item % 2 == 0 ? start(id) : complete(id);
    }
    share_rows();
  }

 private:
  void start(InstructionId id) {
    for (const InstructionId predecessor : graph_.predecessors_of(id)) read(predecessor.index());
    add(ClockEvent::start, id.index(), id.index());
  }

  void complete(InstructionId id) {
    const auto messages = graph_.messages_of(id);
    const std::int32_t match = graph_.match_of[id.index()];
    if (messages.empty() && match < 0) return add(ClockEvent::work, id.index(), id.index());
    for (const std::uint32_t m : messages) make_end(m, id);  // from the start's clock, before it changes
    for (const std::uint32_t m : messages) read(end(m, id));
    if (match >= 0) {
      make_met(as_size(match));
      read(first_met_ + as_size(match));
    }
    add(ClockEvent::complete, id.index(), id.index());
  }

  /// When the part of the message that belongs to `id` is over.
  [[nodiscard]] bool ends_with_receipt(std::size_t m, InstructionId id) const {
    return graph_.capabilities.credits.has_value() && graph_.messages[m].receive == id;
  }
  [[nodiscard]] std::size_t end(std::size_t m, InstructionId id) const {
    return (ends_with_receipt(m, id) ? first_received_ : first_sent_) + m;
  }
  void make_end(std::size_t m, InstructionId id) {
    ends_with_receipt(m, id) ? make_received(m) : make_sent(m);
  }

  // Of these, all that they need has started.

  /// The message is out. The one before it need not be read: both have the same queues, so the ends of that
  /// one are complete when these start, or start with them in one group.
  void make_sent(std::size_t m) {
    if (made_[first_sent_ + m] != 0) return;
    const Message& message = graph_.messages[m];
    const bool waits = graph_.capabilities.credits && message.credit >= 0;
    if (waits) make_received(as_size(message.credit));
    read(message.send.index());
    if (!graph_.capabilities.credits) read(message.receive.index());
    if (waits) read(first_received_ + as_size(message.credit));
    add(ClockEvent::sent, m, first_sent_ + m);
  }

  void make_received(std::size_t m) {
    if (made_[first_received_ + m] != 0) return;
    make_sent(m);
    read(first_sent_ + m);
    read(graph_.messages[m].receive.index());
    add(ClockEvent::received, m, first_received_ + m);
  }

  void make_met(std::size_t match) {
    if (made_[first_met_ + match] != 0) return;
    for (const InstructionId member : graph_.members_of(graph_.matches[match])) read(member.index());
    add(ClockEvent::met, match, first_met_ + match);
  }

  void read(std::size_t clock) { plan_.sources_.push_back(static_cast<std::uint32_t>(clock)); }
  void add(ClockEvent event, std::size_t subject, std::size_t clock) {
    made_[clock] = 1;
    plan_.entries_.push_back({.event = event,
                              .subject = static_cast<std::uint32_t>(subject),
                              .row = static_cast<std::uint32_t>(clock),
                              .sources_end = static_cast<std::uint32_t>(plan_.sources_.size())});
  }

  /// Per clock, the last entry that reads or changes it.
  [[nodiscard]] std::vector<std::uint32_t> last_entries() const {
    std::vector<std::uint32_t> last(made_.size(), 0);
    std::size_t source = 0;
    for (std::uint32_t s = 0; s < plan_.entries_.size(); ++s) {
      for (; source < plan_.entries_[s].sources_end; ++source) last[plan_.sources_[source]] = s;
      last[plan_.entries_[s].row] = s;
    }
    return last;
  }

  /// A clock whose first source is needed no more takes over its row.
  void share_rows() {
    std::vector<std::uint32_t> last = last_entries();
    std::vector<std::uint32_t> row_of(made_.size(), kNowhere);
    std::vector<std::uint32_t> kept;
    std::size_t source = 0;
    for (std::uint32_t s = 0; s < plan_.entries_.size(); ++s) {
      ClockPlan::Entry& entry = plan_.entries_[s];
      const std::span<const std::uint32_t> read{plan_.sources_.data() + source, entry.sources_end - source};
      source = entry.sources_end;
      std::uint32_t& row = row_of[entry.row];
      entry.fresh = row == kNowhere;
      const auto over = [&](std::uint32_t clock) { return last[clock] == s; };
      const auto taken = entry.fresh ? std::ranges::find_if(read, over) : read.end();
      if (entry.fresh) row = taken == read.end() ? free_row() : row_of[*taken];
      if (taken != read.end()) entry.fresh = false;
      for (auto used = read.begin(); used != read.end(); ++used) {
        if (used == taken) continue;
        kept.push_back(row_of[*used]);
        if (over(*used)) free_rows_.push_back(row_of[*used]);
      }
      if (over(entry.row)) free_rows_.push_back(row);
      entry.row = row;
      entry.sources_end = static_cast<std::uint32_t>(kept.size());
    }
    plan_.sources_ = std::move(kept);
  }

  [[nodiscard]] std::uint32_t free_row() {
    if (free_rows_.empty()) return static_cast<std::uint32_t>(plan_.rows_++);
    const std::uint32_t row = free_rows_.back();
    free_rows_.pop_back();
    return row;
  }

  static constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();

  const ExecutionGraph& graph_;
  ClockPlan& plan_;
  // Clocks of instructions, messages that are out, messages that are received, matches: numbered in turn.
  std::size_t first_sent_;
  std::size_t first_received_;
  std::size_t first_met_;
  std::vector<char> made_;
  std::vector<std::uint32_t> free_rows_;
};

std::size_t ClockPlan::bytes_of(const ExecutionGraph& graph) {
  const std::size_t messages = graph.messages.size();
  const std::size_t clocks = graph.size() + 2 * messages + graph.matches.size();
  const std::size_t sources = graph.predecessors.size() + 5 * messages + 2 * graph.match_members.size();
  constexpr std::size_t kOfClock =
      2 * sizeof(std::uint32_t) + 1;  // its last entry, its row, whether it is made
  return (clocks + graph.size()) * sizeof(Entry) + 2 * sources * sizeof(std::uint32_t) + clocks * kOfClock;
}

ClockPlan::ClockPlan(const ExecutionGraph& graph, const RunOrder& order)
    : rendezvous_(!graph.capabilities.credits.has_value()) {
  PPSIM_CHECK(order.complete, "clocks of a Program that does not finish");
  ClockPlanMaker(graph, *this).write(order);
}

}  // namespace ppsim
