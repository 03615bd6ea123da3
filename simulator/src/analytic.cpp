#include "ppsim/simulator/analytic.hpp"

#include <algorithm>
#include <cmath>

namespace ppsim {
namespace {

constexpr double kAttentionEfficiency = 0.6;  // of the achievable rate of large products
constexpr double kMemoryEfficiency = 0.8;
constexpr double kLinkEfficiency = 0.8;
constexpr double kNvlinkLatency = 3e-6;    // seconds
constexpr double kNetworkLatency = 10e-6;  // seconds, where the cluster does not say
constexpr double kBf16 = 2;                // bytes
constexpr double kFloat32 = 4;
constexpr double kOptimizerBytes = 12;  // float32 master weights and two moments, a parameter

/// Position of a stage in its model: which layers, and which ends.
struct StageShare {
  std::int64_t first_layer = 0;
  std::int64_t layers = 0;
  bool embeds = false;
  bool has_head = false;
};

/// Work of one layer for one microbatch on one GPU.
struct LayerWork {
  double product_flops = 0;    ///< forward; the same again for I and for W
  double attention_flops = 0;  ///< forward
  double traffic_bytes = 0;    ///< element-wise reads and writes, forward
  double exchange_bytes = 0;   ///< one all-gather or reduce-scatter of the tensor-parallel group
  double expert_bytes = 0;     ///< one all-to-all of the expert-parallel group
  double saved_for_input = 0;
  double saved_for_weight = 0;
  double inner_gradients = 0;
  double parameters = 0;
};

class Estimator {
 public:
  Estimator(const Workload& workload, const Pipeline& pipeline)
      : model_(workload.model),
        cluster_(workload.cluster),
        spread_(workload.parallelism),
        pipeline_(pipeline) {
    sequence_ = static_cast<double>(spread_.sequence > 0 ? spread_.sequence : model_.sequence);
    tokens_ = sequence_ / spread_.context * spread_.microbatch_size;
    const GpuDescription& gpu = cluster_.gpu;
    const bool fp8 = spread_.dtype == DataType::fp8;
    product_rate_ = (fp8 ? gpu.fp8_achievable_tflops : gpu.bf16_achievable_tflops) * 1e12;
    attention_rate_ = kAttentionEfficiency * gpu.bf16_achievable_tflops * 1e12;
    peak_rate_ = (fp8 ? gpu.fp8_tflops : gpu.bf16_tflops) * 1e12;
    memory_rate_ = kMemoryEfficiency * gpu.memory_tbps * 1e12;
    nvlink_rate_ = kLinkEfficiency * gpu.nvlink_gbytes * 1e9;
    network_rate_ = kLinkEfficiency * cluster_.node.node_gbytes.value_or(0) * 1e9 / cluster_.node.gpus;
  }

  AnalyticCosts run() {
    AnalyticCosts result;
    for (const std::vector<StageId>& route : pipeline_.spec().routes) {
      for (std::size_t i = 0; i < route.size(); ++i)
        add_stage(result.tables, route[i], share(i, route.size()));
    }
    add_transfers(result.tables);
    result.memory_limit = cluster_.gpu.memory_bytes;
    result.tokens_per_step = sequence_ * spread_.global_batch_size;
    result.model_flops_per_step = step_flops();
    result.peak_flops = peak_rate_ * spread_.gpus();
    return result;
  }

 private:
  [[nodiscard]] StageShare share(std::size_t position, std::size_t stages) const {
    const auto at = static_cast<std::int64_t>(position);
    const auto count = static_cast<std::int64_t>(stages);
    const std::int64_t base = model_.layers / count;
    const std::int64_t more = model_.layers % count;
    return {at * base + std::min(at, more), base + (at < more ? 1 : 0), at == 0, at + 1 == count};
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
    const double tensor =
        work.exchange_bytes > 0 ? 4 * (work.exchange_bytes / nvlink_rate_ + kNvlinkLatency) : 0;
    const double expert =
        work.expert_bytes > 0 ? 2 * (work.expert_bytes / network_rate_ + network_latency()) : 0;
    return tensor + expert;
  }

  [[nodiscard]] double network_latency() const {
    return cluster_.node.latency_us ? *cluster_.node.latency_us * 1e-6 : kNetworkLatency;
  }

  struct StageTimes {
    double forward = 0, input = 0, weight = 0;
  };

