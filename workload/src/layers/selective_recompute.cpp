#include "selective_recompute.hpp"

#include <algorithm>

namespace ppsim::workload {
namespace {

/// Layer by layer, from the input of each: the rest exists for one layer at a time. I remakes all of it, and
/// keeps what a separate W needs.
Remade save_by_policy(const SoftwareStack& stack, PassTimes& times, LayerWork& work) {
  const CheckpointPolicy& keeps = *stack.checkpoints;
  const double before = times.input;
  const double context = work.saved_for_weight - work.cheap_saved;
  double for_input = 0;
  double for_weight = work.cheap_saved;
  times.input += times.elementwise;
  const auto remake = [&](bool kept, double bytes, double& of, double& sum, double time) {
    if (kept) return;
    of -= bytes;
    sum += bytes;
    times.input += time;
  };
  work.saved_for_weight = context;
  remake(keeps.projections, work.projections_saved, work.saved_for_input, for_input, times.projections);
  remake(keeps.context, context, work.saved_for_weight, for_weight, times.attention_core);
  remake(keeps.context, work.statistics_saved, work.saved_for_input, for_input, 0);
  remake(keeps.output, work.residual_saved, work.saved_for_input, for_input, times.output);
  remake(keeps.gates, work.gates_saved, work.saved_for_input, for_input, times.gates);
  if (stack.reruns_layers && keeps == CheckpointPolicy{.name = keeps.name})
    times.input = before + times.layers;
  work.inner_gradients += for_weight;
  return {.for_input = (for_input + for_weight) / std::max(1.0, work.layers)};
}

}  // namespace

/// Without a checkpoint policy W remakes what is not kept, and I only the outputs of up-projections.
Remade save_less(const SoftwareStack& stack, PassTimes& times, LayerWork& work) {
  if (stack.checkpoints) return save_by_policy(stack, times, work);
  if (stack.selective == SelectiveRecompute::attention_core) {
    times.weight += times.attention_core;
    work.saved_for_input -= work.core_saved;
    return {.for_weight = work.core_saved};
  }
  times.weight += times.elementwise;
  work.saved_for_weight -= work.cheap_saved;
  if (stack.selective == SelectiveRecompute::elementwise) return {.for_weight = work.cheap_saved};
  times.input += times.up_projections;
  work.saved_for_input -= work.up_saved;
  return {.for_input = work.up_saved, .for_weight = work.cheap_saved};
}

}  // namespace ppsim::workload
