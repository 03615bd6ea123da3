#include "ppsim/workload/analytic.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "analytic_check.hpp"
#include "analytic_work.hpp"
#include "layers/layer_memory.hpp"
#include "layers/layer_times.hpp"
#include "layers/selective_recompute.hpp"
#include "model_flops.hpp"
#include "operators/constants.hpp"
#include "ppsim/core/ir/overflow.hpp"
#include "route_parts.hpp"
#include "stage_transfers.hpp"
#include "step_end.hpp"

namespace ppsim::workload {
namespace {

constexpr double kTokenId = 4;  // bytes

class Estimator {
 public:
  Estimator(const Workload& workload, const Pipeline& pipeline)
      : workload_(workload),
        model_(workload.model),
        cluster_(workload.cluster),
        parallelism_(workload.parallelism),
        stack_(workload.stack),
        layout_(workload.layout),
        pipeline_(pipeline),
        timer_(workload),
        memory_(workload, timer_.tokens()),
        transfers_(workload, timer_, pipeline) {
    sequence_ = static_cast<double>(parallelism_.sequence > 0 ? parallelism_.sequence : model_.sequence);
    for (std::int64_t layer = 0; layer < model_.layers; ++layer) {
      if (auto& times = kinds_.at(kind_of(layer)); !times) times = timer_.layer(layer);
    }
  }

  AnalyticCosts run() {
    AnalyticCosts result;
    for (const RouteId route : routes_of_batch(pipeline_))
      add_route(result.tables, parts_of(pipeline_, pipeline_.spec().routes[route]));
    transfers_.price(result.tables);
    transfers_.price_collectives(memory_.boundary(), result.tables.costs);
    price_overlaps(result.tables.costs);
    count_copies(pipeline_, blocks_);
    price_updates(result.tables.costs);
    result.exchanges = tensor_exchanges_;
    for (const auto& [block, held] : blocks_)
      result.parameters[block] = {held.dense, held.expert, expert_replicas(workload_), held.copies};
    result.ends = step_ends(workload_, timer_, pipeline_, blocks_);
    result.layout = layout_of(parts_of(pipeline_, pipeline_.spec().routes[RouteId(0)]));
    result.memory_limit = cluster_.gpu.memory_bytes;
    result.tokens_per_step = sequence_ * parallelism_.global_batch_size;
    result.model_flops_per_step = step_flops(workload_, result.layout.mtp());
    result.peak_flops = peak_rate(workload_) * parallelism_.gpus();
    return result;
  }

 private:
  [[nodiscard]] PipelineLayout layout_of(const RouteParts& route) const {
    if (const auto* given = std::get_if<PipelineLayout>(&layout_)) return *given;
    const auto count = static_cast<int>(route.layers.size());
    if (std::get<LayoutRule>(layout_) == LayoutRule::even) return even_layout(model_.layers, count);
    LayoutTimes times;
    for (std::int64_t layer = 0; layer < model_.layers; ++layer)
      times.layers.push_back(whole_time({.contents = {.layers = 1}, .first_layer = layer}));
    if (route.output.empty()) times.loss = whole_time({.contents = {.loss = true}, .heads = 1});
    return balanced_layout(times, count);
  }

  void add_route(Tables& tables, const RouteParts& route) {
    const PipelineLayout layout = layout_of(route);
    StageShare share{.heads = 1 + layout.mtp()};
    for (std::size_t i = 0; i < route.layers.size(); ++i) {
      share.contents = layout.stages[i];
      share.contents.loss = share.contents.loss && route.output.empty();
      share.contents.embedding = share.contents.embedding && route.input.empty();
      add_stage(tables, route.layers[i], stage_sum(share), share);
      share.first_layer += share.contents.layers;
      share.mtp_before += share.contents.mtp;
    }
    share.contents = {};
    for (const StageId shard : route.output) add_stage(tables, shard, output_shard(route, share), share);
    for (const StageId shard : route.input) add_stage(tables, shard, input_shard(route), {});
  }

