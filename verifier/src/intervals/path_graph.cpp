#include "path_graph.hpp"

#include <map>

#include "ppsim/core/ir/sequences.hpp"

namespace ppsim::verifier {
namespace {

using PointNumber = std::uint32_t;

/// Adds the points of a Program along a run order, so that what a point needs is there before it.
class Builder {
 public:
  Builder(const Program& program, const ExecutionGraph& graph)
      : program_(program),
        graph_(graph),
        start_(graph.size(), 0),
        end_(graph.size(), 0),
        out_(graph.messages.size(), 0),
        met_(graph.matches.size(), 0) {
    result_.points.emplace_back();
  }

  PathGraph build(const RunOrder& order) {
    for (const std::uint32_t item : order.items) {
      const InstructionId id(static_cast<std::int32_t>(item / 2));
      if (item % 2 == 0) {
        start_[id.index()] = start_of(id);
      } else {
        end_[id.index()] = end_of(id);
      }
    }
    result_.end = join(end_);
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool rendezvous() const { return !graph_.capabilities.credits.has_value(); }

  PointNumber start_of(InstructionId id) {
    std::vector<PointNumber> before;
    for (const InstructionId p : graph_.predecessors_of(id)) before.push_back(end_[p.index()]);
    return join(std::move(before));
  }

  PointNumber end_of(InstructionId id) {
    const std::int32_t match = graph_.match_of[id.index()];
    if (match >= 0) return end_of_match(as_size(match));
    if (!graph_.messages_of(id).empty()) return end_of_messages(id);
    return add({start_[id.index()]}, id, cost_class_of(program_.actions(id), program_.instruction(id).form));
  }

  PointNumber end_of_messages(InstructionId id) {
    std::vector<PointNumber> before;
    for (const std::uint32_t m : graph_.messages_of(id)) {
      before.push_back(out(m));
      const bool arrived_before = graph_.messages[m].receive == id && !rendezvous();
      if (arrived_before) before.push_back(start_[id.index()]);
    }
    return join(std::move(before));
  }

  PointNumber end_of_match(std::size_t index) {
    if (met_[index] != 0) return met_[index];
    const auto members = graph_.members_of(graph_.matches[index]);
    std::vector<PointNumber> before;
    for (const InstructionId member : members) before.push_back(start_[member.index()]);
    met_[index] = add(std::move(before), members[0], cost_class_of(program_.actions(members[0])[0]));
    return met_[index];
  }

  /// When a message is out; under rendezvous it is received then, too.
  PointNumber out(std::size_t index) {
    if (out_[index] != 0) return out_[index];
    const Message& message = graph_.messages[index];
    std::vector<PointNumber> before{start_[message.send.index()]};
    if (rendezvous()) before.push_back(start_[message.receive.index()]);
    if (message.previous >= 0) before.push_back(out(as_size(message.previous)));
    if (message.credit >= 0) {
      const auto credit = as_size(message.credit);
      before.push_back(out(credit));
      before.push_back(start_[graph_.messages[credit].receive.index()]);
    }
    out_[index] =
        add(std::move(before), message.send, cost_class_of(program_.all_actions()[message.send_action]));
    return out_[index];
  }

  static void drop_repeats(std::vector<PointNumber>& before) {
    sort_unique(before);
    if (before.size() > 1 && before.front() == 0) before.erase(before.begin());
  }

  /// The latest of several points; a single one is itself.
  PointNumber join(std::vector<PointNumber> before) {
    drop_repeats(before);
    if (before.empty()) return 0;
    if (before.size() == 1) return before.front();
    return append(before, {});
  }

  PointNumber add(std::vector<PointNumber> before, InstructionId id, const CostClass& cost_class) {
    drop_repeats(before);
    const auto next = static_cast<std::int32_t>(result_.classes.size());
    const auto [known, is_new] = numbers_.try_emplace(cost_class, next);
    if (is_new) result_.classes.push_back(cost_class);
    return append(before, {.cost_class = known->second, .instruction = id});
  }

  PointNumber append(const std::vector<PointNumber>& before, PathPoint point) {
    point.first_before = static_cast<std::uint32_t>(result_.before.size());
    point.before_count = static_cast<std::uint32_t>(before.size());
    result_.before.insert(result_.before.end(), before.begin(), before.end());
    result_.points.push_back(point);
    return static_cast<PointNumber>(result_.points.size() - 1);
  }

  const Program& program_;
  const ExecutionGraph& graph_;
  PathGraph result_;
  std::vector<PointNumber> start_;  ///< per instruction
  std::vector<PointNumber> end_;
  std::vector<PointNumber> out_;  ///< per message; 0: not there yet
  std::vector<PointNumber> met_;  ///< per match; 0: not there yet
  std::map<CostClass, std::int32_t> numbers_;
};

}  // namespace

PathGraph path_graph(const Program& program, const ExecutionGraph& graph, const RunOrder& order) {
  return Builder(program, graph).build(order);
}

}  // namespace ppsim::verifier
