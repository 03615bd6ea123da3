#include "layer_times.hpp"

#include <algorithm>

#include "analytic_work.hpp"
#include "model_flops.hpp"
#include "operators/constants.hpp"

namespace ppsim::workload {

LayerTimer::LayerTimer(const Workload& workload)
    : model_(with_whole_heads(workload)),
      parallelism_(workload.parallelism),
      stack_(workload.stack),
      split_(expert_split(workload)),
      operators_(workload.cluster.gpu, workload.stack.graphs, workload.fitted),
      network_(workload.cluster, workload.parallelism, operators_.table(),
               {workload.fitted, workload.calibration.collectives}),
      exposed_share_(workload.fitted.exposed_share),
      sequence_(static_cast<double>(parallelism_.sequence > 0 ? parallelism_.sequence : model_.sequence)),
      tokens_(sequence_ / parallelism_.context * parallelism_.microbatch_size),
      hidden_(static_cast<double>(model_.hidden)) {}

double LayerTimer::own_tokens() const {
  return stack_.sequence_parallel ? tokens_ / parallelism_.tensor : tokens_;
}

double LayerTimer::exposed(bool overlapped, double seconds) const {
  return overlapped ? exposed_share_ * seconds : seconds;
}

std::vector<LayerTimer::Linear> LayerTimer::attention_linears() const {
  const double tp = parallelism_.tensor;
  const auto heads = static_cast<double>(model_.heads);
  if (model_.kv_lora > 0) {
    const auto key = static_cast<double>(model_.qk_nope + model_.qk_rope);
    const auto value = static_cast<double>(model_.v_head);
    const auto nope = static_cast<double>(model_.qk_nope);
    const auto query_rank = static_cast<double>(model_.q_lora);
    const auto key_rank = static_cast<double>(model_.kv_lora);
    std::vector<Linear> linears;
    if (query_rank > 0) linears.push_back({own_tokens(), hidden_, query_rank});
    linears.push_back({.tokens = tokens_,
                       .in = query_rank > 0 ? query_rank : hidden_,
                       .out = heads * key / tp,
                       .is_up_projection = query_rank > 0});
    linears.push_back({own_tokens(), hidden_, key_rank + static_cast<double>(model_.qk_rope)});
    linears.push_back(
        {.tokens = tokens_, .in = key_rank, .out = heads * (nope + value) / tp, .is_up_projection = true});
    linears.push_back({tokens_, heads * value / tp, hidden_});
    return linears;
  }
  const auto width = static_cast<double>(model_.head_dim);
  const double all = (heads + 2 * static_cast<double>(model_.kv_heads)) * width;
  return {{tokens_, hidden_, all / tp}, {tokens_, heads * width / tp, hidden_}};
}

/// The last one is behind attention.
void LayerTimer::add_attention_linears(PassTimes& times) const {
  const std::vector<Linear> linears = attention_linears();
  for (const Linear& linear : linears) {
    const double before = times.forward;
    add_linear(linear, parallelism_.dtype, times);
    (&linear == &linears.back() ? times.output : times.projections) += times.forward - before;
  }
}

/// Below bf16 operands are quantised first: activations forward, gradients backward, and weights with the
/// activations where nobody keeps what they are quantised to.
void LayerTimer::add_quantisation(const Linear& linear, DataType type, PassTimes& times) const {
  if (type == DataType::bf16) return;
  const double rows = linear.matrices * linear.tokens;
  const double copies = kBf16 + 2 * operand_bytes(type);
  if (!linear.makes_input) times.forward += operators_.traffic(rows * linear.in * copies);
  if (!linear.makes_gradient) times.input += operators_.traffic(rows * linear.out * copies);
  if (stack_.weights == QuantisedWeights::transient)
    times.forward += operators_.traffic(linear.matrices * linear.in * linear.out * copies);
}

void LayerTimer::add_linear(const Linear& linear, DataType type, PassTimes& times) const {
  const double before = times.forward;
  const double rows = linear.matrices * linear.tokens;
  const auto product = [&](const Product& all) {
    return linear.matrices == 1 ? operators_.product(all, type)
                                : operators_.grouped_product(all, linear.tokens, type);
  };
  const auto add = [&](const Product& all, double& time, double& slower) {
    const double alone = product(all);
    time += alone;
    slower += alone * operators_.longer_without(stack_.transfer_channels, all);
  };
  add({rows, linear.out, linear.in}, times.forward, times.forward_slower);
  add({rows, linear.in, linear.out}, times.input, times.input_slower);
  add({linear.out, linear.in, rows}, times.weight, times.weight_slower);
  const double elements = linear.matrices * linear.in * linear.out;
  times.weight += stack_.fused_weight_gradient
                      ? operators_.beside(elements * 2 * kFloat32)
                      : operators_.traffic(elements * (kBf16 + 2.0 * stack_.gradient_bytes));
  add_quantisation(linear, type, times);
  if (linear.is_up_projection) times.up_projections += times.forward - before;
}

void LayerTimer::add_activation(double elements, PassTimes& times) const {
  const double gate = model_.gated_mlp ? 2 : 1;
  const double forward = operators_.traffic(elements * kBf16 * (gate + 1));
  times.forward += forward;
  times.elementwise += forward;
  times.input += operators_.traffic(elements * kBf16 * (2 * gate + 1));
}

void LayerTimer::add_dense_mlp(double channels, PassTimes& times) const {
  const double own = channels / parallelism_.tensor;
  const double before = times.forward;
  add_linear({tokens_, hidden_, (model_.gated_mlp ? 2 : 1) * own}, parallelism_.dtype, times);
  times.gates += times.forward - before;
  add_linear({tokens_, own, hidden_}, parallelism_.dtype, times);
  add_activation(tokens_ * own, times);
}

/// Router, permutation, exchange with the experts and back. Experts are split over their group where there is
/// one, and over the tensor-parallel group where there is none or the stack does it: those that share an
/// expert gather its tokens and sum what it makes of them.
void LayerTimer::add_mixture(PassTimes& times) const {
  const double tp = parallelism_.tensor;
  const auto chosen = static_cast<double>(model_.top_k);
  const double routed = tokens_ / tp * chosen;  // copies of tokens of one GPU
  const bool apart = parallelism_.expert > 1;
  const double experts = static_cast<double>(model_.experts) / parallelism_.expert;
  const bool whole = apart && split_ == 1;
  const double channels = static_cast<double>(model_.moe_ffn) / (whole ? 1 : tp);
  const double rows = (whole ? routed : tokens_ * chosen) / experts;
  add_linear({own_tokens(), hidden_, static_cast<double>(model_.experts)}, DataType::bf16, times);
  const bool fused = stack_.fused_experts;
  add_linear({.tokens = rows,
              .in = hidden_,
              .out = (model_.gated_mlp ? 2 : 1) * channels,
              .matrices = experts,
              .makes_gradient = fused},
             parallelism_.dtype, times);
  add_linear({.tokens = rows, .in = channels, .out = hidden_, .matrices = experts, .makes_input = fused},
             parallelism_.dtype, times);
  if (!fused) {
    add_activation(rows * experts * channels, times);
    add_expert_biases(rows, experts, times);
    add_clamp(rows * experts * (model_.gated_mlp ? 2 : 1) * channels, times);
  }
  const double copies = rows * experts * hidden_ * kBf16;
  const double permutation = 2 * operators_.traffic((apart ? 4 : 2) * copies);
  double exchange = 2 * network_.expert_exchange(network_.expert(split_), routed * hidden_ * kBf16, chosen);
  if (split_ > 1) {
    exchange += network_.collective(CollectiveKind::all_gather, network_.tensor(), copies) +
                network_.collective(CollectiveKind::reduce_scatter, network_.tensor(), copies);
  }
  const double waited = exposed(stack_.overlap_experts, exchange);
  times.forward += permutation + waited;
  times.input += permutation + waited;
  if (!stack_.overlap_experts) times.exchange += exchange;
  if (model_.shared_experts > 0)
    add_dense_mlp(static_cast<double>(model_.shared_experts * model_.moe_ffn), times);
}

/// Kernels skip tiles of scores that no window reaches. What they compute for a window they compute for
/// shorter sequences, as many tokens of them, whose tokens attend to as many others: at the rate of these.
void LayerTimer::add_flash(double heads, double width, bool windowed, PassTimes& times) const {
  const double value = model_.kv_lora > 0 ? static_cast<double>(model_.v_head) : width;
  const double reach = windowed ? static_cast<double>(model_.window) + kAttentionTile : sequence_;
  const double sequence = std::min(sequence_, 2 * reach);
  const double slowdown = operators_.attention_slowdown(stack_.attention);
  const double flops = slowdown * 4 * heads * attended_pairs(sequence_, reach) / parallelism_.context * width;
  const bool quantised = stack_.quantised_attention && parallelism_.dtype != DataType::bf16;
  const double forward = operators_.flash_attention(
      flops / (quantised ? kQuantisedAttention : 1),
      std::max(1.0, heads * sequence_ / sequence / parallelism_.context), sequence, value);
  if (quantised) quantise_attention(times);
  times.attention_core += forward;
  times.forward += forward;
  times.input += 2.5 * forward / kAttentionBackward;
}

/// Queries, keys and values forward, the gradient of the output backward: read in bf16 and written in FP8.
void LayerTimer::quantise_attention(PassTimes& times) const {
  const double head = tokens_ * static_cast<double>(model_.head_dim) / parallelism_.tensor * (kBf16 + 1);
  times.forward += operators_.traffic(head * static_cast<double>(model_.heads + 2 * model_.kv_heads));
  times.input += operators_.traffic(head * static_cast<double>(model_.heads));
}

/// Forward: scores written, read and written by the softmax, by dropout, and read with the values. Backward:
/// the gradient of the scores goes the same way back, beside the probabilities.
void LayerTimer::add_unfused(double flops, double scores, PassTimes& times) const {
  const auto pass = [&](double bytes) { return operators_.traffic(scores * bytes); };
  const double products = operators_.unfused_products(2 * flops);  // all of the scores, not half
  const double forward = products + pass(2) + pass(4) + pass(5) + pass(2);
  times.attention_core += forward;
  times.forward += forward;
  times.input += 2 * products + 4 * pass(2) + pass(5) + pass(6);
}

void LayerTimer::add_context_exchange(PassTimes& times) const {
  const double heads = static_cast<double>(model_.heads);
  const double pairs = 2 * static_cast<double>(model_.kv_heads);
  const double head = kBf16 * tokens_ * static_cast<double>(model_.head_dim) / parallelism_.tensor;
  const RankGroup group = network_.context();
  if (stack_.context == ContextExchange::all_to_all) {
    const auto exchange = [&](double width) {
      return network_.collective(CollectiveKind::all_to_all, group, width * head);
    };
    const double both = exchange(heads + pairs) + exchange(heads);
    times.forward += both;
    times.input += both;
    return;
  }
  // Keys and values travel around the ring beside attention; backward, their gradients as well.
  const double around =
      network_.collective(CollectiveKind::all_gather, group, pairs * head * parallelism_.context);
  times.forward += exposed(true, around);
  times.input += exposed(true, 2 * around);
}

/// Unfused kernels compute every score, and a mask hides those outside of the window.
void LayerTimer::add_attention(bool windowed, PassTimes& times) const {
  const double heads = static_cast<double>(model_.heads) / parallelism_.tensor * parallelism_.microbatch_size;
  const double width = model_.kv_lora > 0
                           ? static_cast<double>(model_.qk_nope + model_.qk_rope + model_.v_head) / 2
                           : static_cast<double>(model_.head_dim);
  const double scores = heads * sequence_ * sequence_ / parallelism_.context;
  if (stack_.attention == AttentionKernel::unfused) {
    add_unfused(2 * scores * width, scores, times);
  } else {
    add_flash(heads, width, windowed, times);
  }
  if (parallelism_.context > 1) add_context_exchange(times);
}

/// Two norms, two residual additions (with dropout where there is no gate, as in GPT), rotary embedding or
/// transposition of queries and keys.
void LayerTimer::add_elementwise(PassTimes& times) const {
  const double states = own_tokens() * hidden_;
  const double width = (static_cast<double>(model_.heads) + 2 * static_cast<double>(model_.kv_heads)) *
                       static_cast<double>(model_.head_dim) / parallelism_.tensor;
  const double norms = 2 * operators_.traffic(states * 2 * kBf16);
  times.forward += norms + 2 * operators_.traffic(states * (model_.gated_mlp ? 6 : 7));
  times.elementwise += norms;
  times.input += 2 * operators_.traffic(states * 4 * kBf16) +
                 2 * operators_.traffic(states * (model_.gated_mlp ? 4 : 5));
  if (model_.scaled_rotation && !stack_.compiled) return add_scaled_rotation(times);
  const double queries = operators_.traffic(tokens_ * width * 2 * kBf16);
  times.forward += queries;
  times.input += queries;
}

/// Of `layers` pairs of a column- and a row-parallel product. With sequence parallelism an all-gather and a
/// reduce-scatter each way, and the gather of the input again for its weight gradient; without it an
/// all-reduce each way.
void LayerTimer::add_tensor_exchange(double layers, PassTimes& times) const {
  const RankGroup group = network_.tensor();
  const double bytes = kBf16 * tokens_ * hidden_;
  const auto time = [&](CollectiveKind kind) { return layers * network_.collective(kind, group, bytes); };
  if (group.members > 1) times.tensor_exchanges += layers * (stack_.sequence_parallel ? 2 : 1);
  if (!stack_.sequence_parallel) {
    times.tensor_exchange += time(CollectiveKind::all_reduce);
    const double reduce = exposed(stack_.overlap_tensor, time(CollectiveKind::all_reduce));
    times.forward += reduce;
    times.output += reduce / layers;
    times.input += reduce;
    return;
  }
  const double gather = time(CollectiveKind::all_gather);
  const double both = gather + time(CollectiveKind::reduce_scatter);
  times.tensor_exchange += both;
  times.forward += exposed(stack_.overlap_tensor, both);
  times.projections += exposed(stack_.overlap_tensor, gather) / layers;
  times.gates += exposed(stack_.overlap_tensor, gather) / layers;
  times.output += exposed(stack_.overlap_tensor, both - gather) / layers;
  times.input += exposed(stack_.overlap_tensor, both);
  // Beside the product for the input gradient, whatever else overlaps (2205.05198, section 4.2.2).
  if (!stack_.overlap_tensor) times.weight += exposed(true, gather);
}

PassTimes LayerTimer::layer(std::int64_t index) const {
  const bool mixture = model_.experts > 0 && index >= model_.first_dense_layers;
  PassTimes times;
  add_attention_linears(times);
  add_attention(is_windowed(model_, index), times);
  add_elementwise(times);
  if (mixture) {
    add_mixture(times);
  } else {
    add_dense_mlp(static_cast<double>(model_.ffn), times);
  }
  // Experts of their own group take the tokens of each tensor-parallel rank as they are split; a shared one
  // does not.
  const bool split = mixture && parallelism_.expert > 1 && model_.shared_experts == 0;
  add_tensor_exchange(split ? 1 : 2, times);
  wait_for_host(mixture, times);
  times.layers = times.forward;
  return times;
}

/// A GPU is not faster than the host that launches its kernels, of a mixture in graphs those of its experts.
void LayerTimer::wait_for_host(bool mixture, PassTimes& times) const {
  if (stack_.graphs && (!mixture || stack_.graphed_experts)) return;
  const double host = (mixture ? kHostMixture : kHostLayer) - (stack_.graphs ? kHostLayer : 0);
  times.host = host;
  times.forward = std::max(times.forward, host);
  times.input = std::max(times.input, kHostBackward * host - times.weight);
}

PassTimes LayerTimer::head() const {
  const double words = static_cast<double>(model_.vocab) / parallelism_.tensor;
  PassTimes times;
  const Linear linear{tokens_, hidden_, words};
  times.forward = operators_.product({linear.tokens, linear.out, linear.in}, DataType::bf16);
  times.input = operators_.product({linear.tokens, linear.in, linear.out}, DataType::bf16);
  times.weight = operators_.product({linear.out, linear.in, linear.tokens}, DataType::bf16) +
                 operators_.traffic(words * hidden_ * 2 * kFloat32);
  const double logits = tokens_ * words;
  times.forward += operators_.traffic(logits * (stack_.fused_cross_entropy ? 10 : 14)) +
                   operators_.traffic(tokens_ * hidden_ * 2 * kBf16);
  times.input += operators_.traffic(logits * 6);
  times.input +=
      network_.collective(CollectiveKind::all_reduce, network_.tensor(), kBf16 * tokens_ * hidden_);
  return times;
}

PassTimes LayerTimer::embedding() const {
  PassTimes times;
  times.forward =
      operators_.traffic(tokens_ * hidden_ * 3 * kBf16) +
      network_.collective(CollectiveKind::all_reduce, network_.tensor(), kBf16 * tokens_ * hidden_);
  times.weight = operators_.traffic(tokens_ * hidden_ * 2 * kFloat32);
  return times;
}

PassTimes LayerTimer::projection() const {
  PassTimes times;
  add_linear({tokens_ / parallelism_.tensor, 2 * hidden_, hidden_}, parallelism_.dtype, times);
  return times;
}

/// Two tensors of so many bytes a token together.
double LayerTimer::load(double token_bytes) const {
  const double bytes = token_bytes * sequence_ * parallelism_.microbatch_size;
  const double rate = stack_.inputs == InputCopies::pageable ? kPageableCopies : 1;
  const double copies = 2 * operators_.traffic(0) + network_.to_host(bytes) / rate;
  return copies + 2 * network_.collective(CollectiveKind::all_gather, network_.tensor(), bytes / 2);
}

double LayerTimer::broadcast_tokens() const {
  const double bytes = 8 * sequence_ * parallelism_.microbatch_size;
  return kHostBatch + network_.to_host(bytes) / kPageableCopies +
         network_.collective(CollectiveKind::all_gather, network_.tensor(), bytes);
}

}  // namespace ppsim::workload
