#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "families/catalogue.hpp"
#include "families/orders/vocabulary_order.hpp"
#include "families/repetitions.hpp"
#include "families/settings.hpp"

// Vocabulary parallelism on 1F1B: the output layer is cut along the vocabulary, a shard per rank, so that no
// rank computes more than the others. For every microbatch all shards read the output of the last stage.
// Their S passes make logits and a softmax that is right up to a factor, their T passes the gradients.
//
// Vocab-1 (Algorithm 1 of the paper) has two barriers: the statistics of the softmax between S and T, and the
// sum of the input gradients between T and B of the last stage. Vocab-2 (Algorithm 2) lets S make the input
// gradient as well, so that one barrier carries both, and T has the weight gradient alone. Every barrier
// holds one more microbatch on each rank: p + 2 and p + 1 on the first one.
//
// In the IR, S is F of a shard and T its B, whatever part of the gradient they make; collectives bring the
// gradient back to the last stage. Costs of S, T and the barriers are those of stages p, ..., 2p - 1 and of
// the collectives 0 and 1. Where S runs next to what on a rank follows from them, as it does in the authors'
// code; under the costs that the order is made for it has the bubble of 1F1B exactly, whatever S and T take.
//
// The input layer belongs to the first stage, or is sharded likewise (input=sharded): stages 2p, ..., 3p - 1
// look their part of the vocabulary up, a collective sums it for stage 0, whose gradient goes to all of them.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::array<std::string_view, 2> kInputs = {"first", "sharded"};
constexpr std::array kSettings = {
    SettingInfo{"input", "where the input layer is: first (in the first stage) or sharded", "first", kInputs},
};

bool shards_input(const ScheduleParameters& parameters) { return setting(parameters, "input") == "sharded"; }

/// The collectives, in the order of the spec.
VocabularyLayout layout_of(const ScheduleParameters& parameters, int barriers) {
  VocabularyLayout layout{
      .softmax = CollectiveId(0), .gradient = CollectiveId(barriers - 1), .extra = barriers};
  if (shards_input(parameters)) layout.embedding = CollectiveId(barriers);
  return layout;
}

CostTable costs_of(const ScheduleParameters& parameters) {
  return parameters.costs.value_or(unit_cost_table({}));
}

/// One shard per rank, from stage `first` on.
std::vector<StageId> shards_from(int first, int ranks) {
  std::vector<StageId> stages;
  for (int r = 0; r < ranks; ++r) stages.emplace_back(first + r);
  return stages;
}

void shard_output(PipelineSpec& spec, const VocabularyLayout& layout) {
  const int p = spec.ranks;
  const StageId last(p - 1);
  const std::vector<StageId> shards = shards_from(p, p);
  for (const StageId shard : shards) spec.edges.push_back({last, shard});
  Collective softmax;
  softmax.name = "softmax";
  for (int r = 0; r < p; ++r) softmax.members.emplace_back(r);
  softmax.after = {OpKind::forward, shards};
  softmax.before = {OpKind::backward, shards};
  if (!layout.two_barriers()) softmax.gradient_of = last;
  spec.collectives.push_back(softmax);
  if (!layout.two_barriers()) return;
  spec.collectives.push_back(
      {.name = "input gradient", .members = softmax.members, .after = softmax.before, .gradient_of = last});
}

void shard_input(PipelineSpec& spec) {
  const int p = spec.ranks;
  const std::vector<StageId> shards = shards_from(2 * p, p);
  for (const StageId shard : shards) spec.edges.push_back({shard, StageId(0)});
  spec.collectives.push_back({.name = "embedding",
                              .members = spec.collectives[CollectiveId(0)].members,
                              .after = {OpKind::forward, shards},
                              .input_of = StageId(0)});
}

Expected<Schedule> generate(std::string_view name, const ScheduleParameters& parameters, int barriers) {
  const VocabularyLayout layout = layout_of(parameters, barriers);
  PipelineSpec spec;
  spec.ranks = parameters.ranks;
  spec.stages = (layout.shards_input() ? 3 : 2) * parameters.ranks;
  spec.microbatches = parameters.microbatches;
  for (int r = 1; r < spec.ranks; ++r) spec.edges.push_back({StageId(r - 1), StageId(r)});
  shard_output(spec, layout);
  if (layout.shards_input()) shard_input(spec);
  PPSIM_ASSIGN_OR_RETURN(auto pipeline, Pipeline::make(std::move(spec)));
  ScheduleBuilder builder{std::string(name), pipeline};
  add_vocabulary_rows(builder, pipeline, layout, costs_of(parameters));
  return std::move(builder).build();
}

