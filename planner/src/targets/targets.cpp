#include "ppsim/planner/targets.hpp"

#include <algorithm>
#include <array>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/core/text/nearest.hpp"

namespace ppsim::planner {
namespace {

using enum CommunicatorPolicy;

// A process group of NCCL opens a communicator for each pair of ranks that send to each other outside a
// batch, and one for all where it was given its device (`device_id`) or where sends and receives are
// coalesced.
constexpr std::array kTorch215 = {per_pair, per_rank, per_edge};  // the last: pipeline_per_edge_p2p
constexpr std::array kTorch214 = {per_pair, per_rank};
constexpr std::array kLegacy = {per_rank};  // every transfer is a coalesced batch

constexpr std::array kJaxpp = {per_pair, per_edge};  // the second: JAXPP_DIRECTIONAL_COMMUNICATORS=1

constexpr std::array kTargets = {
    Target{.name = "torch-2.15",
           .description = "PyTorch 2.15: WAIT cells, gradients divided at REDUCE_GRAD",
           .dialect = CsvDialect::torch_2_15,
           .waits = true,
           .reduces = true,
           .overlaps = true,
           .communicators = kTorch215},
    Target{.name = "torch-2.14",
           .description = "PyTorch 2.14: no WAIT cells, gradients divided at REDUCE_GRAD",
           .dialect = CsvDialect::torch,
           .waits = false,
           .reduces = true,
           .overlaps = true,
           .communicators = kTorch214},
    Target{.name = "legacy",
           .description = "PyTorch before 2.6: B is the input gradient, BW the full backward",
           .dialect = CsvDialect::legacy,
           .waits = false,
           .reduces = false,
           .overlaps = false,
           .communicators = kLegacy},
    Target{
        .name = "jaxpp-0.9.2",
        .description = "JaxPP 0.9.2: its order of tasks and transfers, a whole backward of the first stage",
        .runtime = PipelineRuntime::jaxpp,
        .dialect = CsvDialect::torch,
        .waits = false,
        .reduces = false,
        .overlaps = true,
        .communicators = kJaxpp},
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

Expected<Target> target_named(std::string_view name) {
  const auto found = std::ranges::find(kTargets, name, &Target::name);
  if (found != kTargets.end()) return *found;
  return tl::unexpected(unknown_name("unknown target", name, names_in(kTargets), ""));
}

TransportCapabilities target_capabilities() {
  const auto found = transport(kTargetTransport, true);
  PPSIM_CHECK(found.has_value(), "the transport of the targets has a name");
  return *found;
}

Expected<CommunicatorPolicy> communicators_for(const Target& target,
                                               std::optional<CommunicatorPolicy> asked) {
  if (!asked) return target.communicators.front();
  if (std::ranges::find(target.communicators, *asked) != target.communicators.end()) return *asked;
  std::vector<std::string_view> names;
  for (const CommunicatorPolicy policy : target.communicators) names.push_back(policy_name(policy));
  return make_error(ErrorCode::bad_argument, std::string(target.name) + " has no such communicators",
                    {.found = std::string(policy_name(*asked)), .expected = joined(names)});
}

LoweringOptions own_lowering(const Target& target, CommunicatorPolicy policy, const Ir& ir) {
  LoweringOptions options = usual_lowering(target, policy);
  if (target.runtime == PipelineRuntime::pytorch) {
    options.order = IssueOrder::global;
    options.unshard_turns = true;
  }
  options.reduce_grad = target.reduces && std::holds_alternative<Schedule>(ir);
  return options;
}

LoweringOptions usual_lowering(const Target& target, CommunicatorPolicy policy) {
  LoweringOptions options;
  options.communicators = policy;
  if (target.runtime == PipelineRuntime::jaxpp) {
    options.order = IssueOrder::jaxpp;
    options.send_done_delay = kUntilStepEnd;  // JAXPP_TRANSFER_DONE_DELAY is infinite where it is not set
  }
  return options;
}

Expected<void> check_communicators(const Target& target, const Program& program, CommunicatorPolicy policy) {
  PPSIM_ASSIGN_OR_RETURN(const auto wanted, with_communicators(program, policy));
  if (wanted == program) return {};
  return make_error(ErrorCode::refused,
                    std::string(target.name) + " would use other communicators than this Program has",
                    {.expected = std::string(policy_name(policy)) + ", as ppsim lower --for " +
                                 std::string(target.name) + " makes them"});
}

}  // namespace ppsim::planner
