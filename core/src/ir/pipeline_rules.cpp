#include "pipeline_rules.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

#include "ppsim/core/ir/padding.hpp"
#include "rules.hpp"

namespace ppsim {
namespace {

constexpr int kMaxRanks = 1 << 16;
constexpr int kMaxStages = 1 << 20;
constexpr int kMaxMicrobatches = 1 << 24;
constexpr int kMaxSlices = 1 << 15;
constexpr std::int64_t kMaxCells = 1 << 25;  // stages x microbatches x slices: a few GB of dense indexes

void check_count(Rules& rules, const char* what, int found, int limit) {
  if (found < 1 || found > limit) rules.broken(what, " must be in [1, ", limit, "], found ", found);
}

template <class Id, class T>
void check_length(Rules& rules, const char* what, const IdVector<Id, T>& table, int expected) {
  if (table.size() != as_size(expected)) {
    rules.broken(what, " has ", table.size(), " entries, expected ", expected);
  }
}

template <class Id>
bool in_range(Id id, std::size_t count) {
  return id.valid() && id.index() < count;
}

void require_counts(Rules& rules, const PipelineSpec& spec) {
  check_count(rules, "ranks", spec.ranks, kMaxRanks);
  check_count(rules, "stages", spec.stages, kMaxStages);
  check_count(rules, "microbatches", spec.microbatches, kMaxMicrobatches);
  check_count(rules, "slices", spec.slices, kMaxSlices);
  if (rules.hold() && std::int64_t{spec.stages} * spec.microbatches * spec.slices > kMaxCells) {
    rules.broken("stages x microbatches x slices must be at most ", kMaxCells);
  }
}

void check_tables(Rules& rules, const PipelineSpec& spec) {
  check_length(rules, "placement", spec.placement, spec.stages);
  check_length(rules, "route", spec.route, spec.microbatches);
  check_length(rules, "update", spec.update, spec.microbatches);
  check_length(rules, "version", spec.version, spec.microbatches);
  check_length(rules, "lag", spec.lag, spec.stages);
  for (std::size_t s = 0; s < spec.placement.size(); ++s) {
    const RankId rank = spec.placement.items()[s];
    if (!in_range(rank, as_size(spec.ranks))) {
      rules.broken("placement of stage ", s, " is rank ", rank, ", expected [0, ", spec.ranks, ")");
    }
  }
  for (std::size_t m = 0; m < spec.route.size(); ++m) {
    if (!in_range(spec.route.items()[m], spec.routes.size())) {
      rules.broken("route of microbatch ", m, " is ", spec.route.items()[m], ", expected [0, ",
                   spec.routes.size(), ")");
    }
  }
  for (const int update : spec.update) {
    if (update < -1 || update >= spec.microbatches) {
      rules.broken("an update index is ", update, ", expected [0, ", spec.microbatches,
                   "), or -1 for padding");
    }
  }
  if (std::ranges::all_of(spec.update, [](int update) { return update == -1; })) {
    rules.broken("every microbatch is padding, expected one that feeds an update");
  }
  for (const int version : spec.version) {
    if (version < 0 || version > spec.microbatches) {
      rules.broken("a weight version is ", version, ", expected [0, ", spec.microbatches, "]");
    }
  }
  for (const int lag : spec.lag) {
    if (lag < 0 || lag > spec.microbatches) {
      rules.broken("a lag is ", lag, ", expected [0, ", spec.microbatches, "]");
    }
  }
}

void check_stage_list(Rules& rules, const PipelineSpec& spec, const std::string& name,
                      const std::vector<StageId>& stages) {
  std::set<StageId> seen;
  if (stages.empty()) rules.broken(name, " has no stage");
  for (const StageId stage : stages) {
    if (!in_range(stage, as_size(spec.stages))) {
      rules.broken(name, " names stage ", stage, ", expected [0, ", spec.stages, ")");
    } else if (!seen.insert(stage).second) {
      rules.broken(name, " names stage ", stage, " twice");
    }
  }
}

void check_members(Rules& rules, const PipelineSpec& spec) {
  for (const Collective& collective : spec.collectives) {
    std::set<RankId> seen;
    if (collective.members.empty()) rules.broken("collective ", collective.name, " has no member");
    for (const RankId rank : collective.members) {
      if (!in_range(rank, as_size(spec.ranks))) {
        rules.broken("collective ", collective.name, " names rank ", rank, ", expected [0, ", spec.ranks,
                     ")");
      } else if (!seen.insert(rank).second) {
        rules.broken("collective ", collective.name, " names rank ", rank, " twice");
      }
    }
  }
}

/// Rules of what a collective stands between; the rest of the spec is known to be good.
class PassChecker {
 public:
  PassChecker(Rules& rules, const PipelineSpec& spec) : rules_(rules), spec_(spec) {}

