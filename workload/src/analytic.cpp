#include "ppsim/workload/analytic.hpp"

#include <algorithm>
#include <utility>

#include "analytic_check.hpp"
#include "analytic_links.hpp"
#include "analytic_work.hpp"
#include "ppsim/core/ir/overflow.hpp"
#include "route_parts.hpp"

namespace ppsim::workload {
namespace {

constexpr double kAttentionEfficiency = 0.6;  // of the achievable rate of large products
constexpr double kMemoryEfficiency = 0.8;
constexpr double kBf16 = 2;  // bytes
constexpr double kFloat32 = 4;
constexpr double kTokenId = 4;
constexpr double kOptimizerBytes = 12;  // float32 master weights and two moments, a parameter

class Estimator {
 public:
  Estimator(const Workload& workload, const Pipeline& pipeline)
      : model_(workload.model),
        cluster_(workload.cluster),
        spread_(workload.parallelism),
        layout_(workload.layout),
        pipeline_(pipeline),
        links_(cluster_, spread_) {
    sequence_ = static_cast<double>(spread_.sequence > 0 ? spread_.sequence : model_.sequence);
    tokens_ = sequence_ / spread_.context * spread_.microbatch_size;
    const GpuDescription& gpu = cluster_.gpu;
    const bool fp8 = spread_.dtype == DataType::fp8;
    product_rate_ = (fp8 ? gpu.fp8_achievable_tflops : gpu.bf16_achievable_tflops) * 1e12;
    attention_rate_ = kAttentionEfficiency * gpu.bf16_achievable_tflops * 1e12;
    peak_rate_ = (fp8 ? gpu.fp8_tflops : gpu.bf16_tflops) * 1e12;
    memory_rate_ = kMemoryEfficiency * gpu.memory_tbps * 1e12;
  }

