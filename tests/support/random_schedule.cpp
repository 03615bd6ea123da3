#include "support/random_schedule.hpp"

#include <algorithm>
#include <random>
#include <tuple>

#include "ppsim/core/ir/check.hpp"

namespace ppsim::test {
namespace {

/// std::mt19937_64 is the same everywhere; the distributions of <random> are not.
class ScheduleDice {
 public:
  explicit ScheduleDice(std::uint64_t seed) : engine_(seed) {}
  int below(std::size_t limit) { return static_cast<int>(engine_() % limit); }
  bool one_in(std::size_t n) { return below(n) == 0; }

 private:
  std::mt19937_64 engine_;
};

std::vector<RankId> deal_stages(const RandomShape& shape, ScheduleDice& dice) {
  std::vector<RankId> placement;
  for (int s = 0; s < shape.ranks * shape.chunks; ++s) placement.emplace_back(s % shape.ranks);
  for (std::size_t i = placement.size(); i > 1; --i) {
    std::swap(placement[i - 1], placement[static_cast<std::size_t>(dice.below(i))]);
  }
  return placement;
}

/// Collectives between passes of stages, on all ranks: a barrier before some of the forwards or backwards, or
/// sums of what a stage reads.
void add_collectives(PipelineSpec& spec, bool backward, ScheduleDice& dice) {
  const auto pipeline = Pipeline::make(spec);
  PPSIM_CHECK(pipeline.has_value(), pipeline ? "" : pipeline.error().message);
  const std::vector<StageEdge>& edges = pipeline->spec().edges;
  Collective collective;
  for (int r = 0; r < spec.ranks; ++r) collective.members.emplace_back(r);
  const StageId stage(dice.below(static_cast<std::size_t>(spec.stages)));
  if (dice.one_in(2)) {
    collective.name = "input";
    collective.input_of = stage;
    for (const StageEdge& edge : edges) {
      if (edge.to == stage) collective.after.stages.push_back(edge.from);
    }
    spec.collectives.push_back(collective);
  }
  collective.input_of = StageId();
  collective.after.stages.clear();
  if (backward && dice.one_in(2)) {
    collective.name = "gradient";
    collective.gradient_of = stage;
    if (dice.one_in(2)) collective.after.kind = OpKind::backward;
    for (const StageEdge& edge : edges) {
      if (edge.from == stage) collective.after.stages.push_back(edge.to);
    }
    spec.collectives.push_back(collective);
  }
  if (backward && dice.one_in(2)) {
    collective = {"barrier", collective.members, {OpKind::forward, {stage}}, {OpKind::backward, {stage}}};
    spec.collectives.push_back(collective);
  }
}

void generalise(PipelineSpec& spec, bool backward, ScheduleDice& dice) {
  if (spec.stages >= 3 && dice.one_in(2)) {
    for (int s = 1; s < spec.stages; ++s) spec.edges.push_back({StageId(s - 1), StageId(s)});
    for (int s = 2; s < spec.stages; ++s) {
      if (dice.one_in(3))
        spec.edges.push_back({StageId(dice.below(static_cast<std::size_t>(s - 1))), StageId(s)});
    }
  }
  if (spec.stages >= 2 && dice.one_in(2)) {
    std::vector<StageId> low;
    std::vector<StageId> high;
    for (int s = 0; s < spec.stages; ++s) (s < spec.stages / 2 ? low : high).emplace_back(s);
    spec.routes = {low, high};
    for (int m = 0; m < spec.microbatches; ++m) spec.route.push_back(RouteId(dice.below(2)));
  }
  if (spec.stages >= 2 && dice.one_in(2)) {
    spec.blocks.push_back({{StageId(0), StageId(spec.stages - 1)}});
    for (int s = 1; s + 1 < spec.stages; ++s) spec.blocks.push_back({{StageId(s)}});
  }
  if (backward && dice.one_in(2)) {
    for (int m = 0; m < spec.microbatches; ++m) {
      spec.update.push_back(m);
      spec.version.push_back(m);
    }
    for (int s = 0; s < spec.stages; ++s) spec.lag.push_back(std::min(dice.below(4), spec.microbatches));
  }
  if (dice.one_in(2)) add_collectives(spec, backward, dice);
  if (dice.one_in(2)) spec.collectives.push_back({"vocabulary \"sum\"", {RankId(spec.ranks - 1)}});
}

Pipeline random_pipeline(const RandomShape& shape, ScheduleDice& dice) {
  PipelineSpec spec;
  spec.ranks = shape.ranks;
  spec.stages = shape.ranks * shape.chunks;
  spec.microbatches = shape.microbatches;
  spec.slices = shape.slices;
  spec.placement = IdVector<StageId, RankId>(deal_stages(shape, dice));
  if (shape.general) generalise(spec, shape.backward != BackwardMode::none, dice);
  auto pipeline = Pipeline::make(std::move(spec));
  PPSIM_CHECK(pipeline.has_value(), pipeline ? "" : pipeline.error().message);
  return *std::move(pipeline);
}

/// All actions of a schedule and which of them wait for which.
class ActionGraph {
 public:
  ActionGraph(const Pipeline& pipeline, const RandomShape& shape, ScheduleDice& dice)
      : pipeline_(pipeline), shape_(shape), dice_(dice) {
    const auto cells = static_cast<std::size_t>(pipeline.stages()) *
                       static_cast<std::size_t>(pipeline.microbatches()) *
                       static_cast<std::size_t>(pipeline.slices());
    forward_.assign(cells, -1);
    backward_.assign(cells, -1);
    weight_.assign(cells, -1);
    for_each_cell([&](StageId s, MicrobatchId m) { add_actions(s, m); });
    for_each_cell([&](StageId s, MicrobatchId m) { add_dependencies(s, m); });
    if (pipeline_.asynchronous()) add_updates();
    for (std::size_t c = 0; c < pipeline_.spec().collectives.size(); ++c) {
      const CollectiveId id(static_cast<std::int32_t>(c));
      if (pipeline_.spec().collectives[id].per_microbatch()) add_collective(id);
    }
  }

