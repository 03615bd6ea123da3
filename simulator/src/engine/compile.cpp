#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "class_costs.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/simulator/engine/compiled_program.hpp"

namespace ppsim::simulator {
namespace {

/// Emits the items of a Program along a run order. Operands live on a stack, so that what an item needs can
/// be emitted while its own operands are being gathered.
class Compiler {
 public:
  Compiler(const Program& program, const ExecutionGraph& graph)
      : program_(program),
        graph_(graph),
        out_(graph.messages.size(), 0),
        received_(rendezvous() ? 0 : graph.messages.size(), 0),
        met_(graph.matches.size(), 0),
        durations_(program.pipeline()) {
    compiled_.items.emplace_back();  // the step's start
    compiled_.item_counts.assign(CompiledProgram::kFirstBound, 0);
    compiled_.end_item.assign(program.size(), 0);
    find_queues();
  }

  CompiledProgram run(const RunOrder& order) {
    compiled_.items.reserve(program_.size());
    for (const std::uint32_t event : order.items) {
      const bool completion = (event & 1U) != 0;
      if (completion) complete(InstructionId(static_cast<std::int32_t>(event >> 1)));
    }
    compiled_.flow_items = out_;
    append_all(compiled_.flow_items, met_);
    sort_by_depth();
    summarise_queues();
    return std::move(compiled_);
  }

 private:
  using Item = std::uint32_t;

  [[nodiscard]] bool rendezvous() const { return !graph_.capabilities.credits.has_value(); }
  void find_queues() {
    queue_of_.reserve(program_.size());
    for (std::size_t i = 0; i < program_.size(); ++i) {
      const InstructionId id(static_cast<std::int32_t>(i));
      queue_of_.push_back(program_.queue_of(program_.actions(id)[0], program_.communicators_of(id)[0]));
    }
  }

  void complete(InstructionId id) {
    const std::int32_t match = graph_.match_of[id.index()];
    if (match >= 0) {
      compiled_.end_item[id.index()] = meet(static_cast<std::size_t>(match));
    } else if (!graph_.messages_of(id).empty()) {
      compiled_.end_item[id.index()] = end_of_transfers(id);
    } else {
      const std::size_t base = operands_.size();
      push_start(id);
      const CostClass cost_class = cost_class_of(program_.actions(id), program_.instruction(id).form);
      compiled_.end_item[id.index()] = emit(base, duration(cost_class));
    }
  }

  /// Pushes what the start of an instruction waits for. Ends ascend along a queue, so only the last
  /// predecessor on each queue counts.
  void push_start(InstructionId id) {
    const auto predecessors = graph_.predecessors_of(id);
    if (predecessors.size() == 1) return operands_.push_back(compiled_.end_item[predecessors[0].index()]);
    tails_.clear();
    for (const InstructionId before : predecessors) {
      const int queue = queue_of_[before.index()];
      const auto known = std::find_if(tails_.begin(), tails_.end(),
                                      [queue](const QueueTail& tail) { return tail.queue == queue; });
      if (known == tails_.end()) {
        tails_.push_back({queue, before});
      } else {
        known->last = std::max(known->last, before);
      }
    }
    for (const QueueTail& tail : tails_) operands_.push_back(compiled_.end_item[tail.last.index()]);
  }

  /// As push_start; the members of a group share one item.
  void push_shared_start(InstructionId id) {
    if (graph_.messages_of(id).size() < 2) return push_start(id);
    const auto [known, is_new] = group_start_.try_emplace(id.value(), 0);
    if (is_new) {
      const std::size_t base = operands_.size();
      push_start(id);
      known->second = emit(base, CompiledProgram::kJoin);
    }
    operands_.push_back(known->second);
  }

  /// The item at whose end a message is out; under rendezvous it is received then, too.
  Item send_out(std::size_t index) {
    if (out_[index] != 0) return out_[index];
    const Message& message = graph_.messages[index];
    const std::size_t base = operands_.size();
    push_shared_start(message.send);
    if (rendezvous()) push_shared_start(message.receive);
    if (shares_start_with_previous(message))
      operands_.push_back(send_out(static_cast<std::size_t>(message.previous)));
    if (message.credit >= 0) operands_.push_back(receive(static_cast<std::size_t>(message.credit)));
    out_[index] = emit(base, duration(cost_class_of(program_.all_actions()[message.send_action])));
    return out_[index];
  }