  void check(const Collective& collective) {
    collective_ = &collective;
    for (const StagePasses* passes : {&collective.after, &collective.before}) {
      if (passes->kind != OpKind::forward && passes->kind != OpKind::backward) {
        broken(" stands between passes of kind ", info(passes->kind).text, ", expected F or B");
      }
      if (!passes->stages.empty()) {
        check_stage_list(rules_, spec_, "collective " + collective.name, passes->stages);
      }
      for (const StageId stage : passes->stages) check_member(stage);
    }
    for (const StageId sum : {collective.gradient_of, collective.input_of}) {
      if (sum != StageId()) check_member(sum);
    }
    for (const StageEdge& edge : spec_.edges) {
      if (edge.from == collective.gradient_of) check_summed(edge.to);
      if (edge.to == collective.input_of) check_summed(edge.from);
    }
  }

  void check_sums() {
    std::set<StageId> gradients;
    std::set<StageId> inputs;
    for (const Collective& collective : spec_.collectives) {
      collective_ = &collective;
      if (collective.gradient_of.valid() && !gradients.insert(collective.gradient_of).second) {
        broken(" sums the gradient of stage ", collective.gradient_of, ", and so does another");
      }
      if (collective.input_of.valid() && !inputs.insert(collective.input_of).second) {
        broken(" sums the input of stage ", collective.input_of, ", and so does another");
      }
    }
  }

 private:
  template <class... Parts>
  void broken(const Parts&... parts) {
    rules_.broken("collective ", collective_->name, parts...);
  }
  void check_member(StageId stage) {
    if (!in_range(stage, as_size(spec_.stages))) {
      broken(" names stage ", stage, ", expected [0, ", spec_.stages, ")");
      return;
    }
    const std::vector<RankId>& members = collective_->members;
    if (std::ranges::find(members, spec_.placement[stage]) == members.end()) {
      broken(" names stage ", stage, ", whose rank is no member");
    }
  }
  /// The summands are made by a pass that the collective waits for.
  void check_summed(StageId stage) {
    const std::vector<StageId>& stages = collective_->after.stages;
    if (std::ranges::find(stages, stage) != stages.end()) return;
    broken(" sums what comes from stage ", stage, " and does not wait for it");
  }