  void add_layer(const LayerWork& work, StageTimes& times) const {
    const double products = work.product_flops / product_rate_;
    const double attention = work.attention_flops / attention_rate_;
    const double traffic = work.traffic_bytes / memory_rate_;
    const double exchange = exchange_time(work);
    times.forward += products + attention + traffic + exchange;
    times.input += products + 2.5 * attention + traffic + exchange;
    times.weight += products;
  }

  void add_stage(Tables& tables, StageId stage, const StageShare& share) const {
    StageTimes times;
    LayerWork sum;
    for (std::int64_t layer = share.first_layer; layer < share.first_layer + share.layers; ++layer) {
      const LayerWork work = layer_work(layer);
      add_layer(work, times);
      sum.saved_for_input += work.saved_for_input;
      sum.saved_for_weight += work.saved_for_weight;
      sum.inner_gradients += work.inner_gradients;
      sum.parameters += work.parameters;
    }
    const double vocabulary = static_cast<double>(model_.vocab * model_.hidden) / spread_.tensor;
    double logits = 0;
    if (share.embeds) sum.parameters += vocabulary;
    if (share.has_head) {
      const double products = 2 * tokens_ * vocabulary / product_rate_;
      logits = tokens_ * static_cast<double>(model_.vocab) / spread_.tensor;
      const double traffic = 3 * kFloat32 * logits / memory_rate_;
      times.forward += products + traffic;
      times.input += products + traffic;
      times.weight += products;
      sum.saved_for_input += kBf16 * logits;
      if (!share.embeds || !model_.tied_embeddings) sum.parameters += vocabulary;
    }
    set_costs(tables.costs, stage, times);
    set_sizes(tables.sizes, stage, sum, kFloat32 * logits);
  }

  static Nanoseconds nanoseconds(double seconds) {
    return static_cast<Nanoseconds>(std::llround(seconds * 1e9));
  }
  static Bytes bytes(double count) { return static_cast<Bytes>(std::llround(count)); }

  void set_costs(CostTable& costs, StageId stage, const StageTimes& times) const {
    const std::int32_t s = stage.value();
    const Nanoseconds forward = nanoseconds(times.forward);
    const Nanoseconds input = nanoseconds(times.input);
    const Nanoseconds weight = nanoseconds(times.weight);
    costs.set({OpKind::forward, s}, forward);
    costs.set({OpKind::backward_input, s}, input);
    costs.set({OpKind::backward_weight, s}, weight);
    costs.set({OpKind::backward, s}, input + weight);
    costs.set({OpKind::recompute, s}, forward);
    costs.set({OpKind::overlap, s}, forward + input + weight);
  }

  /// Tensors that a stage receives for a microbatch, or the one of the batch.
  [[nodiscard]] Bytes inputs(StageId stage) const {
    const auto& edges = pipeline_.spec().edges;
    const auto received = std::count_if(edges.begin(), edges.end(), [&](const StageEdge& edge) {
      return edge.to == stage && pipeline_.rank_of(edge.from) != pipeline_.rank_of(stage);
    });
    return std::max<Bytes>(1, received);
  }

  void set_sizes(SizeTable& sizes, StageId stage, const LayerWork& sum, double workspace) const {
    const std::int32_t s = stage.value();
    const double boundary = kBf16 * tokens_ * static_cast<double>(model_.hidden) / spread_.tensor;
    for (const TensorKind kind :
         {TensorKind::boundary_output, TensorKind::incoming_gradient, TensorKind::outgoing_gradient}) {
      sizes.set({kind, s}, bytes(boundary));
    }
    sizes.set({TensorKind::boundary_input, s}, bytes(boundary) * inputs(stage));
    sizes.set({TensorKind::saved_for_input, s}, bytes(sum.saved_for_input));
    sizes.set({TensorKind::saved_for_weight, s}, bytes(sum.saved_for_weight));
    sizes.set({TensorKind::lent_activations, s}, bytes(sum.saved_for_input) + bytes(sum.saved_for_weight));
    sizes.set({TensorKind::inner_gradients, s}, bytes(sum.inner_gradients));
    for (const OpKind op : {OpKind::forward, OpKind::backward, OpKind::backward_input}) {
      sizes.set({TensorKind::workspace, s, -1, -1, op}, bytes(workspace));
    }
    for (const BlockId block : pipeline_.blocks_of(stage)) {
      sizes.set({TensorKind::parameters, block.value()}, bytes(kBf16 * sum.parameters));
      sizes.set({TensorKind::gradients, block.value()}, bytes(kFloat32 * sum.parameters));
      sizes.set({TensorKind::optimizer_state, block.value()},
                bytes(kOptimizerBytes * sum.parameters / spread_.data));
      sizes.set({TensorKind::gathered_parameters, s}, bytes(kBf16 * sum.parameters));
    }
  }

