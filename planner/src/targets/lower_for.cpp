#include <algorithm>

#include "ppsim/verifier/verify.hpp"
#include "prove.hpp"

namespace ppsim::planner {
namespace {

constexpr std::size_t kMaxLines = 6;

/// The first lines of a counterexample.
std::string reason_text(const Program& program, const Counterexample& counterexample) {
  std::string text;
  const std::vector<std::string> lines = explain(program, counterexample);
  for (std::size_t i = 0; i < std::min(lines.size(), kMaxLines); ++i) text += "\n" + lines[i];
  return text;
}

}  // namespace

Expected<void> prove_for(const Target& target, const Program& program) {
  VerifyOptions options;
  options.properties = {Property::well_formed, Property::matched, Property::deadlock_free};
  options.capabilities = target_capabilities();
  const VerifyReport report = verify(program, options);
  for (const PropertyResult& result : report.results) {
    const auto* refuted = std::get_if<Refuted>(&result.verdict);
    if (refuted == nullptr) continue;
    const bool hangs = result.property == Property::deadlock_free;
    return make_error(hangs ? ErrorCode::deadlock : ErrorCode::ill_formed,
                      "for " + std::string(target.name) + (hangs ? ", this can hang:" : ", this is wrong:") +
                          reason_text(program, refuted->counterexample));
  }
  for (const PropertyResult& result : report.results) {
    if (const auto* unknown = std::get_if<Unknown>(&result.verdict))
      return make_error(ErrorCode::refused,
                        "for " + std::string(target.name) + ", this is not proved: " + unknown->reason);
  }
  return {};
}

namespace {

Expected<void> check_jaxpp_order(const Target& target, const LoweringOptions& options) {
  if (options.order == IssueOrder::jaxpp) return {};
  return make_error(ErrorCode::bad_argument, std::string(target.name) + " has one order of its own",
                    {.found = "--order " + order_name(options), .expected = "jaxpp"});
}

Expected<void> check_order(const Target& target, const LoweringOptions& options) {
  if (target.runtime == PipelineRuntime::jaxpp) return check_jaxpp_order(target, options);
  if (options.order != IssueOrder::issue_ordered && !options.receive_buffers &&
      options.grouping != Grouping::paired)
    return {};
  return make_error(ErrorCode::bad_argument,
                    std::string(target.name) +
                        "'s files have no waits for computation and no groups: each of " +
                        "its operations waits for the computation issued before it",
                    {.expected = "timed, global, just-in-time or early:N, without --receive-buffers and "
                                 "--grouping"});
}

}  // namespace

Expected<Program> lower_for(const Target& target, const Schedule& schedule, const LoweringOptions& options,
                            const CostTable* costs) {
  PPSIM_ASSIGN_OR_RETURN(const auto policy, communicators_for(target, options.communicators));
  PPSIM_RETURN_IF_ERROR(check_order(target, options));
  PPSIM_RETURN_IF_ERROR(check_runs(target, schedule));
  LoweringOptions asked = options;
  asked.reduce_grad = options.reduce_grad || target.reduces;
  const bool defers = options.order == IssueOrder::early;
  if (defers) asked.order = IssueOrder::timed;
  PPSIM_ASSIGN_OR_RETURN(const auto run, as_run(target, schedule));
  auto program = lower(run, asked, costs);
  if (program && defers) program = defer_transfers(*program, {policy, options.early, target.waits}, costs);
  if (!program) return program;
  PPSIM_RETURN_IF_ERROR(prove_for(target, *program));
  return program;
}

}  // namespace ppsim::planner