  Rules& rules_;
  const PipelineSpec& spec_;
  const Collective* collective_ = nullptr;
};

/// Kahn's algorithm: stages left over lie on or behind a cycle.
bool is_acyclic(const PipelineSpec& spec) {
  const auto stages = as_size(spec.stages);
  std::vector<std::vector<StageId>> next(stages);
  std::vector<int> waiting(stages, 0);
  for (const auto* edges : {&spec.edges, &spec.side_edges}) {
    for (const StageEdge& edge : *edges) {
      next[edge.from.index()].push_back(edge.to);
      ++waiting[edge.to.index()];
    }
  }
  std::vector<std::size_t> ready;
  for (std::size_t s = 0; s < stages; ++s) {
    if (waiting[s] == 0) ready.push_back(s);
  }
  std::size_t done = 0;
  while (!ready.empty()) {
    const std::size_t stage = ready.back();
    ready.pop_back();
    ++done;
    for (const StageId to : next[stage]) {
      if (--waiting[to.index()] == 0) ready.push_back(to.index());
    }
  }
  return done == stages;
}

void check_edges(Rules& rules, const PipelineSpec& spec) {
  std::set<StageEdge> seen;
  const auto stages = as_size(spec.stages);
  for (const auto* edges : {&spec.edges, &spec.side_edges}) {
    const std::set<StageEdge> of_other_kind = seen;
    for (const StageEdge& edge : *edges) {
      if (!in_range(edge.from, stages) || !in_range(edge.to, stages)) {
        rules.broken("edge ", edge.from, " -> ", edge.to, " names a stage outside [0, ", spec.stages, ")");
      } else if (of_other_kind.contains(edge)) {
        rules.broken("side edge ", edge.from, " -> ", edge.to, " is an edge of the stage graph already");
      } else if (!seen.insert(edge).second) {
        rules.broken("edge ", edge.from, " -> ", edge.to, " is given twice");
      }
    }
  }
}

/// A stage without a block would have neither parameters nor gradients.
void check_blocks(Rules& rules, const PipelineSpec& spec) {
  IdVector<StageId, bool> has_block(as_size(spec.stages), false);
  for (std::size_t b = 0; b < spec.blocks.size(); ++b) {
    const std::vector<StageId>& stages = spec.blocks.items()[b].stages;
    check_stage_list(rules, spec, "block " + std::to_string(b), stages);
    for (const StageId stage : stages) {
      if (in_range(stage, has_block.size())) has_block[stage] = true;
    }
  }
  for (const StageId stage : has_block.ids()) {
    if (!has_block[stage])
      rules.broken("stage ", stage, " is in no block, expected one of its own where it shares none");
  }
}

void check_graph(Rules& rules, const PipelineSpec& spec) {
  check_edges(rules, spec);
  for (std::size_t r = 0; r < spec.routes.size(); ++r) {
    check_stage_list(rules, spec, "route " + std::to_string(r), spec.routes.items()[r]);
  }
  check_blocks(rules, spec);
  if (rules.hold() && !is_acyclic(spec)) rules.broken("the stage graph has a cycle");
}

/// A sum for every microbatch has a summand on every rank. Requires: every other rule holds.
class ReductionChecker {
 public:
  ReductionChecker(Rules& rules, const PipelineSpec& spec) : rules_(rules), spec_(spec) {}

  void check(BlockId block) const {
    if (!spec_.blocks[block].reduced_each_microbatch) return;
    const std::set<RankId> owners = ranks_of(block, spec_.blocks[block].stages);
    for (const RouteId route : routes()) {
      const std::set<RankId> visited = ranks_of(block, spec_.routes[route]);
      const auto missed = std::ranges::find_if(owners, [&](RankId rank) { return !visited.contains(rank); });
      if (missed == owners.end()) continue;
      rules_.broken("the gradients of block ", block, " are summed for every microbatch, and on route ",
                    route, " rank ", *missed, " has none");
    }
  }

 private:
  /// Of the microbatches that feed an update: padding adds to no gradient.
  [[nodiscard]] std::set<RouteId> routes() const {
    std::set<RouteId> found;
    for (int m = 0; m < spec_.microbatches; ++m) {
      if (spec_.update[MicrobatchId(m)] >= 0) found.insert(spec_.route[MicrobatchId(m)]);
    }
    return found;
  }
  /// Ranks of those of the stages that own a share of the block.
  [[nodiscard]] std::set<RankId> ranks_of(BlockId block, const std::vector<StageId>& stages) const {
    const std::vector<StageId>& owners = spec_.blocks[block].stages;
    std::set<RankId> ranks;
    for (const StageId stage : stages) {
      if (std::ranges::find(owners, stage) != owners.end()) ranks.insert(spec_.placement[stage]);
    }
    return ranks;
  }

  Rules& rules_;
  const PipelineSpec& spec_;
};

}  // namespace

Expected<void> check_counts(const PipelineSpec& spec) {
  Rules rules;
  require_counts(rules, spec);
  if (!rules.hold()) return make_error(ErrorCode::bad_argument, rules.text());
  return {};
}

Expected<void> check_rules(const PipelineSpec& spec) {
  Rules rules;
  check_tables(rules, spec);
  check_graph(rules, spec);
  check_members(rules, spec);
  if (rules.hold()) {
    PassChecker passes(rules, spec);
    for (const Collective& collective : spec.collectives) passes.check(collective);
    passes.check_sums();
    const ReductionChecker reductions(rules, spec);
    for (std::size_t b = 0; b < spec.blocks.size(); ++b)
      reductions.check(BlockId(static_cast<std::int32_t>(b)));
  }
  if (!rules.hold()) return make_error(ErrorCode::bad_argument, rules.text());
  return {};
}

}  // namespace ppsim