  /// Whether two neighbouring pipeline ranks share an NVLink domain, from the layout of groups over GPUs.
  [[nodiscard]] bool share_nvlink(RankId a, RankId b) const {
    const std::int64_t inner = std::int64_t{spread_.tensor} * spread_.context;
    const std::int64_t stride = spread_.rank_order == RankOrder::tp_cp_dp_pp ? inner * spread_.data : inner;
    return a.value() * stride / cluster_.node.nvlink_domain ==
           (b.value() * stride + inner - 1) / cluster_.node.nvlink_domain;
  }

  void add_transfers(Tables& tables) const {
    const double boundary = kBf16 * tokens_ * static_cast<double>(model_.hidden) / spread_.tensor;
    for (const StageEdge& edge : pipeline_.spec().edges) {
      const RankId from = pipeline_.rank_of(edge.from);
      const RankId to = pipeline_.rank_of(edge.to);
      const bool near = share_nvlink(std::min(from, to), std::max(from, to));
      const Nanoseconds cost = nanoseconds(near ? kNvlinkLatency + boundary / nvlink_rate_
                                                : network_latency() + boundary / network_rate_);
      tables.costs.set({OpKind::send_forward, edge.from.value(), edge.to.value()}, cost);
      tables.costs.set({OpKind::send_backward, edge.to.value(), edge.from.value()}, cost);
    }
  }

  [[nodiscard]] double step_flops() const {
    double products = static_cast<double>(model_.vocab * model_.hidden);
    for (std::int64_t layer = 0; layer < model_.layers; ++layer)
      products += static_cast<double>(active_layer_parameters(model_, layer));
    const double attention = attention_flops() / tokens_ * static_cast<double>(model_.layers);
    return 3 * (2 * products + attention) * sequence_ * spread_.global_batch_size;
  }

  const ModelDescription& model_;
  const ClusterDescription& cluster_;
  const Parallelism& spread_;
  const Pipeline& pipeline_;
  double sequence_ = 0;
  double tokens_ = 0;  ///< of one microbatch on one context-parallel rank
  double product_rate_ = 0, attention_rate_ = 0, peak_rate_ = 0, memory_rate_ = 0, nvlink_rate_ = 0,
         network_rate_ = 0;
};

Expected<void> check(const Workload& workload, const Pipeline& pipeline) {
  const ModelDescription& model = workload.model;
  if (auto good = check_parallelism(workload.parallelism, model, workload.cluster); !good) return good;
  if (model.architecture == Architecture::encoder_decoder || model.architecture == Architecture::vit) {
    return make_error(ErrorCode::bad_argument,
                      "the analytic cost model covers decoders and mixtures of experts",
                      {.found = std::string(architecture_name(model.architecture)),
                       .expected = "decoder, moe or moe-mla; or a cost table (--costs)"});
  }
  if (pipeline.slices() > 1) {
    return make_error(
        ErrorCode::bad_argument, "the analytic cost model covers whole sequences",
        {.found = std::to_string(pipeline.slices()) + " slices", .expected = "1, or a cost table (--costs)"});
  }
  if (pipeline.ranks() != workload.parallelism.pipeline) {
    return make_error(ErrorCode::bad_argument, "the schedule's ranks must be the pipeline-parallel size",
                      {.found = std::to_string(pipeline.ranks()),
                       .expected = std::to_string(workload.parallelism.pipeline)});
  }
  if (workload.parallelism.dtype == DataType::fp8 && workload.cluster.gpu.fp8_achievable_tflops <= 0) {
    return make_error(ErrorCode::bad_argument, workload.cluster.gpu.name + " has no fp8 products");
  }
  for (const std::vector<StageId>& route : pipeline.spec().routes) {
    if (static_cast<std::int64_t>(route.size()) > model.layers) {
      return make_error(ErrorCode::bad_argument, "every stage needs a layer",
                        {.found = std::to_string(route.size()) + " stages",
                         .expected = "at most " + std::to_string(model.layers)});
    }
  }
  return {};
}

}  // namespace

Expected<AnalyticCosts> analytic_costs(const Workload& workload, const Pipeline& pipeline) {
  if (auto good = check(workload, pipeline); !good) return tl::unexpected(good.error());
  return Estimator(workload, pipeline).run();
}

}  // namespace ppsim