  /// Whether the message before it on the channel is not already complete when this one's ends start.
  [[nodiscard]] bool shares_start_with_previous(const Message& message) const {
    if (message.previous < 0) return false;
    const Message& previous = graph_.messages[static_cast<std::size_t>(message.previous)];
    return previous.send == message.send && (!rendezvous() || previous.receive == message.receive);
  }

  /// The item at whose end a message is received.
  Item receive(std::size_t index) {
    if (rendezvous()) return send_out(index);
    if (received_[index] != 0) return received_[index];
    const std::size_t base = operands_.size();
    push_shared_start(graph_.messages[index].receive);
    operands_.push_back(emit(base, CompiledProgram::kInstant));
    operands_.push_back(send_out(index));
    received_[index] = emit(base, CompiledProgram::kJoin);
    return received_[index];
  }

  Item end_of_transfers(InstructionId id) {
    const std::size_t base = operands_.size();
    for (const std::uint32_t index : graph_.messages_of(id)) {
      const Message& message = graph_.messages[index];
      if (message.send == id) operands_.push_back(send_out(index));
      if (message.receive == id) operands_.push_back(receive(index));
    }
    return emit(base, CompiledProgram::kJoin);
  }

  Item meet(std::size_t index) {
    if (met_[index] != 0) return met_[index];
    const auto members = graph_.members_of(graph_.matches[index]);
    const std::size_t base = operands_.size();
    for (const InstructionId member : members) push_start(member);
    met_[index] = emit(base, duration(cost_class_of(program_.actions(members[0])[0])));
    return met_[index];
  }

  /// An item over the operands above `base`, which are popped.
  Item emit(std::size_t base, std::uint32_t duration) {
    if (operands_.size() > base + 2) join_earliest(base);
    const Item last = operands_.size() > base ? pop() : 0;
    const Item before_last = operands_.size() > base ? pop() : last;
    const Item first_operand = std::max(before_last, last);
    const Item second = std::min(before_last, last);
    if (duration == CompiledProgram::kJoin && first_operand == second) return second;
    return append({first_operand, second, duration});
  }

  /// Makes at most two of the operands above `base`.
  void join_earliest(std::size_t base) {
    const auto first = operands_.begin() + static_cast<std::ptrdiff_t>(base);
    std::sort(first, operands_.end(), std::greater<>());
    operands_.erase(std::unique(first, operands_.end()), operands_.end());
    while (operands_.size() > base + 2) {
      const Item later = pop();
      operands_.back() = append({operands_.back(), later, CompiledProgram::kJoin});
    }
  }

  Item pop() {
    const Item item = operands_.back();
    operands_.pop_back();
    return item;
  }

  Item append(CompiledItem item) {
    ++compiled_.item_counts[item.duration];
    compiled_.items.push_back(item);
    PPSIM_CHECK(compiled_.items.size() < UINT32_MAX, "more items than 32 bits can number");
    return static_cast<Item>(compiled_.items.size() - 1);
  }

  std::uint32_t duration(const CostClass& cost_class) {
    return durations_.get(cost_class, [&](const CostClass& fresh) {
      compiled_.cost_classes.push_back(fresh);
      compiled_.item_counts.push_back(0);
      return static_cast<std::uint32_t>(compiled_.item_counts.size() - 1);
    });
  }

  /// Renumbers the items by depth, stably.
  void sort_by_depth() {
    std::vector<CompiledItem>& items = compiled_.items;
    std::vector<std::uint32_t> place(items.size(), 0);  // first the depth, then the new number
    std::vector<std::uint32_t> begin(2, 0);             // where the items of a depth begin
    for (std::size_t i = 1; i < items.size(); ++i) {
      place[i] = std::max(place[items[i].first], place[items[i].second]) + 1;
      if (place[i] + 2 > begin.size()) begin.push_back(0);
      ++begin[place[i] + 1];
    }
    ++begin[1];  // item 0
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    for (std::uint32_t& depth : place) depth = begin[depth]++;
    std::vector<CompiledItem> sorted(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      sorted[place[i]] = {place[items[i].first], place[items[i].second], items[i].duration};
    }
    items = std::move(sorted);
    for (std::uint32_t& item : compiled_.end_item) item = place[item];
    for (std::uint32_t& item : compiled_.flow_items) item = place[item];
  }