  /// The actions cut from one random linear extension into the rows of `builder`.
  void deal(ScheduleBuilder& builder) {
    std::vector<int> ready;
    for (std::size_t i = 0; i < actions_.size(); ++i) {
      if (waits_[i] == 0) ready.push_back(static_cast<int>(i));
    }
    while (!ready.empty()) {
      const int first = take(ready, static_cast<std::size_t>(dice_.below(ready.size())));
      const int second = shape_.overlaps ? take_partner(ready, first) : -1;
      for (const RankId rank : ranks_[static_cast<std::size_t>(first)]) {
        if (shape_.idle_cells && dice_.one_in(6)) builder.add(rank, Cell());
        builder.add(rank, second < 0 ? Cell(action(first)) : Cell(action(first), action(second)));
      }
      finish(first, ready);
      if (second >= 0) finish(second, ready);
    }
  }

 private:
  template <class Visit>
  void for_each_cell(Visit visit) const {
    for (int s = 0; s < pipeline_.stages(); ++s) {
      for (int m = 0; m < pipeline_.microbatches(); ++m) {
        if (pipeline_.on_route(StageId(s), MicrobatchId(m))) visit(StageId(s), MicrobatchId(m));
      }
    }
  }
  std::size_t cell(StageId s, MicrobatchId m, int k) const {
    return (s.index() * static_cast<std::size_t>(pipeline_.microbatches()) + m.index()) *
               static_cast<std::size_t>(pipeline_.slices()) +
           static_cast<std::size_t>(k);
  }
  const Action& action(int node) const { return actions_[static_cast<std::size_t>(node)]; }
  const std::vector<RankId>& ranks_of(int node) const { return ranks_[static_cast<std::size_t>(node)]; }

  int add(OpKind kind, StageId s, MicrobatchId m, int k) {
    return add(make_action(kind, s.value(), m.value(), k), {pipeline_.rank_of(s)});
  }
  int add(const Action& action, std::vector<RankId> ranks) {
    actions_.push_back(action);
    ranks_.push_back(std::move(ranks));
    waits_.push_back(0);
    next_.emplace_back();
    return static_cast<int>(actions_.size()) - 1;
  }
  void depend(int before, int after) {
    next_[static_cast<std::size_t>(before)].push_back(after);
    ++waits_[static_cast<std::size_t>(after)];
  }

