#include "ppsim/gpu_backend/stage_model/reference.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "executor/payload.hpp"
#include "gradient_norm.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "stage_buffer.hpp"
#include "tensor_map.hpp"

namespace ppsim::gpu_backend {
namespace {

/// The tensors of one stage, microbatch after microbatch.
struct StageMemory {
  StageBuffer x, y, saved_for_input, saved_for_weight, inner_gradients, forward_workspace, backward_workspace;
  std::map<StageId, StageBuffer> dy;            ///< per consumer; of a sum one
  std::map<StageId, StageBuffer> side_outputs;  ///< per consumer
  StageBuffer summand;                          ///< the stage's part of a gradient that a collective sums
};
struct BlockMemory {
  std::vector<StageBuffer> parameters;  ///< version by version of the step, as far as they are made
  std::vector<StageBuffer> gradients;   ///< per update
  StageBuffer optimizer_state;
};

/// True where updates come one after another, and nobody reads a version that is still to be made.
bool runs_in_turn(const Pipeline& pipeline) {
  int current = 0;
  for (int m = 0; m < pipeline.microbatches(); ++m) {
    const MicrobatchId mb(m);
    if (is_padding(pipeline, mb)) continue;
    const int update = pipeline.spec().update[mb];
    if (update < current || update > current + (m > 0 ? 1 : 0)) return false;
    current = update;
    if (pipeline.spec().version[mb] > update) return false;
  }
  return true;
}

Expected<void> check(const Pipeline& pipeline, const CpuStageModel& model, const ReferenceOptions& options) {
  const auto refuse = [](const std::string& what) {
    return make_error(ErrorCode::bad_argument, "there is no unpipelined reference of " + what);
  };
  if (options.steps < 1) return make_error(ErrorCode::bad_argument, "a reference has at least 1 step");
  if (!runs_in_turn(pipeline)) return refuse("updates that do not come one after another");
  for (const StageId stage : pipeline.stage_ids()) {
    if (pipeline.blocks_of(stage).empty() || pipeline.blocks_of(stage).size() > 2)
      return refuse("a stage with no or more than two parameter blocks");
  }
  return model.check(pipeline);
}

/// The same with whole sequences.
Pipeline uncut(const Pipeline& pipeline) {
  PipelineSpec spec = pipeline.spec();
  spec.slices = 1;
  auto whole = Pipeline::make(std::move(spec));
  PPSIM_CHECK(whole, "a pipeline without its slices is one");
  return *std::move(whole);
}

/// Runs steps on one thread.
class Reference {
 public:
  Reference(const Pipeline& pipeline, const CpuStageModel& model)
      : pipeline_(pipeline),
        model_(model),
        sizes_(model.sizes(pipeline)),
        stages_(as_size(pipeline.stages())),
        blocks_(as_size(pipeline.blocks())) {
    for (const StageId stage : pipeline.stage_ids()) stages_[stage] = stage_memory(stage);
    for (const BlockId id : pipeline.block_ids()) {
      BlockMemory& block = blocks_[id];
      block = {.parameters = {of_block(TensorKind::parameters, id)},
               .gradients = std::vector<StageBuffer>(as_size(pipeline_.updates()),
                                                     of_block(TensorKind::gradients, id)),
               .optimizer_state = of_block(TensorKind::optimizer_state, id)};
      model_.initialize(pipeline_, id, block.parameters.front(), block.optimizer_state);
    }
  }

  /// Every microbatch, and an update after the last one of each where `updates`; the newest weights are those
  /// that the next step starts with.
  void step(int number, bool updates, double clip_norm) {
    step_ = number;
    for (BlockMemory& block : blocks_) {
      block.parameters = {block.parameters.back()};
      for (StageBuffer& gradients : block.gradients) std::ranges::fill(gradients, std::byte{0});
    }
    for (const MicrobatchId mb : pipeline_.microbatch_ids()) {
      if (is_padding(pipeline_, mb)) continue;
      run(mb);
      const int update = pipeline_.spec().update[mb];
      const bool last = pipeline_.microbatches_of_update(update).back() == mb;
      if (last && updates) make_version(as_size(update), clip_norm);
    }
  }