  /// Layers of one kind take the same time.
  [[nodiscard]] std::size_t kind_of(std::int64_t layer) const {
    const bool mixture = model_.experts > 0 && layer >= model_.first_dense_layers;
    return (mixture ? 2U : 0U) + (is_windowed(model_, layer) ? 1U : 0U);
  }

  [[nodiscard]] const PassTimes& layer_times(std::int64_t layer) const { return *kinds_.at(kind_of(layer)); }

  /// Everything of one stage.
  struct StageSum {
    PassTimes times;
    LayerWork work;
    double logits = 0;
    double loads = 0;  ///< seconds that tokens and labels take from the host
    bool embeds = false;
    bool has_head = false;
  };

  void add_head(std::int64_t passes, StageSum& sum) const {
    for (std::int64_t pass = 0; pass < passes; ++pass) sum.times += timer_.head();
    sum.logits = memory_.logits();
    sum.work.saved_for_input += static_cast<double>(passes) * kBf16 * sum.logits;
    sum.has_head = true;
    sum.loads += timer_.load_labels();
  }

  [[nodiscard]] StageSum stage_sum(const StageShare& share) const {
    const StageContents& contents = share.contents;
    StageSum sum;
    for (std::int64_t i = share.first_layer; i < share.first_layer + contents.layers; ++i) {
      sum.times += layer_times(i);
      sum.work += memory_.layer(i);
    }
    for (std::int64_t i = 0; i < contents.mtp; ++i) {
      sum.times += layer_times(model_.layers - 1);
      sum.times += timer_.projection();
      sum.work += memory_.prediction_layer();
    }
    sum.embeds = contents.embedding || contents.mtp > 0;
    if (sum.embeds) {
      sum.times += timer_.embedding();
      sum.loads += timer_.load_tokens();
      sum.work.parameters += memory_.vocabulary();
    }
    if (contents.loss) add_head(share.heads, sum);
    if (contents.loss && !(sum.embeds && model_.tied_embeddings)) sum.work.parameters += memory_.vocabulary();
    return sum;
  }

  [[nodiscard]] Nanoseconds whole_time(const StageShare& share) const {
    const PassTimes times = stage_sum(share).times;
    return nanoseconds(times.forward + times.input + times.weight);
  }

  /// A part of the head. It may make the input gradient together with the logits.
  [[nodiscard]] StageSum output_shard(const RouteParts& route, const StageShare& share) const {
    const auto part = 1 / static_cast<double>(route.output.size());
    StageSum sum;
    add_head(share.heads, sum);
    sum.times.forward *= part;
    sum.times.input *= part;
    sum.times.weight *= part;
    if (route.gradient_in_forward) sum.times.forward += std::exchange(sum.times.input, 0);
    sum.logits *= part;
    sum.work.saved_for_input *= part;
    sum.work.parameters = memory_.vocabulary() * part;
    return sum;
  }

  /// A part of the embedding: what it looks up and adds up is written once.
  [[nodiscard]] StageSum input_shard(const RouteParts& route) const {
    StageSum sum;
    sum.times.forward = sum.times.weight = timer_.operators().traffic(memory_.boundary());
    sum.loads = timer_.load_tokens();
    sum.work.parameters = memory_.vocabulary() / static_cast<double>(route.input.size());
    return sum;
  }

  void add_stage(Tables& tables, StageId stage, StageSum sum, const StageShare& share) {
    if (stack_.inputs == InputCopies::broadcast) sum.loads = timer_.broadcast_tokens();
    Remade remade;
    if (parallelism_.recompute(stage) == Recompute::selective)
      remade = save_less(stack_, sum.times, sum.work);
    remade.for_weight += sum.work.weight_products;
    set_sizes(tables.sizes, stage, sum.work);
    set_boundaries(tables.sizes, stage, share);
    set_workspace(tables.sizes, stage, kFloat32 * sum.logits, remade);
    set_costs(tables, stage, sum);
    set_copies(tables, stage);
    for (const BlockId block : pipeline_.blocks_of(stage)) {
      blocks_[block] = {sum.work.parameters, sum.work.expert_parameters,
                        sum.embeds != sum.has_head && model_.tied_embeddings};
    }
  }