  AnalyticCosts run() {
    AnalyticCosts result;
    for (const auto& route : pipeline_.spec().routes) add_route(result.tables, parts_of(pipeline_, route));
    add_transfers(result.tables);
    add_collectives(result.tables.costs);
    result.layout = layout_of(parts_of(pipeline_, pipeline_.spec().routes[RouteId(0)]));
    result.memory_limit = cluster_.gpu.memory_bytes;
    result.tokens_per_step = sequence_ * spread_.global_batch_size;
    result.model_flops_per_step = step_flops(result.layout.mtp());
    result.peak_flops = peak_rate_ * spread_.gpus();
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

  /// Channels that the MLP products of one token run through.
  [[nodiscard]] double active_channels(std::int64_t layer) const {
    const bool mixture = model_.experts > 0 && layer >= model_.first_dense_layers;
    return static_cast<double>(mixture ? (model_.top_k + model_.shared_experts) * model_.moe_ffn
                                       : model_.ffn);
  }

  [[nodiscard]] double attention_flops() const {
    const double head_channels =
        model_.kv_lora > 0 ? static_cast<double>(model_.qk_nope + model_.qk_rope + model_.v_head) / 2
                           : static_cast<double>(model_.head_dim);
    return 2 * tokens_ * sequence_ * static_cast<double>(model_.heads) * head_channels;
  }

  [[nodiscard]] LayerWork layer_work(std::int64_t layer) const {
    const double tp = spread_.tensor;
    const double hidden = static_cast<double>(model_.hidden);
    const double query = static_cast<double>(model_.heads * model_.head_dim);
    const double key_value = static_cast<double>(2 * model_.kv_heads * model_.head_dim);
    const double channels = active_channels(layer);
    const double gate = model_.gated_mlp ? 2 : 1;
    LayerWork work;
    work.product_flops = 2 * tokens_ * static_cast<double>(active_layer_parameters(model_, layer)) / tp;
    work.attention_flops = attention_flops() / tp;
    work.saved_for_weight = kBf16 * tokens_ * (2 * hidden + query + channels) / tp;
    work.saved_for_input = tokens_ *
                           (kBf16 * (2 * hidden + query + key_value + gate * channels) +
                            kFloat32 * static_cast<double>(model_.heads)) /
                           tp;
    work.cheap_saved = kBf16 * tokens_ * (2 * hidden + channels) / tp;
    work.cheap_traffic = kBf16 * tokens_ * (4 * hidden + (gate + 1) * channels) / tp;
    work.inner_gradients = kBf16 * tokens_ * (query + key_value + 2 * hidden + gate * channels) / tp;
    work.traffic_bytes = 2 * (work.saved_for_input + work.saved_for_weight);
    work.exchange_bytes = tp > 1 ? kBf16 * tokens_ * hidden * (tp - 1) / tp : 0;
    const bool mixture = model_.experts > 0 && layer >= model_.first_dense_layers;
    if (mixture && spread_.expert > 1) {
      work.expert_bytes = kBf16 * tokens_ * hidden * static_cast<double>(model_.top_k) *
                          (spread_.expert - 1) / spread_.expert / tp;
    }
    work.parameters = layer_parameters_per_gpu(layer);
    return work;
  }

  [[nodiscard]] double layer_parameters_per_gpu(std::int64_t layer) const {
    const auto all = static_cast<double>(layer_parameters(model_, layer));
    if (model_.experts == 0 || layer < model_.first_dense_layers) return all / spread_.tensor;
    const auto experts = static_cast<double>(model_.experts * mlp_parameters(model_, model_.moe_ffn));
    return ((all - experts) + experts / spread_.expert) / spread_.tensor;
  }

  [[nodiscard]] double exchange_time(const LayerWork& work) const {
    const double tensor = work.exchange_bytes > 0 ? 4 * links_.nvlink_time(work.exchange_bytes) : 0;
    const double expert = work.expert_bytes > 0 ? 2 * links_.network_time(work.expert_bytes) : 0;
    return tensor + expert;
  }

  struct StageTimes {
    double forward = 0, input = 0, weight = 0;
  };

  void add_times(const LayerWork& work, StageTimes& times) const {
    const double products = work.product_flops / product_rate_;
    const double attention = work.attention_flops / attention_rate_;
    const double traffic = work.traffic_bytes / memory_rate_;
    const double exchange = exchange_time(work);
    times.forward += products + attention + traffic + exchange;
    times.input += products + 2.5 * attention + traffic + exchange;
    times.weight += products;
  }

  /// A multi-token prediction layer: one of the last layers behind the product that takes it two hidden
  /// states.
  [[nodiscard]] LayerWork mtp_work() const {
    const auto hidden = static_cast<double>(model_.hidden);
    LayerWork work = layer_work(model_.layers - 1);
    const double pair = kBf16 * tokens_ * 2 * hidden / spread_.tensor;
    work.product_flops += 2 * tokens_ * mtp_projection() / spread_.tensor;
    work.saved_for_weight += pair;
    work.traffic_bytes += 2 * pair;
    work.parameters += mtp_projection() / spread_.tensor;
    return work;
  }

  [[nodiscard]] double mtp_projection() const {
    return 2 * static_cast<double>(model_.hidden) * static_cast<double>(model_.hidden);
  }

  /// Everything of one stage.
  struct StageSum {
    StageTimes times;
    LayerWork work;
    double logits = 0;
  };

  void add_layer(const LayerWork& work, StageSum& sum) const {
    add_times(work, sum.times);
    sum.work.saved_for_input += work.saved_for_input;
    sum.work.saved_for_weight += work.saved_for_weight;
    sum.work.cheap_saved += work.cheap_saved;
    sum.work.cheap_traffic += work.cheap_traffic;
    sum.work.inner_gradients += work.inner_gradients;
    sum.work.parameters += work.parameters;
  }

  void add_head(std::int64_t passes, StageSum& sum) const {
    const double count = static_cast<double>(passes);
    const double products = count * 2 * tokens_ * vocabulary() / product_rate_;
    sum.logits = tokens_ * static_cast<double>(model_.vocab) / spread_.tensor;
    const double traffic = count * 3 * kFloat32 * sum.logits / memory_rate_;
    sum.times.forward += products + traffic;
    sum.times.input += products + traffic;
    sum.times.weight += products;
    sum.work.saved_for_input += count * kBf16 * sum.logits;
  }

  /// Parameters of one GPU's part of the embedding or of the head.
  [[nodiscard]] double vocabulary() const {
    return static_cast<double>(model_.vocab * model_.hidden) / spread_.tensor;
  }

  [[nodiscard]] StageSum stage_sum(const StageShare& share) const {
    const StageContents& contents = share.contents;
    StageSum sum;
    for (std::int64_t i = 0; i < contents.layers; ++i) add_layer(layer_work(share.first_layer + i), sum);
    for (std::int64_t i = 0; i < contents.mtp; ++i) add_layer(mtp_work(), sum);
    const bool embeds = contents.embedding || contents.mtp > 0;
    if (embeds) sum.work.parameters += vocabulary();
    if (contents.loss) add_head(share.heads, sum);
    if (contents.loss && !(embeds && model_.tied_embeddings)) sum.work.parameters += vocabulary();
    return sum;
  }

  [[nodiscard]] Nanoseconds whole_time(const StageShare& share) const {
    const StageTimes times = stage_sum(share).times;
    return nanoseconds(times.forward + times.input + times.weight);
  }

  /// A part of the head. It may make the input gradient together with the logits.
  [[nodiscard]] StageSum output_shard(const RouteParts& route, const StageShare& share) const {
    const auto part = 1 / static_cast<double>(route.output.size());
    StageSum sum;
    add_head(share.heads, sum);
    sum.times = {sum.times.forward * part, sum.times.input * part, sum.times.weight * part};
    if (route.gradient_in_forward) sum.times.forward += std::exchange(sum.times.input, 0);
    sum.logits *= part;
    sum.work.saved_for_input *= part;
    sum.work.parameters = vocabulary() * part;
    return sum;
  }

  /// A part of the embedding: what it looks up and adds up is written once.
  [[nodiscard]] StageSum input_shard(const RouteParts& route) const {
    StageSum sum;
    sum.times.forward = sum.times.weight = boundary() / memory_rate_;
    sum.work.parameters = vocabulary() / static_cast<double>(route.input.size());
    return sum;
  }

  void add_stage(Tables& tables, StageId stage, StageSum sum, const StageShare& share) const {
    const bool selective = spread_.recompute(stage) == Recompute::selective;
    if (selective) {
      sum.times.weight += sum.work.cheap_traffic / memory_rate_;
      sum.work.saved_for_weight -= sum.work.cheap_saved;
    }
    set_costs(tables.costs, stage, sum.times);
    set_sizes(tables.sizes, stage, sum.work);
    set_boundaries(tables.sizes, stage, share);
    set_workspace(tables.sizes, stage, kFloat32 * sum.logits, selective ? sum.work.cheap_saved : 0);
    set_copies(tables, stage);
  }

  /// Logits where there are any, and what W makes again for itself.
  static void set_workspace(SizeTable& sizes, StageId stage, double logits, double remade) {
    const auto set = [&](OpKind op, double count) {
      sizes.set({TensorKind::workspace, stage.value(), -1, -1, op}, bytes(count));
    };
    set(OpKind::forward, logits);
    set(OpKind::backward_input, logits);
    set(OpKind::backward, logits + remade);
    if (remade > 0) set(OpKind::backward_weight, remade);
  }

  /// Saved activations to host memory, and to the mirrored rank, the one that BPipe lends to.
  void set_copies(Tables& tables, StageId stage) const {
    const std::int32_t s = stage.value();
    const auto saved = static_cast<double>(tables.sizes({TensorKind::lent_activations, s}));
    const Nanoseconds copy = nanoseconds(links_.host_time(saved));
    tables.costs.set({OpKind::offload, s}, copy);
    tables.costs.set({OpKind::reload, s}, copy);
    const RankId own = pipeline_.rank_of(stage);
    const RankId mirrored(pipeline_.ranks() - 1 - own.value());
    tables.costs.set({OpKind::send_activation, s}, nanoseconds(links_.time_between(own, mirrored, saved)));
  }

  static Nanoseconds nanoseconds(double seconds) { return checked_round(seconds * 1e9); }
  static Bytes bytes(double count) { return checked_round(count); }

  void set_costs(CostTable& costs, StageId stage, const StageTimes& times) const {
    const std::int32_t s = stage.value();
    const Nanoseconds forward = nanoseconds(times.forward);
    const Nanoseconds input = nanoseconds(times.input);
    const Nanoseconds weight = nanoseconds(times.weight);
    costs.set({OpKind::forward, s}, forward);
    costs.set({OpKind::backward_input, s}, input);
    costs.set({OpKind::backward_weight, s}, weight);
    const Nanoseconds backward = checked_add(input, weight);
    costs.set({OpKind::backward, s}, backward);
    costs.set({OpKind::recompute, s}, forward);
    costs.set({OpKind::overlap, s}, checked_add(forward, backward));
  }

  /// What a stage computes from: token ids where no edge leads to it, else this many hidden states from each
  /// of the ranks that send any, or of its own rank.
  [[nodiscard]] Bytes input_size(StageId stage, std::int64_t states) const {
    const auto& edges = pipeline_.spec().edges;
    const auto leads_here = [&](const StageEdge& edge) { return edge.to == stage; };
    if (std::none_of(edges.begin(), edges.end(), leads_here)) return bytes(kTokenId * tokens_);
    const auto received = std::count_if(edges.begin(), edges.end(), [&](const StageEdge& edge) {
      return leads_here(edge) && pipeline_.rank_of(edge.from) != pipeline_.rank_of(stage);
    });
    return checked_multiply(states * std::max<Bytes>(1, received), bytes(boundary()));
  }

  /// One hidden state of a microbatch.
  [[nodiscard]] double boundary() const {
    return kBf16 * tokens_ * static_cast<double>(model_.hidden) / spread_.tensor;
  }

  /// The model's hidden state, and one for each multi-token prediction layer that it has been through.
  void set_boundaries(SizeTable& sizes, StageId stage, const StageShare& share) const {
    const std::int32_t s = stage.value();
    const std::int64_t in = 1 + share.mtp_before;
    const std::int64_t out = in + share.contents.mtp;
    sizes.set({TensorKind::boundary_input, s}, input_size(stage, in));
    sizes.set({TensorKind::outgoing_gradient, s}, checked_multiply(in, bytes(boundary())));
    sizes.set({TensorKind::boundary_output, s}, checked_multiply(out, bytes(boundary())));
    sizes.set({TensorKind::incoming_gradient, s}, checked_multiply(out, bytes(boundary())));
  }

  void set_sizes(SizeTable& sizes, StageId stage, const LayerWork& sum) const {
    const std::int32_t s = stage.value();
    sizes.set({TensorKind::saved_for_input, s}, bytes(sum.saved_for_input));
    sizes.set({TensorKind::saved_for_weight, s}, bytes(sum.saved_for_weight));
    sizes.set({TensorKind::lent_activations, s},
              checked_add(bytes(sum.saved_for_input), bytes(sum.saved_for_weight)));
    sizes.set({TensorKind::inner_gradients, s}, bytes(sum.inner_gradients));
    for (const BlockId block : pipeline_.blocks_of(stage)) {
      sizes.set({TensorKind::parameters, block.value()}, bytes(kBf16 * sum.parameters));
      sizes.set({TensorKind::gradients, block.value()}, bytes(kFloat32 * sum.parameters));
      sizes.set({TensorKind::optimizer_state, block.value()},
                bytes(kOptimizerBytes * sum.parameters / spread_.data));
      sizes.set({TensorKind::gathered_parameters, s}, bytes(kBf16 * sum.parameters));
    }
  }

  void add_transfers(Tables& tables) const {
    for (const StageEdge& edge : pipeline_.spec().edges) {
      const auto size = static_cast<double>(tables.sizes({TensorKind::boundary_output, edge.from.value()}));
      const Nanoseconds cost =
          nanoseconds(links_.time_between(pipeline_.rank_of(edge.from), pipeline_.rank_of(edge.to), size));
      tables.costs.set({OpKind::send_forward, edge.from.value(), edge.to.value()}, cost);
      tables.costs.set({OpKind::send_backward, edge.to.value(), edge.from.value()}, cost);
    }
  }

  /// All-reduces in a ring: of a hidden state where they sum one, of the statistics of a softmax between
  /// passes.
  void add_collectives(CostTable& costs) const {
    for (std::size_t c = 0; c < pipeline_.spec().collectives.size(); ++c) {
      const CollectiveId id(static_cast<std::int32_t>(c));
      const Collective& collective = pipeline_.spec().collectives[id];
      const auto members = static_cast<double>(collective.members.size());
      if (!collective.per_microbatch() || members == 1) continue;
      const bool sums = collective.gradient_of.valid() || collective.input_of.valid();
      const double softmax = collective.before.stages.empty() ? 0 : 3 * kFloat32 * tokens_ / spread_.tensor;
      const double size = (softmax + (sums ? boundary() : 0)) * (members - 1) / members;
      const double way = links_.time_between(collective.members.front(), collective.members.back(), size);
      costs.set({OpKind::collective, id.value()}, nanoseconds(2 * way));
    }
  }

  [[nodiscard]] double step_flops(std::int64_t mtp) const {
    const double head = static_cast<double>(model_.vocab * model_.hidden);
    double products = head;
    for (std::int64_t layer = 0; layer < model_.layers; ++layer)
      products += static_cast<double>(active_layer_parameters(model_, layer));
    const auto last = static_cast<double>(active_layer_parameters(model_, model_.layers - 1));
    products += static_cast<double>(mtp) * (last + mtp_projection() + head);
    const double attention = attention_flops() / tokens_ * static_cast<double>(model_.layers + mtp);
    return 3 * (2 * products + attention) * sequence_ * spread_.global_batch_size;
  }

  const ModelDescription& model_;
  const ClusterDescription& cluster_;
  const Parallelism& spread_;
  const std::variant<LayoutRule, PipelineLayout>& layout_;
  const Pipeline& pipeline_;
  AnalyticLinks links_;
  double sequence_ = 0;
  double tokens_ = 0;  ///< of one microbatch on one context-parallel rank
  double product_rate_ = 0, attention_rate_ = 0, peak_rate_ = 0, memory_rate_ = 0;
};

}  // namespace

Expected<AnalyticCosts> analytic_costs(const Workload& workload, const Pipeline& pipeline) {
  if (auto good = check_workload(workload, pipeline); !good) return tl::unexpected(good.error());
  return Estimator(workload, pipeline).run();
}

}  // namespace ppsim::workload
