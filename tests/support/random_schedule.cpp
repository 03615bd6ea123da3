#include "support/random_schedule.hpp"

#include <algorithm>
#include <random>
#include <tuple>

#include "ppsim/core/check.hpp"

namespace ppsim::test {
namespace {

/// std::mt19937_64 is the same everywhere; the distributions of <random> are not.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  int below(std::size_t limit) { return static_cast<int>(engine_() % limit); }
  bool one_in(std::size_t n) { return below(n) == 0; }

 private:
  std::mt19937_64 engine_;
};

std::vector<RankId> deal_stages(const RandomShape& shape, Dice& dice) {
  std::vector<RankId> placement;
  for (int s = 0; s < shape.ranks * shape.chunks; ++s) placement.emplace_back(s % shape.ranks);
  for (std::size_t i = placement.size(); i > 1; --i) {
    std::swap(placement[i - 1], placement[static_cast<std::size_t>(dice.below(i))]);
  }
  return placement;
}

void generalise(PipelineSpec& spec, Dice& dice) {
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
  if (dice.one_in(2)) {
    for (int m = 0; m < spec.microbatches; ++m) {
      spec.update.push_back(m);
      spec.version.push_back(std::max(0, m - 1));
    }
  }
  if (dice.one_in(2)) spec.collectives.push_back({"vocabulary \"sum\"", {RankId(spec.ranks - 1)}});
}

Pipeline random_pipeline(const RandomShape& shape, Dice& dice) {
  PipelineSpec spec;
  spec.ranks = shape.ranks;
  spec.stages = shape.ranks * shape.chunks;
  spec.microbatches = shape.microbatches;
  spec.slices = shape.slices;
  spec.placement = IdVector<StageId, RankId>(deal_stages(shape, dice));
  if (shape.general) generalise(spec, dice);
  auto pipeline = Pipeline::make(std::move(spec));
  PPSIM_CHECK(pipeline.has_value(), pipeline ? "" : pipeline.error().message);
  return *std::move(pipeline);
}

/// All actions of a schedule and which of them wait for which.
class ActionGraph {
 public:
  ActionGraph(const Pipeline& pipeline, const RandomShape& shape, Dice& dice)
      : pipeline_(pipeline), shape_(shape), dice_(dice) {
    const auto cells = static_cast<std::size_t>(pipeline.stages()) *
                       static_cast<std::size_t>(pipeline.microbatches()) *
                       static_cast<std::size_t>(pipeline.slices());
    forward_.assign(cells, -1);
    backward_.assign(cells, -1);
    for_each_cell([&](StageId s, MicrobatchId m) { add_actions(s, m); });
    for_each_cell([&](StageId s, MicrobatchId m) { add_dependencies(s, m); });
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
      if (shape_.idle_cells && dice_.one_in(6)) builder.add(rank_of(first), Step());
      builder.add(rank_of(first), second < 0 ? Step(action(first)) : Step(action(first), action(second)));
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
  RankId rank_of(int node) const { return pipeline_.rank_of(action(node).stage()); }

  int add(OpKind kind, StageId s, MicrobatchId m, int k) {
    actions_.push_back(make_action(kind, s.value(), m.value(), k));
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
      if (split) depend(backward, add(OpKind::backward_weight, s, m, k));
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

  static int take(std::vector<int>& ready, std::size_t at) {
    const int node = ready[at];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(at));
    return node;
  }

  /// A B that is ready beside the F `first` on its rank, sometimes.
  int take_partner(std::vector<int>& ready, int first) {
    if (action(first).kind != OpKind::forward || !dice_.one_in(2)) return -1;
    const auto partner = std::find_if(ready.begin(), ready.end(), [&](int node) {
      return action(node).kind == OpKind::backward && rank_of(node) == rank_of(first);
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
  Dice& dice_;
  std::vector<Action> actions_;
  std::vector<int> waits_;
  std::vector<std::vector<int>> next_;
  std::vector<int> forward_;
  std::vector<int> backward_;
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
  Dice dice(seed);
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
