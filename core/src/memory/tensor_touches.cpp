#include "tensor_touches.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

#include "parameter_buffers.hpp"
#include "ppsim/core/execution/facts.hpp"
#include "ppsim/core/ir/inference.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "ppsim/core/ir/sequences.hpp"

namespace ppsim {
namespace {

/// Walks the list of one rank and notes what each action does to which tensor.
class Collector {
 public:
  Collector(const Program& program, RankId rank, const TensorKinds& kinds)
      : program_(program),
        pipeline_(program.pipeline()),
        rank_(rank),
        kinds_(kinds),
        parameters_(program, rank),
        training_(trains(program, rank)),
        gathered_(as_size(pipeline_.stages()), false) {}

  std::vector<TensorTouch> collect() {
    resident();
    for (const InstructionId id : program_.ids_of(rank_)) {
      instruction_ = id;
      const auto actions = program_.actions(instruction_);
      for (std::size_t a = 0; a < actions.size(); ++a) {
        if (!belongs_on(pipeline_, actions[a], rank_)) continue;
        visit(actions[a]);
        hold(actions[a], program_.communicators_of(instruction_)[a]);
      }
    }
    keep_held();
    return std::move(touches_);
  }

 private:
  [[nodiscard]] bool collects(TensorKind kind) const { return kinds_[static_cast<std::size_t>(kind)]; }
  void add(Touch touch, const SizeClass& size_class, std::int32_t microbatch) {
    if (!collects(size_class.kind)) return;
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
  void side_inputs(const Action& a);
  void send_output(const Action& a);
  void receive_output(const Action& a);
  [[nodiscard]] bool is_side(StageEdge edge, const Action& a) const;
  void parameters(const Action& a);
  void reduction(const Action& a);
  void optimizer(const Action& a);
  void collective(const Action& a);
  void sum_gradients(const Action& a, StageId stage);
  void sum_inputs(const Action& a, StageId stage);
  void summed_gradients(const Action& a);
  void hold(const Action& a, CommunicatorId communicator);
  void keep_held();

  const Program& program_;
  const Pipeline& pipeline_;
  RankId rank_;
  TensorKinds kinds_;
  ParameterBuffers parameters_;
  bool training_;
  std::vector<bool> gathered_;  ///< per stage: between UNSHARD and RESHARD
  InstructionId instruction_;
  std::vector<TensorTouch> touches_;
  /// Sent tensors that are not free yet, by communicator and receiver.
  std::map<std::pair<CommunicatorId, RankId>, std::deque<TensorTouch>> held_;
};

/// Tensors that exist without an instruction.
void Collector::resident() {
  std::vector<BlockId> blocks;
  for (const StageId stage : pipeline_.stages_of(rank_)) {
    for (const BlockId block : pipeline_.blocks_of(stage)) blocks.push_back(block);
  }
  sort_unique(blocks);
  for (const BlockId block : blocks) resident(block);
}

void Collector::resident(BlockId block) {
  const SizeClass weights{.kind = TensorKind::parameters, .subject = block.value()};
  add(Touch::exists, weights, 0);
  add(Touch::keep, weights, parameters_.newest(block));
  const SizeClass state{.kind = TensorKind::optimizer_state, .subject = block.value()};
  if (training_ || parameters_.has_update(block, 0)) {
    add(Touch::exists, state, -1);
    add(Touch::keep, state, -1);
  }
  const SizeClass gradients{.kind = TensorKind::gradients, .subject = block.value()};
  for (int update = 0; update < pipeline_.updates(); ++update) {
    if (!parameters_.has_update(block, update)) add(Touch::keep, gradients, update);
  }
}

void Collector::visit(const Action& a) {
  if (is_compute(a.kind)) workspace(a);
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
        if (pipeline_.gradient_sum(a.stage()).valid()) break;  // the first edge stands for all
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
      reduction(a);
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
      collective(a);
      break;
    case OpKind::overlap:
      break;
  }
}

void Collector::visit_transfer(const Action& a) {
  const StageEdge edge{a.stage(), a.peer_stage()};
  if (a.kind == OpKind::send_forward) send_output(a);
  if (a.kind == OpKind::recv_forward) receive_output(a);
  if (a.kind == OpKind::send_backward) of_edge(Touch::read, TensorKind::outgoing_gradient, a, edge);
  if (a.kind == OpKind::recv_backward) of_edge(Touch::write, TensorKind::incoming_gradient, a, edge);
  if (!names_peer_rank(a.kind)) return;
  const Touch touch = a.kind == OpKind::recv_activation ? Touch::renew : Touch::read;
  if (!here(a.stage())) {
    own(touch, TensorKind::lent_activations, a);
  } else {
    saved(touch, a);
  }
}

bool Collector::is_side(StageEdge edge, const Action& a) const {
  const auto readers = pipeline_.side_consumers(edge.from, a.mb());
  return std::ranges::find(readers, edge.to) != readers.end();
}

void Collector::send_output(const Action& a) {
  const StageEdge edge{a.stage(), a.peer_stage()};
  if (is_side(edge, a)) return of_edge(Touch::read, TensorKind::boundary_output, a, edge);
  own(Touch::read, TensorKind::boundary_output, a);
}

void Collector::receive_output(const Action& a) {
  if (is_side({a.peer_stage(), a.stage()}, a))
    return of_edge(Touch::write, TensorKind::boundary_input, a, {a.stage(), a.peer_stage()});
  own(Touch::write, TensorKind::boundary_input, a);
}

/// With a send-done delay, a sent tensor is in use until so many later sends of the channel are complete.
void Collector::hold(const Action& a, CommunicatorId communicator) {
  const bool forward = a.kind == OpKind::send_forward;
  if ((!forward && a.kind != OpKind::send_backward) || program_.send_done_delay() == 0) return;
  if (!collects(forward ? TensorKind::boundary_output : TensorKind::outgoing_gradient)) return;
  std::deque<TensorTouch>& channel = held_[{communicator, peer_rank(pipeline_, a)}];
  channel.push_back(touches_.back());
  if (channel.size() <= as_size(program_.send_done_delay())) return;
  add(Touch::read, channel.front().size_class, channel.front().microbatch);
  channel.pop_front();
}

/// A sent tensor that too few sends follow stays to the end of the step.
void Collector::keep_held() {
  instruction_ = InstructionId();
  for (const auto& [channel, sent] : held_) {
    for (const TensorTouch& touch : sent) add(Touch::keep, touch.size_class, touch.microbatch);
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
  for (const StageId consumer : pipeline_.side_consumers(a.stage(), a.mb()))
    of_edge(Touch::write, TensorKind::boundary_output, a, {a.stage(), consumer});
  summed_gradients(a);
}

void Collector::input_gradient(const Action& a) {
  parameters(a);
  saved(Touch::read, a);
  summed_gradients(a);
  for (const StageId producer : pipeline_.producers(a.stage(), a.mb())) {
    if (pipeline_.gradient_sum(producer).valid()) continue;
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
  if (is_padding(pipeline_, a.mb())) return;
  const int update = pipeline_.spec().update[a.mb()];
  for (const BlockId block : pipeline_.blocks_of(a.stage())) {
    const bool partial = pipeline_.spec().blocks[block].reduced_each_microbatch;
    const TensorKind kind = partial ? TensorKind::partial_gradients : TensorKind::gradients;
    add(Touch::write, {.kind = kind, .subject = block.value()}, partial ? a.microbatch : update);
  }
}

/// The sum over ranks replaces the gradients of each; that of a microbatch is added to those before.
void Collector::reduction(const Action& a) {
  const SizeClass gradients{.kind = TensorKind::gradients, .subject = a.subject};
  if (!pipeline_.spec().blocks[a.block()].reduced_each_microbatch)
    return add(Touch::read, gradients, a.update());
  add(Touch::read, {.kind = TensorKind::partial_gradients, .subject = a.subject}, a.microbatch);
  add(Touch::write, gradients, pipeline_.update_of(a));
}

/// Partial gradients for a collective that sums them, made by the pass of the stage that it follows.
void Collector::summed_gradients(const Action& a) {
  for (const StageId producer : pipeline_.producers(a.stage(), a.mb())) {
    const CollectiveId sum = pipeline_.gradient_sum(producer);
    if (!sum.valid()) continue;
    const bool forward = pipeline_.spec().collectives[sum].after.kind == OpKind::forward;
    if (forward != (a.kind == OpKind::forward)) continue;
    of_edge(Touch::write, TensorKind::outgoing_gradient, a, {a.stage(), producer});
  }
}

/// Sums what the stages of this rank made of a gradient or an input, slice by slice, and leaves the sum with
/// the stage that reads it.
void Collector::collective(const Action& a) {
  if (a.microbatch < 0) return;
  for (int k = 0; k < pipeline_.slices(); ++k) {
    const Action slice = at_slice(a, k);
    const Collective& sum = pipeline_.spec().collectives[a.collective()];
    const auto sums = [&](StageId stage) { return stage.valid() && pipeline_.on_route(stage, a.mb()); };
    if (sums(sum.gradient_of)) sum_gradients(slice, sum.gradient_of);
    if (sums(sum.input_of)) sum_inputs(slice, sum.input_of);
  }
}

void Collector::sum_gradients(const Action& a, StageId stage) {
  const auto consumers = pipeline_.consumers(stage, a.mb());
  for (const StageId consumer : consumers) {
    if (here(consumer)) of_edge(Touch::read, TensorKind::outgoing_gradient, a, {consumer, stage});
  }
  if (!here(stage) || consumers.empty()) return;
  of_edge(Touch::write, TensorKind::incoming_gradient, a, {stage, consumers.front()});
}

void Collector::sum_inputs(const Action& a, StageId stage) {
  const auto producers = pipeline_.producers(stage, a.mb());
  for (const StageId producer : producers) {
    if (here(producer)) of_stage(Touch::read, TensorKind::boundary_output, a, producer.value());
  }
  if (!here(stage) || producers.empty()) return;
  of_stage(Touch::write, TensorKind::boundary_input, a, stage.value());
}

/// x: the y of a producer on this rank, what was received for the stage or for another one with it, what was
/// summed for it, or the batch.
void Collector::stage_inputs(const Action& a) {
  const auto producers = pipeline_.producers(a.stage(), a.mb());
  const bool summed = pipeline_.input_sum(a.stage()).valid();
  if (producers.empty()) own(Touch::read_given, TensorKind::boundary_input, a);
  if (summed && !producers.empty()) own(Touch::read, TensorKind::boundary_input, a);
  for (const StageId producer : producers) {
    if (summed) break;
    if (here(producer)) {
      of_stage(Touch::read, TensorKind::boundary_output, a, producer.value());
    } else {
      const StageId receiver = pipeline_.receiver(producer, a.stage(), a.mb());
      of_stage(Touch::read, TensorKind::boundary_input, a, receiver.value());
    }
  }
  side_inputs(a);
  if (gathered_[a.stage().index()]) {
    add(Touch::read, {.kind = TensorKind::gathered_parameters, .subject = a.subject}, -1);
  }
}

/// As long as x.
void Collector::side_inputs(const Action& a) {
  for (const StageId producer : pipeline_.side_producers(a.stage(), a.mb())) {
    if (here(producer)) {
      of_edge(Touch::read, TensorKind::boundary_output, a, {producer, a.stage()});
    } else {
      of_edge(Touch::read, TensorKind::boundary_input, a, {a.stage(), producer});
    }
  }
}

void Collector::parameters(const Action& a) {
  if (!pipeline_.asynchronous()) return;  // one version, there throughout: readers change nothing
  for (const BlockId block : pipeline_.blocks_of(a.stage())) {
    add(Touch::read, {.kind = TensorKind::parameters, .subject = block.value()},
        parameters_.holding(block, pipeline_.version(a.stage(), a.mb())));
  }
}

void Collector::optimizer(const Action& a) {
  add(Touch::read, {.kind = TensorKind::gradients, .subject = a.subject}, a.update());
  if (!pipeline_.asynchronous()) return;
  const SizeClass weights{.kind = TensorKind::parameters, .subject = a.subject};
  add(Touch::read, weights, parameters_.holding(a.block(), a.update()));
  add(Touch::write, weights, parameters_.holding(a.block(), a.update() + 1));
}

}  // namespace

std::vector<TensorTouch> tensor_touches(const Program& program, RankId rank, const TensorKinds& kinds) {
  std::vector<TensorTouch> touches = Collector(program, rank, kinds).collect();
  std::ranges::stable_sort(touches, [](const TensorTouch& a, const TensorTouch& b) {
    return std::tie(a.size_class, a.microbatch, a.instruction) <
           std::tie(b.size_class, b.microbatch, b.instruction);
  });
  return touches;
}

}  // namespace ppsim