/// F to B in lowest terms.
std::pair<Nanoseconds, Nanoseconds> ratio(Nanoseconds forward, Nanoseconds backward) {
  const Nanoseconds divisor = std::max<Nanoseconds>(std::gcd(forward, backward), 1);
  return {forward / divisor, backward / divisor};
}

/// Whether the order is made for stages and shards of such costs, all alike up to the unit of time, and for
/// transfers and barriers that take none.
bool made_for(const ScheduleParameters& parameters, const StageCosts& costs) {
  const CostTable table = costs_of(parameters);
  const auto cost = [&](const Action& action) { return table(cost_class_of(action)); };
  const int p = parameters.ranks;
  const Nanoseconds forward = cost(make_action(OpKind::forward, 0, 0));
  const Nanoseconds backward = cost(make_action(OpKind::backward, 0, 0));
  for (int s = 0; s < 2 * p; ++s) {
    const int producer = s < p ? std::max(s - 1, 0) : p - 1;
    if (cost(make_action(OpKind::forward, s, 0)) != forward ||
        cost(make_action(OpKind::backward, s, 0)) != backward ||
        cost(make_transfer(OpKind::send_forward, producer, 0, s)) > 0 ||
        cost(make_transfer(OpKind::send_backward, s, 0, producer)) > 0) {
      return false;
    }
  }
  return ratio(forward, backward) == ratio(costs.forward, costs.backward) &&
         cost(make_action(OpKind::collective, 0, 0)) == 0 && cost(make_action(OpKind::collective, 1, 0)) == 0;
}

std::optional<Nanoseconds> makespan(const ScheduleParameters& parameters, const StageCosts& costs) {
  if (shards_input(parameters) || costs.transfer > 0 || !made_for(parameters, costs)) return std::nullopt;
  const Nanoseconds p = parameters.ranks;
  const Nanoseconds m = parameters.microbatches;
  return (2 * m + p - 1) * (costs.forward + costs.backward);
}

/// Stages as in 1F1B and one more per barrier, and one shard.
std::optional<int> peak(const ScheduleParameters& parameters, RankId rank, int barriers) {
  if (shards_input(parameters)) return std::nullopt;
  return std::min(parameters.ranks - rank.value() + barriers, parameters.microbatches) + 1;
}

std::string refusal(const ScheduleParameters& parameters) {
  return refused_word(parameters, "input", kInputs);
}

struct Variant {
  std::string_view name;
  std::string_view summary;
  std::string_view peak;
};

ScheduleInfo info_of(const Variant& variant) {
  return {
      .name = variant.name,
      .summary = variant.summary,
      .paper =
          "Yeung, Qi, Lin, Wan, Balancing pipeline parallelism with vocabulary parallelism, MLSys 2025, "
          "arXiv 2411.05288",
      .placement = "stage s on rank s, shard r of the output layer, stage p + r, on rank r",
      .constraints = "any ranks and microbatches",
      .default_chunks = 2,
      .min_chunks = 2,
      .max_chunks = 2,
      .uses_costs = true,
      .settings = kSettings,
      .refusal = refusal,
      .generate = nullptr,
      .repetitions = repeats_at_unit_costs,
      .forms = {.makespan = makespan, .bubble = "(p-1)(F+B)", .peak = variant.peak},
  };
}

}  // namespace

ScheduleInfo vocab_1() {
  ScheduleInfo info =
      info_of({.name = "vocab-1",
               .summary = "1F1B with the output layer sharded over the ranks, two barriers per microbatch",
               .peak = "min(p+2, m)+1"});
  info.generate = [](const ScheduleParameters& parameters) { return generate("vocab-1", parameters, 2); };
  info.forms.peak_live_activations = [](const ScheduleParameters& parameters, RankId rank) {
    return peak(parameters, rank, 2);
  };
  return info;
}

ScheduleInfo vocab_2() {
  ScheduleInfo info =
      info_of({.name = "vocab-2",
               .summary = "1F1B with the output layer sharded over the ranks, one barrier per microbatch",
               .peak = "min(p+1, m)+1"});
  info.generate = [](const ScheduleParameters& parameters) { return generate("vocab-2", parameters, 1); };
  info.forms.peak_live_activations = [](const ScheduleParameters& parameters, RankId rank) {
    return peak(parameters, rank, 1);
  };
  return info;
}

}  // namespace ppsim::schedules::catalogue