  [[nodiscard]] std::vector<BlockGradients> gradients() const {
    std::vector<BlockGradients> result;
    for (const BlockId b : pipeline_.block_ids()) {
      for (int update = 0; update < pipeline_.updates(); ++update) {
        const StageBuffer& gradients = blocks_[b].gradients[as_size(update)];
        result.push_back({.block = b,
                          .rank = ranks_of(pipeline_, b).front(),
                          .update = update,
                          .reduced = true,
                          .values = {gradients.begin(), gradients.end()}});
      }
    }
    return result;
  }

 private:
  [[nodiscard]] StageBuffer buffer(const SizeClass& key) const { return StageBuffer(as_size(sizes_(key))); }
  [[nodiscard]] StageBuffer of_block(TensorKind kind, BlockId block) const {
    return buffer({.kind = kind, .subject = block.value()});
  }

  [[nodiscard]] StageMemory stage_memory(StageId stage) const {
    const auto own = [&](TensorKind kind) {
      return buffer({.kind = kind, .subject = stage.value(), .slice = 0});
    };
    const auto workspace = [&](OpKind op) {
      return buffer({.kind = TensorKind::workspace, .subject = stage.value(), .slice = 0, .op = op});
    };
    return {.x = own(TensorKind::boundary_input),
            .y = own(TensorKind::boundary_output),
            .saved_for_input = own(TensorKind::saved_for_input),
            .saved_for_weight = own(TensorKind::saved_for_weight),
            .inner_gradients = own(TensorKind::inner_gradients),
            .forward_workspace = workspace(OpKind::forward),
            .backward_workspace = workspace(OpKind::backward),
            .dy = output_gradients(stage),
            .side_outputs = side_outputs(stage),
            .summand = own(TensorKind::outgoing_gradient)};
  }

  [[nodiscard]] std::map<StageId, StageBuffer> output_gradients(StageId stage) const {
    std::map<StageId, StageBuffer> gradients;
    for (const StageEdge& edge : pipeline_.spec().edges) {
      if (edge.from != stage) continue;
      gradients[edge.to] =
          buffer({.kind = TensorKind::incoming_gradient, .subject = stage.value(), .slice = 0});
    }
    return gradients;
  }

  [[nodiscard]] std::map<StageId, StageBuffer> side_outputs(StageId stage) const {
    std::map<StageId, StageBuffer> outputs;
    for (const StageEdge& edge : pipeline_.spec().side_edges) {
      if (edge.from != stage) continue;
      outputs[edge.to] = buffer({.kind = TensorKind::boundary_output,
                                 .subject = stage.value(),
                                 .peer = edge.to.value(),
                                 .slice = 0});
    }
    return outputs;
  }

  void make_version(std::size_t update, double clip_norm) {
    const double scale = clip_norm > 0 ? clip_scale(squared_norm(update), clip_norm) : 1.0;
    for (BlockMemory& block : blocks_) {
      block.parameters.push_back(block.parameters.back());
      StageBuffer gradients = block.gradients[update];  // OPT may use them up
      model_.update(block.parameters.back(), gradients, block.optimizer_state, scale);
    }
  }

  void run(MicrobatchId mb) {
    const std::vector<StageId> route = stages_in_order(mb);
    for (auto stage = route.begin(); stage != route.end(); ++stage) pass(OpKind::forward, *stage, mb);
    for (auto stage = route.rbegin(); stage != route.rend(); ++stage) pass(OpKind::backward, *stage, mb);
  }

