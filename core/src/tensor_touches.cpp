#include "tensor_touches.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "ppsim/core/facts.hpp"

namespace ppsim {
namespace {

/// Which versions of each block's parameters a rank holds: one updated in place when the pipeline is
/// synchronous, else one more from each OPT of the rank.
class Versions {
 public:
  Versions(const Program& program, RankId rank)
      : pipeline_(program.pipeline()),
        written_(static_cast<std::size_t>(pipeline_.blocks()), {0}),
        updates_(written_.size()) {
    const auto& version = pipeline_.spec().version;
    asynchronous_ =
        pipeline_.updates() > 1 || std::any_of(version.begin(), version.end(), [](int v) { return v > 0; });
    for (InstructionId id = program.first(rank); id < program.last(rank);
         id = InstructionId(id.value() + 1)) {
      for (const Action& action : program.actions(id)) {
        if (action.kind == OpKind::optimizer && belongs_on(pipeline_, action, rank)) note_update(action);
      }
    }
    for (auto* lists : {&written_, &updates_}) {
      for (std::vector<int>& list : *lists) std::sort(list.begin(), list.end());
    }
  }

  [[nodiscard]] bool asynchronous() const { return asynchronous_; }
  [[nodiscard]] int last(BlockId block) const { return written_[block.index()].back(); }
  /// What a reader of `version` finds: that one, or the newest before it that some OPT writes.
  [[nodiscard]] int found(BlockId block, int version) const {
    const std::vector<int>& list = written_[block.index()];
    const auto above = std::upper_bound(list.begin(), list.end(), version);
    return above == list.begin() ? list.front() : *std::prev(above);
  }
  [[nodiscard]] bool has_update(BlockId block, int update) const {
    return std::binary_search(updates_[block.index()].begin(), updates_[block.index()].end(), update);
  }

 private:
  void note_update(const Action& optimizer) {
    updates_[optimizer.block().index()].push_back(optimizer.update());
    if (asynchronous_) written_[optimizer.block().index()].push_back(optimizer.update() + 1);
  }

  const Pipeline& pipeline_;
  std::vector<std::vector<int>> written_;  ///< per block, ascending
  std::vector<std::vector<int>> updates_;  ///< per block, ascending: those with an OPT on the rank
  bool asynchronous_ = false;
};

/// Walks the list of one rank and notes what each action does to which tensor.
class Collector {
 public:
  Collector(const Program& program, RankId rank)
      : program_(program),
        pipeline_(program.pipeline()),
        rank_(rank),
        versions_(program, rank),
        gathered_(static_cast<std::size_t>(pipeline_.stages()), false) {}

  std::vector<TensorTouch> collect() {
    resident();
    for (int i = program_.first(rank_).value(); i < program_.last(rank_).value(); ++i) {
      instruction_ = InstructionId(i);
      for (const Action& action : program_.actions(instruction_)) {
        if (belongs_on(pipeline_, action, rank_)) visit(action);
      }
    }
    return std::move(touches_);
  }

 private:
  void add(Touch touch, const SizeClass& size_class, std::int32_t microbatch) {
    touches_.push_back({size_class, microbatch, instruction_, touch});
  }
  /// A tensor of the action's stage, microbatch and slice.
  void own(Touch touch, TensorKind kind, const Action& a) { of_stage(touch, kind, a, a.subject); }
  void of_stage(Touch touch, TensorKind kind, const Action& a, std::int32_t stage) {
    add(touch, {.kind = kind, .subject = stage, .slice = a.slice}, a.microbatch);
  }
  /// A gradient on the edge between two stages, as the first of them holds it.
  void of_edge(Touch touch, TensorKind kind, const Action& a, StageEdge ends) {
    add(touch, {.kind = kind, .subject = ends.from.value(), .peer = ends.to.value(), .slice = a.slice},
        a.microbatch);
  }
  void saved(Touch touch, const Action& a) {
    own(touch, TensorKind::saved_for_input, a);
    own(touch, TensorKind::saved_for_weight, a);
  }
  void workspace(const Action& a) {
    add(Touch::renew, {.kind = TensorKind::workspace, .subject = a.subject, .slice = a.slice, .op = a.kind},
        a.microbatch);
  }
  [[nodiscard]] bool here(StageId stage) const { return pipeline_.rank_of(stage) == rank_; }