  bool splits() {
    switch (shape_.backward) {
      case BackwardMode::full:
        return false;
      case BackwardMode::split:
        return true;
      case BackwardMode::mixed:
        return dice_.one_in(2);
      case BackwardMode::none:
        return false;
    }
    return false;
  }

  void add_actions(StageId s, MicrobatchId m) {
    const bool split = splits();
    const bool recompute = shape_.recompute && shape_.backward != BackwardMode::none && dice_.one_in(2);
    for (int k = 0; k < pipeline_.slices(); ++k) {
      const int forward = forward_[cell(s, m, k)] = add(OpKind::forward, s, m, k);
      if (shape_.backward == BackwardMode::none) continue;
      const int backward = add(split ? OpKind::backward_input : OpKind::backward, s, m, k);
      backward_[cell(s, m, k)] = backward;
      depend(forward, backward);
      weight_[cell(s, m, k)] = split ? add(OpKind::backward_weight, s, m, k) : backward;
      if (split) depend(backward, weight_[cell(s, m, k)]);
      if (!recompute) continue;
      const int again = add(OpKind::recompute, s, m, k);
      depend(forward, again);
      depend(again, backward);
    }
  }

  void add_dependencies(StageId s, MicrobatchId m) {
    const bool has_backward = shape_.backward != BackwardMode::none;
    for (int k = 0; k < pipeline_.slices(); ++k) {
      const std::size_t own = cell(s, m, k);
      for (const StageId u : pipeline_.producers(s, m)) {
        depend(forward_[cell(u, m, k)], forward_[own]);
        if (has_backward) depend(backward_[own], backward_[cell(u, m, k)]);
      }
      if (k == 0) continue;
      depend(forward_[own - 1], forward_[own]);
      if (has_backward) depend(backward_[own], backward_[own - 1]);
    }
  }

  /// One OPT per rank, block and update, which the forwards that read its version wait for.
  void add_updates() {
    for (int r = 0; r < pipeline_.ranks(); ++r) {
      for (int b = 0; b < pipeline_.blocks(); ++b) {
        int before = -1;
        for (int update = 0; update < pipeline_.updates(); ++update) {
          before = add_update(RankId(r), BlockId(b), update, before);
        }
      }
    }
  }

  int add_update(RankId rank, BlockId block, int update, int before) {
    int node = -1;
    for (const StageId s : pipeline_.spec().blocks[block].stages) {
      if (pipeline_.rank_of(s) != rank) continue;
      if (node < 0) node = add(make_action(OpKind::optimizer, block.value(), update), {rank});
      for (int m = 0; m < pipeline_.microbatches(); ++m) {
        const MicrobatchId mb(m);
        if (!pipeline_.on_route(s, mb)) continue;
        for (int k = 0; k < pipeline_.slices(); ++k) {
          if (pipeline_.spec().update[mb] == update) depend(weight_[cell(s, mb, k)], node);
          if (pipeline_.version(s, mb) == update + 1) depend(node, forward_[cell(s, mb, k)]);
        }
      }
    }
    if (node >= 0 && before >= 0) depend(before, node);
    return node;
  }

  void add_collective(CollectiveId id) {
    const Collective& collective = pipeline_.spec().collectives[id];
    for (int m = 0; m < pipeline_.microbatches(); ++m) {
      const MicrobatchId mb(m);
      const int node = add(make_action(OpKind::collective, id.value(), m), collective.members);
      const auto for_each_pass = [&](StageId s, bool forward, const auto& visit) {
        if (!pipeline_.on_route(s, mb)) return;
        for (int k = 0; k < pipeline_.slices(); ++k) visit((forward ? forward_ : backward_)[cell(s, mb, k)]);
      };
      for (const StageId s : collective.after.stages) {
        for_each_pass(s, collective.after.kind == OpKind::forward, [&](int pass) { depend(pass, node); });
      }
      for (int s = 0; s < pipeline_.stages(); ++s) {
        for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
          const auto awaited = pipeline_.collectives_before(StageId(s), kind);
          if (std::find(awaited.begin(), awaited.end(), id) == awaited.end()) continue;
          for_each_pass(StageId(s), kind == OpKind::forward, [&](int pass) { depend(node, pass); });
        }
      }
    }
  }

