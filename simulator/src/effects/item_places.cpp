#include "ppsim/simulator/effects/item_places.hpp"

#include <map>

namespace ppsim::simulator {
namespace {

/// The way of the messages of each class of costs.
std::map<CostClass, ItemPlace> ways_of_messages(const AnalyzedProgram& analyzed) {
  const Program& program = analyzed.program();
  std::map<CostClass, ItemPlace> ways;
  for (const Message& message : analyzed.timed_graph().messages) {
    const Action& send = program.all_actions()[message.send_action];
    ways[cost_class_of(send)] = {program.rank_of(message.send), program.rank_of(message.receive)};
  }
  return ways;
}

}  // namespace

const CostClass* cost_class_of(const CompiledProgram& program, const CompiledItem& item) {
  if (item.duration < CompiledProgram::kFirstBound) return nullptr;
  return &program.cost_classes[item.duration - CompiledProgram::kFirstBound];
}

std::vector<ItemPlace> item_places(const CompiledProgram& program, const AnalyzedProgram& analyzed) {
  const ExecutionGraph& graph = analyzed.timed_graph();
  const std::map<CostClass, ItemPlace> ways = ways_of_messages(analyzed);
  std::vector<ItemPlace> of_duration(program.item_counts.size());
  for (std::size_t i = 0; i < program.cost_classes.size(); ++i) {
    const auto way = ways.find(program.cost_classes[i]);
    if (way != ways.end()) of_duration[i + CompiledProgram::kFirstBound] = way->second;
  }
  std::vector<ItemPlace> places;
  places.reserve(program.items.size());
  for (const CompiledItem& item : program.items) places.push_back(of_duration[item.duration]);
  for (std::size_t i = 0; i < program.end_item.size(); ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    if (graph.match_of[i] < 0 && graph.messages_of(id).empty())
      places[program.end_item[i]] = {analyzed.program().rank_of(id), RankId()};
  }
  return places;
}

}  // namespace ppsim::simulator
