#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/workload/checkpoint_policy.hpp"

namespace ppsim::workload {

/// How scores of attention are kept: written to memory between kernels, or never (2205.14135). `flash` is the
/// fastest kernel of the GPU; flash_2 and flash_1 are older versions, which are slower by what the papers of
/// the later ones say.
enum class AttentionKernel : std::uint8_t { unfused, flash, flash_2, flash_1 };

/// The tensors that `selective` recompute makes again: the attention core (2205.05198, section 5), the
/// outputs of norms and activation functions, or these and what the up-projections of latent attention make
/// (2412.19437, section 3.2.3).
enum class SelectiveRecompute : std::uint8_t { attention_core, elementwise, up_projections };

/// Below bf16, where the weights of products are quantised: in every microbatch, once a step into copies
/// beside those in bf16, or by the optimizer, so that there are none in bf16.
enum class QuantisedWeights : std::uint8_t { transient, cached, primary };

/// How ranks of a context-parallel group get each other's keys and values.
enum class ContextExchange : std::uint8_t { ring, all_to_all };

/// How tokens and labels come from the host: while the step before is computed; before each microbatch, on
/// the stages that need them, from memory that the device reads itself (pinned) or not (pageable); or on
/// every stage, by one rank of a tensor-parallel group that tells the others first how many there are
/// (broadcast).
enum class InputCopies : std::uint8_t { prefetched, pinned, pageable, broadcast };

/// The behaviour of a training framework, as its documentation says. Nothing in it is fitted to a
/// measurement.
struct SoftwareStack {
  std::string name;
  AttentionKernel attention = AttentionKernel::flash;
  bool sequence_parallel = true;      ///< norms and residuals are split over the tensor-parallel group
  bool overlap_tensor = true;         ///< tensor-parallel communication runs beside products
  bool overlap_experts = false;       ///< the exchange with experts runs beside another microbatch
  bool overlap_data = true;           ///< gradient reduction and parameter gather run beside computation
  bool overlap_pipeline = true;       ///< transfers between stages run beside computation
  bool sharded_optimizer = true;      ///< over the data-parallel group (ZeRO 1)
  bool fused_weight_gradient = true;  ///< products add to the main gradients themselves
  bool fused_cross_entropy = true;    ///< logits are not copied in float32
  bool graphs = false;                ///< kernels are launched by CUDA graphs
  bool graphed_experts = true;        ///< where there are graphs: what experts do is part of them
  bool split_experts = false;         ///< experts are split over the tensor-parallel group as well
  int gradient_bytes = 4;             ///< of one gradient, kept and reduced
  int transfer_channels = 0;          ///< multiprocessors that a pending transfer holds; 0: none is counted
  int moment_bytes = 4;               ///< of each of the optimizer's two moments of a parameter
  bool fused_experts = false;         ///< activation and quantisation are part of their products
  bool compiled = false;              ///< a compiler makes one kernel of element-wise operations
  bool quantised_attention = false;   ///< below bf16, flash attention multiplies in FP8
  bool quantised_gates = false;       ///< below bf16, inputs of activation functions are kept as operands are
  bool reruns_layers = true;          ///< a layer that keeps nothing is computed again to its end
  SelectiveRecompute selective = SelectiveRecompute::elementwise;
  std::optional<CheckpointPolicy> checkpoints = {};  ///< instead of `selective`
  QuantisedWeights weights = QuantisedWeights::cached;
  ContextExchange context = ContextExchange::ring;
  InputCopies inputs = InputCopies::pinned;

  friend bool operator==(const SoftwareStack&, const SoftwareStack&) = default;
};

/// Published stacks. Source: the frameworks' documentation, named in src/presets/stacks.cpp.
[[nodiscard]] std::span<const SoftwareStack> stack_presets();

/// The choices of a stack, as a file spells them.
struct StackWords {
  std::string_view attention, selective, context, weights, inputs;
};
[[nodiscard]] StackWords words_of(const SoftwareStack& stack);

/// Errors: bad_argument naming the stacks there are.
[[nodiscard]] Expected<SoftwareStack> stack_from_name(std::string_view name);

/// A stack as a file describes it: `{"base": NAME, ...}` with the members of SoftwareStack that differ.
/// Errors: bad_file naming the key that is unknown or of a wrong type.
[[nodiscard]] Expected<SoftwareStack> stack_from_json(std::string_view text, const std::string& file);

}  // namespace ppsim::workload

namespace ppsim {
using workload::SoftwareStack;
using workload::stack_from_json;
using workload::stack_from_name;
using workload::stack_presets;
}  // namespace ppsim