  /// The stages that a microbatch visits, each after its producers.
  [[nodiscard]] std::vector<StageId> stages_in_order(MicrobatchId mb) const {
    std::vector<StageId> order;
    std::vector<std::size_t> missing(stages_.size(), 0);
    for (int s = 0; s < pipeline_.stages(); ++s) {
      if (!pipeline_.on_route(StageId(s), mb)) continue;
      missing[as_size(s)] =
          pipeline_.producers(StageId(s), mb).size() + pipeline_.side_producers(StageId(s), mb).size();
      if (missing[as_size(s)] == 0) order.emplace_back(s);
    }
    for (std::size_t next = 0; next < order.size(); ++next) {
      const StageId stage = order[next];
      for (const auto readers : {pipeline_.consumers(stage, mb), pipeline_.side_consumers(stage, mb)}) {
        for (const StageId reader : readers) {
          if (--missing[reader.index()] == 0) order.push_back(reader);
        }
      }
    }
    return order;
  }

  /// F or B of a stage, and after it the collectives for which it was the last to be waited for.
  void pass(OpKind kind, StageId stage, MicrobatchId mb) {
    if (kind == OpKind::forward && pipeline_.producers(stage, mb).empty())
      model_.load(pipeline_, mb, batch_buffers(stages_[stage].x, 0, &step_));
    compute(kind, stage, mb);
    const auto& collectives = pipeline_.spec().collectives;
    waiting_.resize(collectives.size(), 0);
    for (const CollectiveId id : collectives.ids()) {
      const StagePasses& after = collectives[id].after;
      if (after.kind != kind || std::ranges::find(after.stages, stage) == after.stages.end()) continue;
      if (++waiting_[id.index()] < after.stages.size()) continue;
      waiting_[id.index()] = 0;
      collect(id);
    }
  }

  void collect(CollectiveId id) {
    const Collective& collective = pipeline_.spec().collectives[id];
    std::vector<StageId> stages = collective.after.stages;
    std::ranges::stable_sort(
        stages, [&](StageId a, StageId b) { return pipeline_.rank_of(a) < pipeline_.rank_of(b); });
    const auto statistics = as_size(model_.statistics_bytes(pipeline_, id));
    std::vector<CollectivePart> parts;
    for (const StageId stage : stages) {
      StageMemory& own = stages_[stage];
      parts.push_back({std::span<std::byte>(own.saved_for_weight).first(statistics), {}});
      if (collective.gradient_of.valid()) parts.back().summand = own.summand;
      if (collective.input_of.valid()) parts.back().summand = own.y;
    }
    model_.combine(pipeline_, id, parts);
    const std::span<const std::byte> sum = parts.front().summand;
    if (collective.input_of.valid()) put_sum(sum, stages_[collective.input_of].x);
    if (collective.gradient_of.valid()) put_sum(sum, stages_[collective.gradient_of].dy.begin()->second);
  }

  void compute(OpKind kind, StageId stage, MicrobatchId mb) {
    StageMemory& own = stages_[stage];
    ActionBuffers buffers;
    buffers.x = own.x;
    buffers.saved_for_input = own.saved_for_input;
    buffers.saved_for_weight = own.saved_for_weight;
    buffers.workspace = kind == OpKind::forward ? own.forward_workspace : own.backward_workspace;
    buffers.step = &step_;
    find_weights(stage, mb, buffers);
    find_outputs(stage, mb, buffers);
    find_inputs(stage, mb, buffers);
    find_side_edges(stage, mb, buffers);
    model_.compute(pipeline_, make_action(kind, stage.value(), mb.value()), buffers);
    if (kind != OpKind::forward && pipeline_.input_sum(stage).valid()) copy_gradients(stage, mb);
  }

  void find_weights(StageId stage, MicrobatchId mb, ActionBuffers& buffers) {
    const auto version = as_size(pipeline_.version(stage, mb));
    const auto update = as_size(pipeline_.spec().update[mb]);
    const auto blocks = pipeline_.blocks_of(stage);
    buffers.parameters = blocks_[blocks.front()].parameters[version];
    buffers.gradients = blocks_[blocks.front()].gradients[update];
    if (blocks.size() < 2) return;
    buffers.shared_parameters = blocks_[blocks.back()].parameters[version];
    buffers.shared_gradients = blocks_[blocks.back()].gradients[update];
  }

