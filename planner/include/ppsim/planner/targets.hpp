#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ppsim/core/io/torch_csv.hpp"
#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/planner/ir_source.hpp"

namespace ppsim::planner {

enum class PipelineRuntime : std::uint8_t { pytorch, jaxpp };

/// A release of torch.distributed.pipelining or JaxPP that a schedule is for.
struct Target {
  std::string_view name;
  std::string_view description;  ///< one line
  PipelineRuntime runtime = PipelineRuntime::pytorch;
  CsvDialect dialect;  ///< of its files; JaxPP has none
  /// A send or reduction without its WAIT cell is refused; where this is false, every WAIT cell is.
  bool waits;
  /// REDUCE_GRAD is where gradients are summed over replicas and divided by the number of microbatches; where
  /// this is false, that happens behind the last backward, and the cell is refused.
  bool reduces;
  bool overlaps;  ///< OVERLAP_F_B is known
  /// The transports of its messages; the first is its default.
  std::span<const CommunicatorPolicy> communicators;
};

/// torch-2.15, torch-2.14, legacy, jaxpp-0.9.2.
[[nodiscard]] std::span<const Target> targets();
/// Errors: bad_argument with the names that exist.
[[nodiscard]] Expected<Target> target_named(std::string_view name);

/// The transport of every target, by its name.
inline constexpr std::string_view kTargetTransport = "nccl";
/// NCCL, where each operation waits for the computation issued before it, too.
[[nodiscard]] TransportCapabilities target_capabilities();

/// Those that were asked for, or the usual ones.
/// Errors: bad_argument for what the release cannot be told to use.
[[nodiscard]] Expected<CommunicatorPolicy> communicators_for(const Target& target,
                                                             std::optional<CommunicatorPolicy> asked);

/// How the release itself lowers a schedule, FSDP aside.
[[nodiscard]] LoweringOptions own_lowering(const Target& target, CommunicatorPolicy policy, const Ir& ir);
/// How lower_for lowers where nothing else is asked for.
[[nodiscard]] LoweringOptions usual_lowering(const Target& target, CommunicatorPolicy policy);

/// The actions that the release makes of a schedule: JaxPP runs the backward of the first stage whole.
/// Errors: refused where an I of that stage has its W elsewhere than directly after it.
[[nodiscard]] Expected<Schedule> as_run(const Target& target, const Schedule& schedule);

/// Checks that the release would load a file of this text.
/// Errors: refused with the place: a byte order mark, an empty row, WAIT cells that are missing or unknown.
[[nodiscard]] Expected<void> check_text_loads(const Target& target, std::string_view text,
                                              const std::string& file, CsvDialect dialect);
/// Checks that it would run this, and compute the gradients of the plain model.
/// Errors: refused: no backward, a rank without stage, a kind that it does not know, REDUCE_GRAD missing;
/// those of as_run.
[[nodiscard]] Expected<void> check_runs(const Target& target, const Ir& ir);
/// Checks that the Program has the communicators of the policy.
/// Errors: refused.
[[nodiscard]] Expected<void> check_communicators(const Target& target, const Program& program,
                                                 CommunicatorPolicy policy);

/// A Schedule lowered for a target, with what it needs. Under `just-in-time` and `early:N` a transfer moves
/// as a whole, as defer_transfers() says. Nothing that can hang or mix tensors up comes out.
/// Errors: those of lower and defer_transfers; bad_argument for orders that the target's files cannot hold;
/// deadlock or ill_formed with the culprits.
[[nodiscard]] Expected<Program> lower_for(const Target& target, const Schedule& schedule,
                                          const LoweringOptions& options, const CostTable* costs = nullptr);

/// A file for a target: ir_text() of what check_runs() accepts, in its alphabet, proved if it is a Program.
/// Errors: those of ir_text, check_runs and lower_for; refused for a CSV for JaxPP.
[[nodiscard]] Expected<std::string> text_for(const Target& target, const Ir& ir, const std::string& path);

/// Where transfers go.
struct Deferral {
  CommunicatorPolicy communicators = CommunicatorPolicy::per_pair;
  int early = 0;  ///< computations of the receiver between a transfer and what consumes it
  /// A rank waits for what it sent before its first computation behind that of the receiver, and has one
  /// reduction in flight.
  bool waits = false;
};

/// Each transfer directly before the computation that consumes it, or `early` computations of the receiver
/// sooner, and never before its tensor is there. Both ends stand at one place of one order of all
/// instructions, so that no order of communicators makes it hang or mixes it up.
/// `costs` say which order that is; without them every action takes as long as `lower` has it.
/// Requires: a Program as lower() makes it in timed or global order, without groups and `after`.
/// Errors: bad_argument for a Program that is none.
[[nodiscard]] Expected<Program> defer_transfers(const Program& program, const Deferral& deferral,
                                                const CostTable* costs = nullptr);

/// The gradients that PyTorch computes from a `compute_comms` file of this Program without REDUCE_GRAD. Empty
/// where there is nothing to say.
[[nodiscard]] std::string gradient_warning(const Program& program);

}  // namespace ppsim::planner

namespace ppsim {
using planner::as_run;
using planner::check_communicators;
using planner::check_runs;
using planner::check_text_loads;
using planner::communicators_for;
using planner::defer_transfers;
using planner::Deferral;
using planner::gradient_warning;
using planner::kTargetTransport;
using planner::lower_for;
using planner::own_lowering;
using planner::PipelineRuntime;
using planner::Target;
using planner::target_capabilities;
using planner::target_named;
using planner::targets;
using planner::text_for;
using planner::usual_lowering;
}  // namespace ppsim