  void resident();
  void resident(BlockId block);
  void visit(const Action& a);
  void visit_transfer(const Action& a);
  void visit_shard(const Action& a);
  void forward(const Action& a);
  void input_gradient(const Action& a);
  void weight_gradient(const Action& a);
  void stage_inputs(const Action& a);
  void parameters(const Action& a);
  void optimizer(const Action& a);

  const Program& program_;
  const Pipeline& pipeline_;
  RankId rank_;
  Versions versions_;
  std::vector<bool> gathered_;  ///< per stage: between UNSHARD and RESHARD
  InstructionId instruction_;
  std::vector<TensorTouch> touches_;
};

/// What needs no instruction to exist.
void Collector::resident() {
  std::vector<BlockId> blocks;
  for (const StageId stage : pipeline_.stages_of(rank_)) {
    for (const BlockId block : pipeline_.blocks_of(stage)) blocks.push_back(block);
  }
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  for (const BlockId block : blocks) resident(block);
}

void Collector::resident(BlockId block) {
  const SizeClass weights{.kind = TensorKind::parameters, .subject = block.value()};
  add(Touch::exists, weights, 0);
  add(Touch::keep, weights, versions_.last(block));
  const SizeClass state{.kind = TensorKind::optimizer_state, .subject = block.value()};
  add(Touch::exists, state, -1);
  add(Touch::keep, state, -1);
  const SizeClass gradients{.kind = TensorKind::gradients, .subject = block.value()};
  for (int update = 0; update < pipeline_.updates(); ++update) {
    if (!versions_.has_update(block, update)) add(Touch::keep, gradients, update);
  }
}

void Collector::visit(const Action& a) {
  if (info(a.kind).resource == Resource::compute) workspace(a);
  switch (a.kind) {
    case OpKind::forward:
      forward(a);
      break;
    case OpKind::recompute:
      stage_inputs(a);
      parameters(a);
      saved(Touch::write, a);
      break;
    case OpKind::backward:
    case OpKind::backward_input:
    case OpKind::backward_weight:
      stage_inputs(a);
      for (const StageId consumer : pipeline_.consumers(a.stage(), a.mb())) {
        of_edge(Touch::read, TensorKind::incoming_gradient, a, {a.stage(), consumer});
      }
      if (gives_input_gradient(a.kind)) input_gradient(a);
      if (gives_weight_gradient(a.kind)) weight_gradient(a);
      break;
    case OpKind::send_forward:
    case OpKind::recv_forward:
    case OpKind::send_backward:
    case OpKind::recv_backward:
    case OpKind::send_activation:
    case OpKind::recv_activation:
      visit_transfer(a);
      break;
    case OpKind::unshard:
    case OpKind::reshard:
      visit_shard(a);
      break;
    case OpKind::reduce_grad:
      add(Touch::read, {.kind = TensorKind::gradients, .subject = a.subject}, a.update());
      break;
    case OpKind::optimizer:
      optimizer(a);
      break;
    case OpKind::offload:
      saved(Touch::read, a);
      break;
    case OpKind::reload:
      saved(Touch::renew, a);
      break;
    case OpKind::load:
      own(Touch::write, TensorKind::boundary_input, a);
      break;
    case OpKind::collective:
    case OpKind::overlap:
      break;
  }
}

void Collector::visit_transfer(const Action& a) {
  const bool lent = !here(a.stage());
  const StageEdge edge{a.stage(), a.peer_stage()};
  if (a.kind == OpKind::send_forward) own(Touch::read, TensorKind::boundary_output, a);
  if (a.kind == OpKind::recv_forward) own(Touch::write, TensorKind::boundary_input, a);
  if (a.kind == OpKind::send_backward) of_edge(Touch::read, TensorKind::outgoing_gradient, a, edge);
  if (a.kind == OpKind::recv_backward) of_edge(Touch::write, TensorKind::incoming_gradient, a, edge);
  if (a.kind != OpKind::send_activation && a.kind != OpKind::recv_activation) return;
  const Touch touch = a.kind == OpKind::recv_activation ? Touch::renew : Touch::read;
  if (lent) {
    own(touch, TensorKind::lent_activations, a);
  } else {
    saved(touch, a);
  }
}

void Collector::visit_shard(const Action& a) {
  const bool gathers = a.kind == OpKind::unshard;
  const SizeClass gathered{.kind = TensorKind::gathered_parameters, .subject = a.subject};
  if (gathers || gathered_[a.stage().index()]) add(gathers ? Touch::write : Touch::release, gathered, -1);
  gathered_[a.stage().index()] = gathers;
}

void Collector::forward(const Action& a) {
  stage_inputs(a);
  parameters(a);
  saved(Touch::save, a);
  if (!pipeline_.consumers(a.stage(), a.mb()).empty()) own(Touch::write, TensorKind::boundary_output, a);
}

void Collector::input_gradient(const Action& a) {
  parameters(a);
  saved(Touch::read, a);
  for (const StageId producer : pipeline_.producers(a.stage(), a.mb())) {
    if (here(producer)) {
      of_edge(Touch::write, TensorKind::incoming_gradient, a, {producer, a.stage()});
    } else {
      of_edge(Touch::write, TensorKind::outgoing_gradient, a, {a.stage(), producer});
    }
  }
  if (a.kind == OpKind::backward_input) own(Touch::write, TensorKind::inner_gradients, a);
  if (pipeline_.slices() > 1) {
    const bool first = a.slice == pipeline_.slices() - 1;
    add(first ? Touch::write : Touch::read, {.kind = TensorKind::kv_gradient, .subject = a.subject},
        a.microbatch);
  }
}

void Collector::weight_gradient(const Action& a) {
  own(Touch::read, TensorKind::saved_for_weight, a);
  if (a.kind == OpKind::backward_weight) own(Touch::read, TensorKind::inner_gradients, a);
  const int update = pipeline_.spec().update[a.mb()];
  for (const BlockId block : pipeline_.blocks_of(a.stage())) {
    add(Touch::write, {.kind = TensorKind::gradients, .subject = block.value()}, update);
  }
}

/// x: the y of a producer on this rank, what was received for one elsewhere, or the batch.
void Collector::stage_inputs(const Action& a) {
  const auto producers = pipeline_.producers(a.stage(), a.mb());
  if (producers.empty()) own(Touch::read_given, TensorKind::boundary_input, a);
  bool received = false;
  for (const StageId producer : producers) {
    if (here(producer)) of_stage(Touch::read, TensorKind::boundary_output, a, producer.value());
    received |= !here(producer);
  }
  if (received) own(Touch::read, TensorKind::boundary_input, a);
  if (gathered_[a.stage().index()]) {
    add(Touch::read, {.kind = TensorKind::gathered_parameters, .subject = a.subject}, -1);
  }
}

void Collector::parameters(const Action& a) {
  if (!versions_.asynchronous()) return;  // one version, there throughout: readers change nothing
  for (const BlockId block : pipeline_.blocks_of(a.stage())) {
    add(Touch::read, {.kind = TensorKind::parameters, .subject = block.value()},
        versions_.found(block, pipeline_.spec().version[a.mb()]));
  }
}

void Collector::optimizer(const Action& a) {
  add(Touch::read, {.kind = TensorKind::gradients, .subject = a.subject}, a.update());
  if (!versions_.asynchronous()) return;
  const SizeClass weights{.kind = TensorKind::parameters, .subject = a.subject};
  add(Touch::read, weights, versions_.found(a.block(), a.update()));
  add(Touch::write, weights, a.update() + 1);
}

/// Without the saves of F where an R makes the same tensor: they are not kept.
void drop_replaced_saves(std::vector<TensorTouch>& touches) {
  const auto key_of = [](const TensorTouch& t) { return std::tie(t.size_class, t.microbatch); };
  std::vector<TensorTouch> kept;
  kept.reserve(touches.size());
  for (auto begin = touches.begin(); begin != touches.end();) {
    const auto end =
        std::find_if(begin, touches.end(), [&](const TensorTouch& t) { return key_of(t) != key_of(*begin); });
    const bool written =
        std::any_of(begin, end, [](const TensorTouch& t) { return t.touch == Touch::write; });
    std::copy_if(begin, end, std::back_inserter(kept),
                 [&](const TensorTouch& t) { return !written || t.touch != Touch::save; });
    begin = end;
  }
  touches = std::move(kept);
}

}  // namespace

std::vector<TensorTouch> tensor_touches(const Program& program, RankId rank) {
  std::vector<TensorTouch> touches = Collector(program, rank).collect();
  std::stable_sort(touches.begin(), touches.end(), [](const TensorTouch& a, const TensorTouch& b) {
    return std::tie(a.size_class, a.microbatch, a.instruction) <
           std::tie(b.size_class, b.microbatch, b.instruction);
  });
  drop_replaced_saves(touches);
  return touches;
}

}  // namespace ppsim