  /// Logits where there are any, and what is made again.
  static void set_workspace(SizeTable& sizes, StageId stage, double logits, const Remade& remade) {
    const auto set = [&](OpKind op, double count) {
      sizes.set({TensorKind::workspace, stage.value(), -1, -1, op}, bytes(count));
    };
    set(OpKind::forward, logits);
    set(OpKind::backward_input, logits + remade.for_input);
    set(OpKind::backward, logits + remade.for_input + remade.for_weight);
    if (remade.for_weight > 0) set(OpKind::backward_weight, remade.for_weight);
  }

  /// Saved activations to host memory, and to the mirrored rank, the one that BPipe lends to.
  void set_copies(Tables& tables, StageId stage) const {
    const std::int32_t s = stage.value();
    const auto saved = static_cast<double>(tables.sizes({TensorKind::lent_activations, s}));
    const Nanoseconds copy = nanoseconds(timer_.network().to_host(saved));
    tables.costs.set({OpKind::offload, s}, copy);
    tables.costs.set({OpKind::reload, s}, copy);
    const RankId own = pipeline_.rank_of(stage);
    const RankId mirrored(pipeline_.ranks() - 1 - own.value());
    tables.costs.set({OpKind::send_activation, s},
                     nanoseconds(timer_.network().between(own, mirrored, saved)));
  }

  static Nanoseconds nanoseconds(double seconds) { return checked_round(seconds * 1e9); }
  static Bytes bytes(double count) { return checked_round(count); }

  /// Loads that nothing hides are part of F, whether the Program has them as actions or not.
  void set_costs(Tables& tables, StageId stage, const StageSum& sum) {
    const std::int32_t s = stage.value();
    CostTable& costs = tables.costs;
    const PassTimes& times = sum.times;
    const bool loads_beside = stack_.inputs == InputCopies::prefetched;
    const Nanoseconds forward = nanoseconds(times.forward);
    const Nanoseconds weight = nanoseconds(times.weight);
    const Nanoseconds sends = nanoseconds(transfers_.blocked_by(tables.sizes, stage, true));
    const Nanoseconds loads = nanoseconds(sum.loads);
    // Frameworks recompute in the backward, when its gradient has arrived.
    const bool again = parallelism_.recompute(stage) == Recompute::full;
    const double gradients = transfers_.blocked_by(tables.sizes, stage, false);
    const Nanoseconds input = nanoseconds(times.input + (again ? times.forward : 0) + gradients);
    costs.set({OpKind::forward, s}, checked_add(forward, checked_add(sends, loads_beside ? 0 : loads)));
    costs.set({OpKind::load, s}, loads_beside ? loads : 0);
    costs.set({OpKind::backward_input, s}, input);
    costs.set({OpKind::backward_weight, s}, weight);
    const Nanoseconds backward = checked_add(input, weight);
    costs.set({OpKind::backward, s}, backward);
    costs.set({OpKind::recompute, s}, again ? 0 : forward);
    if (stack_.transfer_channels > 0) set_contended(tables, stage, times);
    exchange_[stage] = times.exchange;
    if (times.tensor_exchanges > 0) {
      tensor_exchanges_[stage] = {static_cast<int>(std::lround(times.tensor_exchanges)),
                                  nanoseconds(times.tensor_exchange / times.tensor_exchanges),
                                  stack_.overlap_tensor};
    }
    host_[stage] = times.host;
  }