  static int take(std::vector<int>& ready, std::size_t at) {
    const int node = ready[at];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(at));
    return node;
  }

  /// A B that is ready beside the F `first` on its rank, sometimes.
  int take_partner(std::vector<int>& ready, int first) {
    if (action(first).kind != OpKind::forward || !dice_.one_in(2)) return -1;
    const auto partner = std::find_if(ready.begin(), ready.end(), [&](int node) {
      return action(node).kind == OpKind::backward && ranks_of(node) == ranks_of(first);
    });
    if (partner == ready.end()) return -1;
    return take(ready, static_cast<std::size_t>(partner - ready.begin()));
  }

  void finish(int node, std::vector<int>& ready) {
    for (const int after : next_[static_cast<std::size_t>(node)]) {
      if (--waits_[static_cast<std::size_t>(after)] == 0) ready.push_back(after);
    }
  }

  const Pipeline& pipeline_;
  const RandomShape& shape_;
  ScheduleDice& dice_;
  std::vector<Action> actions_;
  std::vector<std::vector<RankId>> ranks_;
  std::vector<int> waits_;
  std::vector<std::vector<int>> next_;
  std::vector<int> forward_;
  std::vector<int> backward_;
  std::vector<int> weight_;  ///< B or W
};

rc::Gen<RandomShape> shapes_with(rc::Gen<int> slices, const rc::Gen<bool>& extras) {
  return rc::gen::map(
      rc::gen::tuple(rc::gen::inRange(1, 5), rc::gen::inRange(1, 4), rc::gen::inRange(1, 6),
                     std::move(slices),
                     rc::gen::element(BackwardMode::full, BackwardMode::split, BackwardMode::mixed),
                     rc::gen::arbitrary<bool>(), rc::gen::arbitrary<bool>(), extras, extras),
      [](const std::tuple<int, int, int, int, BackwardMode, bool, bool, bool, bool>& t) {
        RandomShape shape;
        std::tie(shape.ranks, shape.chunks, shape.microbatches, shape.slices, shape.backward, shape.overlaps,
                 shape.idle_cells, shape.recompute, shape.general) = t;
        return shape;
      });
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const RandomShape& shape) {
  return out << shape.ranks << " ranks, " << shape.chunks << " chunks, " << shape.microbatches
             << " microbatches, " << shape.slices << " slices, backward mode "
             << static_cast<int>(shape.backward) << (shape.recompute ? ", recompute" : "")
             << (shape.overlaps ? ", overlaps" : "") << (shape.idle_cells ? ", idle cells" : "")
             << (shape.general ? ", general" : "");
}

Schedule random_schedule(const RandomShape& shape, std::uint64_t seed) {
  ScheduleDice dice(seed);
  const Pipeline pipeline = random_pipeline(shape, dice);
  ScheduleBuilder builder("random", pipeline);
  ActionGraph(pipeline, shape, dice).deal(builder);
  auto schedule = builder.build();
  PPSIM_CHECK(schedule.has_value(), schedule ? "" : schedule.error().message);
  return *std::move(schedule);
}

rc::Gen<RandomShape> plain_shapes() { return shapes_with(rc::gen::just(1), rc::gen::just(false)); }

rc::Gen<RandomShape> general_shapes() {
  return shapes_with(rc::gen::inRange(1, 4), rc::gen::arbitrary<bool>());
}

rc::Gen<Schedule> schedules(rc::Gen<RandomShape> shapes) {
  return rc::gen::map(
      rc::gen::pair(std::move(shapes), rc::gen::noShrink(rc::gen::arbitrary<std::uint64_t>())),
      [](const std::pair<RandomShape, std::uint64_t>& drawn) {
        return random_schedule(drawn.first, drawn.second);
      });
}

}  // namespace ppsim::test