  void find_outputs(StageId stage, MicrobatchId mb, ActionBuffers& buffers) {
    const auto consumers = pipeline_.consumers(stage, mb);
    if (consumers.empty()) return;
    buffers.y = stages_[stage].y;
    buffers.dy = stages_[stage].dy.at(consumers.front());
    if (pipeline_.gradient_sum(stage).valid()) return;
    for (const StageId consumer : consumers.subspan(1))
      buffers.further_dy.emplace_back(stages_[stage].dy.at(consumer));
  }

  void find_inputs(StageId stage, MicrobatchId mb, ActionBuffers& buffers) {
    const auto producers = pipeline_.producers(stage, mb);
    if (producers.empty()) return;
    const StageId first = producers.front();
    buffers.dx = pipeline_.gradient_sum(first).valid() ? stages_[stage].summand : stages_[first].dy.at(stage);
    if (pipeline_.input_sum(stage).valid()) return;
    buffers.x = stages_[first].y;
    for (const StageId producer : producers.subspan(1)) {
      buffers.further_x.emplace_back(stages_[producer].y);
      buffers.further_dx.emplace_back(stages_[producer].dy.at(stage));
    }
  }

  void find_side_edges(StageId stage, MicrobatchId mb, ActionBuffers& buffers) {
    for (const StageId consumer : pipeline_.side_consumers(stage, mb))
      buffers.side_outputs.emplace_back(stages_[stage].side_outputs.at(consumer));
    for (const StageId producer : pipeline_.side_producers(stage, mb))
      buffers.side_inputs.emplace_back(stages_[producer].side_outputs.at(stage));
  }

  /// All that a collective adds up for a stage get the gradient of the sum.
  void copy_gradients(StageId stage, MicrobatchId mb) {
    const auto producers = pipeline_.producers(stage, mb);
    const StageBuffer& first = stages_[producers.front()].dy.at(stage);
    for (const StageId producer : producers.subspan(1)) stages_[producer].dy.at(stage) = first;
  }

  /// Summed as the ranks of a run sum it: each over its own blocks, then rank by rank.
  [[nodiscard]] double squared_norm(std::size_t update) const {
    double total = 0;
    for (const RankId rank : pipeline_.rank_ids()) {
      double of_rank = 0;
      for (const BlockId block : pipeline_.block_ids()) {
        if (ranks_of(pipeline_, block).front() != rank) continue;
        of_rank += model_.squared_norm(blocks_[block].gradients[update]);
      }
      total += of_rank;
    }
    return total;
  }

  const Pipeline& pipeline_;
  const CpuStageModel& model_;
  SizeTable sizes_;
  IdVector<StageId, StageMemory> stages_;
  IdVector<BlockId, BlockMemory> blocks_;
  std::vector<std::size_t> waiting_;  ///< per collective: passes of the microbatch that are done
  std::int64_t step_ = 0;
};

}  // namespace

ReferenceOptions reference_options(const Program& program, const RunOptions& options) {
  ReferenceOptions reference{.steps = options.steps};
  const auto& collectives = program.pipeline().spec().collectives;
  for (const Action& action : program.all_actions()) {
    reference.update |= action.kind == OpKind::optimizer;
    if (action.kind == OpKind::collective && collectives[action.collective()].per_update()) {
      reference.clip_norm = options.clip_norm;
    }
  }
  return reference;
}

Expected<std::vector<BlockGradients>> reference_gradients(const Pipeline& pipeline,
                                                          const CpuStageModel& model,
                                                          const ReferenceOptions& options) {
  const Pipeline whole = uncut(pipeline);
  PPSIM_RETURN_IF_ERROR(check(whole, model, options));
  Reference reference(whole, model);
  // A step without updates leaves nothing to those after it.
  const int first = pipeline.asynchronous() || options.update ? 0 : options.steps - 1;
  for (int step = first; step < options.steps; ++step) {
    // Nothing reads the result of a run's last update; within an asynchronous step it is read.
    const bool updates = pipeline.asynchronous() || (options.update && step + 1 < options.steps);
    reference.step(step, updates, options.clip_norm);
  }
  return reference.gradients();
}

}  // namespace ppsim::gpu_backend