  /// The time of computation while a transfer of its rank is pending.
  void set_contended(Tables& tables, StageId stage, const PassTimes& times) const {
    const std::int32_t s = stage.value();
    const bool again = parallelism_.recompute(stage) == Recompute::full;
    const double input = times.input_slower + (again ? times.forward_slower : 0);
    const auto set = [&](OpKind kind, double slower) {
      tables.beside_transfers.set({kind, s}, checked_add(tables.costs({kind, s}), nanoseconds(slower)));
    };
    set(OpKind::forward, times.forward_slower);
    set(OpKind::backward_input, input);
    set(OpKind::backward_weight, times.weight_slower);
    set(OpKind::backward, input + times.weight_slower);
    set(OpKind::recompute, again ? 0 : times.forward_slower);
  }

  /// F of one stage beside B of another of the same rank. Each hides its exchange with experts behind the
  /// other's computation, as far as that lasts; together they are not faster than the host.
  void price_overlaps(CostTable& costs) const {
    std::map<RankId, std::vector<StageId>> ranks;
    for (const auto& [stage, exchange] : exchange_) ranks[pipeline_.rank_of(stage)].push_back(stage);
    for (const auto& [rank, stages] : ranks) {
      for (const StageId forward : stages) {
        for (const StageId backward : stages) price_overlap(costs, forward, backward);
      }
    }
  }

  void price_overlap(CostTable& costs, StageId forward, StageId backward) const {
    const Nanoseconds f = costs({OpKind::forward, forward.value()});
    const Nanoseconds b = costs({OpKind::backward, backward.value()});
    const Nanoseconds sum = checked_add(f, b);
    const Nanoseconds host = nanoseconds(host_.at(forward) + kHostBackward * host_.at(backward));
    const double again = parallelism_.recompute(backward) == Recompute::full ? 2 : 1;  // exchanges of B
    const auto hidden = [&](StageId stage, Nanoseconds pass, double exchange) {
      const double computation = std::max(0.0, static_cast<double>(pass) / 1e9 - exchange);
      return std::min(computation, (1 - workload_.fitted.exposed_share) * exchange_.at(stage));
    };
    const Nanoseconds beside = sum - nanoseconds(hidden(forward, b, again * exchange_.at(backward)) +
                                                 hidden(backward, f, exchange_.at(forward)));
    costs.set({OpKind::overlap, forward.value(), backward.value()}, std::min(sum, std::max(beside, host)));
  }

  /// The inputs of a stage: token ids where no edge leads to it, else this many hidden states from each
  /// of the ranks that send any, or of its own rank.
  [[nodiscard]] Bytes input_size(StageId stage, std::int64_t states) const {
    const auto& edges = pipeline_.spec().edges;
    const auto leads_here = [&](const StageEdge& edge) { return edge.to == stage; };
    if (std::ranges::none_of(edges, leads_here)) return bytes(kTokenId * timer_.tokens());
    const auto received = std::ranges::count_if(edges, [&](const StageEdge& edge) {
      return leads_here(edge) && pipeline_.rank_of(edge.from) != pipeline_.rank_of(stage) &&
             transfers_.is_received(edge);
    });
    return checked_multiply(states * std::max<Bytes>(1, received), bytes(memory_.boundary()));
  }

  /// The model's hidden state, and one for each multi-token prediction layer that it has been through.
  void set_boundaries(SizeTable& sizes, StageId stage, const StageShare& share) const {
    const std::int32_t s = stage.value();
    const std::int64_t in = 1 + share.mtp_before;
    const std::int64_t out = in + share.contents.mtp;
    sizes.set({TensorKind::boundary_input, s}, input_size(stage, in));
    sizes.set({TensorKind::outgoing_gradient, s}, checked_multiply(in, bytes(memory_.boundary())));
    sizes.set({TensorKind::boundary_output, s}, checked_multiply(out, bytes(memory_.boundary())));
    sizes.set({TensorKind::incoming_gradient, s}, checked_multiply(out, bytes(memory_.boundary())));
  }

