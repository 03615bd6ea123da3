#pragma once

#include <map>
#include <variant>

#include "ppsim/core/io/json.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/pipeline.hpp"
#include "ppsim/workload/calibration.hpp"
#include "ppsim/workload/cluster.hpp"
#include "ppsim/workload/constants.hpp"
#include "ppsim/workload/layout.hpp"
#include "ppsim/workload/model.hpp"
#include "ppsim/workload/parallelism.hpp"
#include "ppsim/workload/stack.hpp"

namespace ppsim::workload {

/// Layouts that follow from the model and the number of stages: as many layers on each stage, or the cut
/// whose slowest stage, forward and backward together, is as fast as can be (balanced_layout).
enum class LayoutRule : std::uint8_t { even, balanced };

/// A training job: the model, the cluster and the parallelism.
struct Workload {
  ModelDescription model;
  ClusterDescription cluster;
  Parallelism parallelism;
  std::variant<LayoutRule, PipelineLayout> layout = LayoutRule::even;  ///< of every route
  SoftwareStack stack = {.name = "megatron-core"};
  bool whole_step = true;  ///< its end is part of the step: reduction of gradients, optimizer
  FittedConstants fitted;
  Calibration calibration;  ///< from measurements
  friend bool operator==(const Workload&, const Workload&) = default;
};

/// The same work with a calibration, its constants included.
[[nodiscard]] Workload calibrated(Workload workload, Calibration calibration);

/// The work of a rank after its last microbatch. Gradients are reduced first, then their norm joins
/// all ranks, then weights are updated.
struct StepEnd {
  Nanoseconds reduction = 0;  ///< of gradients, those of tied embeddings included, as far as nothing hides it
  Nanoseconds update = 0;     ///< clipping, optimizer, and the gather of parameters where they are sharded
  friend bool operator==(const StepEnd&, const StepEnd&) = default;
};

/// The exchange of the tensor-parallel GPUs of a stage during its forward, and as much during its input
/// gradient.
struct GroupExchange {
  int count = 0;
  Nanoseconds each = 0;  ///< by itself; beside computation, more than the costs count of it
  bool beside = false;   ///< the stack runs it beside products
  friend bool operator==(const GroupExchange&, const GroupExchange&) = default;
};

/// Parameters of a block on each GPU that holds some.
struct HeldParameters {
  double dense = 0;  ///< but for experts
  double experts = 0;
  double expert_replicas = 1;  ///< GPUs of a pipeline rank that hold the same experts
  int copies = 1;              ///< pipeline ranks that hold the block, as in bidirectional schedules
  friend bool operator==(const HeldParameters&, const HeldParameters&) = default;
};

/// Costs and sizes of one pipeline of a Workload, per GPU.
struct AnalyticCosts {
  Tables tables;
  PipelineLayout layout;  ///< of the first route
  IdVector<RankId, StepEnd> ends;
  std::map<StageId, GroupExchange> exchanges;  ///< of stages with any
  std::map<BlockId, HeldParameters> parameters;
  Bytes memory_limit = 0;           ///< of one GPU, as sold
  double tokens_per_step = 0;       ///< over all data-parallel replicas
  double model_flops_per_step = 0;  ///< forward and backward, no recompute, causal attention counted half
  double peak_flops = 0;            ///< of all GPUs together, at the data type of the products
};

/// Times from shapes: the sum of every kernel of a stage and of the communication that it waits for. A
/// product takes the measured time of its shape on this GPU, else the time at the achievable rate; norms,
/// residuals, activation functions and softmax the time of their bytes; collectives within an NVLink domain
/// their measured time, others latency and bytes over the links of their members. Work that a stack overlaps
/// costs a share of its time. constants() lists every number that no description has, and its source.
///
/// The layout says which layers stand on which stage of a route; the loss stands for final norm, head and
/// loss. A multi-token prediction layer is one of the model's last layers, a product that halves two hidden
/// states, a separate embedding where its stage has none, and another pass of the head on the loss's
/// stage, to which its output travels beside the model's (2412.19437, section 2.2). I has the products for
/// the input gradient, W those for the weights and their sums; B = I + W; R = F. F of a stage with an
/// embedding or the loss also has the copies of its tokens or labels from the host, which a stack may hide;
/// LOAD costs them where it does. OVERLAP_F_B is F + B without
/// the exchange with experts that runs beside the other's computation (2412.19437, section 3.2.1). Selective
/// recompute makes again what the stack says. Where a stack's transfers block, an action ends when what it
/// sends has arrived. Of sharded vocabulary layers each stage has its part of parameters and times, S of an
/// output shard that of the input gradient where a collective sums it behind S; collectives between passes
/// are all-reduces.
///
/// A calibration goes before all of this: measured communication takes the place of the model's, and each
/// cost is multiplied by the factor of its kind.
///
/// Memory: bf16 parameters and activations, the stack's gradients, 12 bytes a parameter of optimizer state,
/// sharded where the stack does; activations as the stack saves them.
///
/// Order: values are deterministic; durations are rounded to nanoseconds.
/// Errors: bad_argument for an encoder-decoder or vision model, slices, a data type that the GPU lacks, more
/// stages than layers to spread evenly, and whatever check_parallelism and check_layout refuse.
[[nodiscard]] Expected<AnalyticCosts> analytic_costs(const Workload& workload, const Pipeline& pipeline);

/// Errors: bad_argument where the stack has a CheckpointPolicy, and the model or the stack layers that none
/// is priced for.
[[nodiscard]] Expected<void> check_checkpoints(const Workload& workload);

}  // namespace ppsim::workload

namespace ppsim {
using workload::analytic_costs;
using workload::AnalyticCosts;
using workload::calibrated;
using workload::GroupExchange;
using workload::HeldParameters;
using workload::LayoutRule;
using workload::StepEnd;
using workload::Workload;
}  // namespace ppsim
