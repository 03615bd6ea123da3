#pragma once

#include <variant>

#include "ppsim/core/io/json.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/pipeline.hpp"
#include "ppsim/workload/cluster.hpp"
#include "ppsim/workload/layout.hpp"
#include "ppsim/workload/model.hpp"
#include "ppsim/workload/parallelism.hpp"

namespace ppsim::workload {

/// Layouts that follow from the model and the number of stages: as many layers on each stage, or the cut
/// whose slowest stage, forward and backward together, is as fast as can be (balanced_layout).
enum class LayoutRule : std::uint8_t { even, balanced };

/// What is trained, where, and how it is spread.
struct Workload {
  ModelDescription model;
  ClusterDescription cluster;
  Parallelism parallelism;
  std::variant<LayoutRule, PipelineLayout> layout = LayoutRule::even;  ///< of every route
  friend bool operator==(const Workload&, const Workload&) = default;
};

/// Costs and sizes of one pipeline of a Workload, per GPU.
struct AnalyticCosts {
  Tables tables;
  PipelineLayout layout;            ///< of the first route
  Bytes memory_limit = 0;           ///< of one GPU, as sold
  double tokens_per_step = 0;       ///< over all data-parallel replicas
  double model_flops_per_step = 0;  ///< forward and backward, no recompute, causal attention counted half
  double peak_flops = 0;            ///< of all GPUs together, at the data type of the products
};

/// A roofline-style estimate from shapes and data-sheet rates, no measurement.
///
/// The layout says which layers stand on which stage of a route; the embedding takes no time, the loss stands
/// for final norm, head and loss. A multi-token prediction layer is one of the model's last layers, a product
/// that halves two hidden states, an embedding of its own where its stage has none, and another pass of the
/// head on the loss's stage, to which its output travels beside the model's (2412.19437, section 2.2). Time
/// of an action = matrix products at the achievable rate + attention at 0.6 of it + element-wise traffic at
/// 0.8 of the memory rate + tensor-parallel collectives (two all-gathers and two reduce-scatters a layer and
/// direction, with sequence parallelism) at 0.8 of the link rate, none overlapped. I has the products for the
/// input gradient and 2.5 times the attention of F (flash attention recomputes scores), W those for the
/// weights; B = I + W; R = F; OVERLAP_F_B = F + B. Selective recompute makes the outputs of norms and
/// activation functions again in W, from what I needs: W has their traffic and workspace, F saves them not. A
/// copy to host memory takes its bytes at 0.8 of the link's rate. A transfer costs latency + bytes / rate of
/// the slower link between the two ranks. Memory: bf16 parameters and activations, float32 gradients, 12
/// bytes a parameter of optimizer state spread over the data-parallel ranks; activations as saved with flash
/// attention and sequence parallelism. Expert-parallel all-to-alls cost their bytes over the network. Of
/// sharded vocabulary layers each stage has its part of parameters and times, S of an output shard that of
/// the input gradient where a collective sums it behind S; collectives between passes are all-reduces in a
/// ring.
///
/// Order: values are deterministic; durations are rounded to nanoseconds.
/// Errors: bad_argument for an encoder-decoder or vision model, slices, fp8 on a GPU without it, more stages
/// than layers to spread evenly, and whatever check_parallelism and check_layout refuse.
[[nodiscard]] Expected<AnalyticCosts> analytic_costs(const Workload& workload, const Pipeline& pipeline);

}  // namespace ppsim::workload

namespace ppsim {
using workload::analytic_costs;
using workload::AnalyticCosts;
using workload::LayoutRule;
using workload::Workload;
}  // namespace ppsim