  void set_sizes(SizeTable& sizes, StageId stage, const LayerWork& sum) const {
    const std::int32_t s = stage.value();
    sizes.set({TensorKind::saved_for_input, s}, bytes(sum.saved_for_input));
    sizes.set({TensorKind::saved_for_weight, s}, bytes(sum.saved_for_weight));
    sizes.set({TensorKind::lent_activations, s},
              checked_add(bytes(sum.saved_for_input), bytes(sum.saved_for_weight)));
    sizes.set({TensorKind::inner_gradients, s}, bytes(sum.inner_gradients));
    const double parameters = sum.parameters + sum.expert_parameters;
    const double shards = parallelism_.sharded_parameters ? replicas(parallelism_) : 1;
    const double optimizer =
        stack_.sharded_optimizer || parallelism_.sharded_parameters
            ? sum.parameters / replicas(parallelism_) + sum.expert_parameters / expert_replicas(workload_)
            : parameters;
    const double kept = kFloat32 + 2.0 * stack_.moment_bytes;  // master weights and both moments
    for (const BlockId block : pipeline_.blocks_of(stage)) {
      sizes.set({TensorKind::parameters, block.value()}, bytes(kBf16 * parameters / shards + sum.quantised));
      sizes.set({TensorKind::gradients, block.value()}, bytes(stack_.gradient_bytes * parameters / shards));
      sizes.set({TensorKind::optimizer_state, block.value()}, bytes(kept * optimizer));
      sizes.set({TensorKind::gathered_parameters, s}, bytes(kBf16 * parameters));
    }
  }

  /// For Programs that have the end of the step as actions, block by block.
  void price_updates(CostTable& costs) const {
    for (const auto& [block, parameters] : blocks_) {
      const StepEnd end = step_end(workload_, timer_, parameters);
      costs.set({OpKind::reduce_grad, block.value()}, end.reduction);
      costs.set({OpKind::optimizer, block.value()}, end.update);
    }
  }

  const Workload& workload_;
  const ModelDescription& model_;
  const ClusterDescription& cluster_;
  const Parallelism& parallelism_;
  const SoftwareStack& stack_;
  const std::variant<LayoutRule, PipelineLayout>& layout_;
  const Pipeline& pipeline_;
  LayerTimer timer_;
  LayerMemory memory_;
  StageTransfers transfers_;
  BlockParameters blocks_;
  std::map<StageId, double> exchange_;  ///< seconds with experts, of each direction
  std::map<StageId, GroupExchange> tensor_exchanges_;
  std::map<StageId, double> host_;                 ///< seconds that the host takes forward
  std::array<std::optional<PassTimes>, 4> kinds_;  ///< of layers
  double sequence_ = 0;
};

/// The same costs, each times the factor of its kind; the end of a step as REDUCE_GRAD and OPT.
/// Errors: throws Overflow where a cost does not fit in 64 bits.
AnalyticCosts times_factors(AnalyticCosts costs, const Calibration& calibration) {
  if (calibration.factors.empty()) return costs;
  const CostTable model = std::move(costs.tables.costs);
  costs.tables.costs = calibration.scaled(model, model);
  costs.tables.beside_transfers = calibration.scaled(costs.tables.beside_transfers, model);
  for (StepEnd& end : costs.ends) {
    end.reduction = calibration.scaled(end.reduction, model, {OpKind::reduce_grad});
    end.update = calibration.scaled(end.update, model, {OpKind::optimizer});
  }
  return costs;
}

}  // namespace

Workload calibrated(Workload workload, Calibration calibration) {
  if (calibration.constants) workload.fitted = *calibration.constants;
  workload.calibration = std::move(calibration);
  return workload;
}

Expected<AnalyticCosts> analytic_costs(const Workload& workload, const Pipeline& pipeline) {
  PPSIM_RETURN_IF_ERROR(check_workload(workload, pipeline));
  return times_factors(Estimator(workload, pipeline).run(), workload.calibration);
}

}  // namespace ppsim::workload
