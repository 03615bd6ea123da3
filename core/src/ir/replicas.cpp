#include "ppsim/core/ir/replicas.hpp"

#include <algorithm>
#include <limits>

#include "pipeline_rules.hpp"
#include "ppsim/core/ir/sequences.hpp"

namespace ppsim {
namespace {

/// The numbers that copy `number` gives to what the original has.
class Replica {
 public:
  Replica(const PipelineSpec& one, int number) : one_(one), number_(number) {}

  [[nodiscard]] RankId rank(RankId id) const { return RankId(moved(id.value(), one_.ranks)); }
  [[nodiscard]] StageId stage(StageId id) const { return StageId(stage(id.value())); }
  [[nodiscard]] RouteId route(RouteId id) const {
    return RouteId(moved(id.value(), static_cast<int>(one_.routes.size())));
  }
  [[nodiscard]] std::vector<StageId> stages(std::vector<StageId> ids) const {
    for (StageId& id : ids) id = stage(id);
    return ids;
  }

  [[nodiscard]] Action action(Action a) const {
    a.subject = subject(a.kind, a.subject);
    a.peer = peer(a.kind, a.peer);
    if (info(a.kind).subject != Subject::block) a.microbatch = moved(a.microbatch, one_.microbatches);
    return a;
  }
  [[nodiscard]] CostClass cost_class(CostClass key) const {
    key.subject = subject(key.kind, key.subject);
    key.peer = peer(key.kind, key.peer);
    return key;
  }
  [[nodiscard]] SizeClass size_class(SizeClass key) const {
    if (info(key.kind).subject != Subject::block) key.subject = stage(key.subject);
    key.peer = stage(key.peer);
    return key;
  }
  [[nodiscard]] Collective collective(Collective c) const {
    for (RankId& member : c.members) member = rank(member);
    c.after.stages = stages(c.after.stages);
    c.before.stages = stages(c.before.stages);
    c.gradient_of = stage(c.gradient_of);
    c.input_of = stage(c.input_of);
    return c;
  }

 private:
  /// Negative numbers stand for none, or for any.
  [[nodiscard]] int moved(int id, int count) const { return id < 0 ? id : id + number_ * count; }
  [[nodiscard]] int stage(int id) const { return moved(id, one_.stages); }
  [[nodiscard]] int subject(OpKind kind, int id) const {
    switch (info(kind).subject) {
      case Subject::stage:
        return stage(id);
      case Subject::block:
        return id;
      case Subject::collective:
        return moved(id, static_cast<int>(one_.collectives.size()));
    }
    return id;
  }
  [[nodiscard]] int peer(OpKind kind, int id) const {
    return names_peer_rank(kind) ? moved(id, one_.ranks) : stage(id);
  }

  const PipelineSpec& one_;
  int number_;
};

void add_copy(const PipelineSpec& one, const Replica& copy, PipelineSpec& all) {
  for (const RankId rank : one.placement) all.placement.push_back(copy.rank(rank));
  for (const StageEdge& edge : one.edges) all.edges.push_back({copy.stage(edge.from), copy.stage(edge.to)});
  for (const StageEdge& edge : one.side_edges)
    all.side_edges.push_back({copy.stage(edge.from), copy.stage(edge.to)});
  for (const auto& route : one.routes) all.routes.push_back(copy.stages(route));
  for (const RouteId route : one.route) all.route.push_back(copy.route(route));
  for (std::size_t b = 0; b < one.blocks.size(); ++b) {
    ParameterBlock& block = all.blocks[BlockId(static_cast<std::int32_t>(b))];
    const auto own = copy.stages(one.blocks.items()[b].stages);
    append_all(block.stages, own);
    block.reduced_each_microbatch = one.blocks.items()[b].reduced_each_microbatch;
  }
  for (const int update : one.update) all.update.push_back(update);
  for (const int version : one.version) all.version.push_back(version);
  for (const int lag : one.lag) all.lag.push_back(lag);
  for (const Collective& c : one.collectives) all.collectives.push_back(copy.collective(c));
}

/// How many of everything there are; no more of it.
PipelineSpec replicated_counts(const PipelineSpec& one, int count) {
  PipelineSpec all;
  all.ranks = one.ranks * count;
  all.stages = one.stages * count;
  all.microbatches = one.microbatches * count;
  all.slices = one.slices;
  return all;
}

PipelineSpec replicated_spec(const PipelineSpec& one, int count) {
  PipelineSpec all = replicated_counts(one, count);
  all.blocks = IdVector<BlockId, ParameterBlock>(one.blocks.size(), {});
  for (int n = 0; n < count; ++n) add_copy(one, Replica(one, n), all);
  return all;
}

Cell moved(const Cell& cell, const Replica& copy) {
  const auto actions = cell.actions();
  if (cell.idle()) return cell;
  if (cell.overlapped()) return {copy.action(actions[0]), copy.action(actions[1])};
  return {copy.action(actions[0])};
}

Expected<void> check(const PipelineSpec& one, int count) {
  const int most =
      std::numeric_limits<std::int32_t>::max() / std::max({one.ranks, one.stages, one.microbatches});
  if (count < 1 || count > most) {
    return make_error(ErrorCode::bad_argument, "replicas out of range",
                      {.found = std::to_string(count), .expected = "1 to " + std::to_string(most)});
  }
  // Before so many copies are made: they may be more than fit into memory.
  PPSIM_RETURN_IF_ERROR(check_counts(replicated_counts(one, count)));
  const bool has_norm = std::ranges::any_of(one.collectives, &Collective::per_update);
  if (!has_norm) return {};
  return make_error(ErrorCode::bad_argument,
                    "the schedule has a norm over its own ranks: clip when the replicas are lowered");
}

template <class Table, class Key>
Table replicated_table(const Table& table, const Pipeline& pipeline, int count,
                       Key (Replica::*moved_key)(Key) const) {
  Table all;
  for (int n = 0; n < count; ++n) {
    const Replica copy(pipeline.spec(), n);
    for (const auto& [key, value] : table.entries()) all.set((copy.*moved_key)(key), value);
  }
  return all;
}

}  // namespace

Expected<Schedule> replicated(const Schedule& schedule, int count) {
  const PipelineSpec& one = schedule.pipeline().spec();
  PPSIM_RETURN_IF_ERROR(check(one, count));
  if (count == 1) return schedule;
  PPSIM_ASSIGN_OR_RETURN(auto pipeline, Pipeline::make(replicated_spec(one, count)));
  ScheduleBuilder builder(schedule.name() + " x " + std::to_string(count), std::move(pipeline));
  for (int n = 0; n < count; ++n) {
    const Replica copy(one, n);
    for (int r = 0; r < one.ranks; ++r) {
      for (const Cell& cell : schedule.row(RankId(r))) builder.add(copy.rank(RankId(r)), moved(cell, copy));
    }
  }
  return std::move(builder).build();
}

CostTable replicated(const CostTable& costs, const Pipeline& pipeline, int count) {
  return replicated_table(costs, pipeline, count, &Replica::cost_class);
}

SizeTable replicated(const SizeTable& sizes, const Pipeline& pipeline, int count) {
  return replicated_table(sizes, pipeline, count, &Replica::size_class);
}

}  // namespace ppsim