  void summarise_queues() {
    std::vector<std::int32_t> seen_on(static_cast<std::size_t>(program_.queue_count()), -1);
    std::vector<std::uint32_t> counts(compiled_.item_counts.size(), 0);
    const int ranks = program_.pipeline().ranks();
    compiled_.rows = IdVector<RankId, ComputeRow>(static_cast<std::size_t>(ranks));
    for (RankId rank(0); rank.value() < ranks; rank = RankId(rank.value() + 1)) {
      find_last_items(rank, seen_on);
      compiled_.rows[rank] = summarise_compute(rank, counts);
    }
    sort_unique(compiled_.last_items);
  }

  void find_last_items(RankId rank, std::vector<std::int32_t>& seen_on) {
    for (std::int32_t id = program_.last(rank).value() - 1; id >= program_.first(rank).value(); --id) {
      const auto actions = program_.actions(InstructionId(id));
      const auto communicators = program_.communicators_of(InstructionId(id));
      for (std::size_t a = 0; a < actions.size(); ++a) {
        const int queue = a == 0 ? queue_of_[static_cast<std::size_t>(id)]
                                 : program_.queue_of(actions[a], communicators[a]);
        std::int32_t& seen = seen_on[static_cast<std::size_t>(queue)];
        if (seen != rank.value())
          compiled_.last_items.push_back(compiled_.end_item[static_cast<std::size_t>(id)]);
        seen = rank.value();
      }
    }
  }

  ComputeRow summarise_compute(RankId rank, std::vector<std::uint32_t>& counts) {
    ComputeRow row;
    row.first_count = static_cast<std::uint32_t>(compiled_.duration_counts.size());
    std::vector<std::uint32_t> durations;
    for (const InstructionId id : program_.ids_of(rank)) {
      if (queue_of_[id.index()] != Program::kComputeQueue) continue;
      row.last_item = compiled_.end_item[id.index()];
      if (row.first_item == 0) row.first_item = row.last_item;
      if (is_padding(program_.pipeline(), program_.actions(id))) continue;
      const std::uint32_t duration = compiled_.items[row.last_item].duration;
      if (counts[duration]++ == 0) durations.push_back(duration);
    }
    for (const std::uint32_t duration : durations) {
      compiled_.duration_counts.push_back({duration, std::exchange(counts[duration], 0)});
    }
    row.count_count = static_cast<std::uint32_t>(durations.size());
    return row;
  }

  struct QueueTail {
    int queue;
    InstructionId last;
  };

  const Program& program_;
  const ExecutionGraph& graph_;
  CompiledProgram compiled_;
  std::vector<int> queue_of_;                           ///< per instruction: its first queue
  std::vector<Item> out_;                               ///< per message; 0: not emitted
  std::vector<Item> received_;                          ///< per message, with credits only
  std::vector<Item> met_;                               ///< per match
  std::unordered_map<std::int32_t, Item> group_start_;  // looked up, never iterated
  ByCostClass<std::uint32_t> durations_;
  std::vector<Item> operands_;
  std::vector<QueueTail> tails_;
};

}  // namespace

tl::expected<CompiledProgram, Stuck> compile(const AnalyzedProgram& analyzed) {
  PPSIM_CHECK(!analyzed.capabilities().residency, "a Program under a residency limit has no longest paths");
  const Program& program = analyzed.program();
  if (std::optional<Stuck> mismatched = find_mismatches(program, analyzed.graph()))
    return tl::unexpected(*std::move(mismatched));
  const RunOrder& order = analyzed.order();
  if (!order.complete)
    return tl::unexpected(explain_stalls(program, analyzed.graph(), state_after(order, program.size())));
  return Compiler(program, analyzed.timed_graph()).run(order);
}

}  // namespace ppsim::simulator
