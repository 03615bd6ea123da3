#include <array>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/core/text/number_text.hpp"

namespace ppsim {
namespace {

constexpr std::array<std::string_view, 4> kPolicyNames = {"per-rank", "per-pair", "per-edge",
                                                          "per-stage-edge"};
constexpr std::array<std::string_view, 3> kGroupingNames = {"none", "paired", "as-written"};
static_assert(kPolicyNames.size() == static_cast<std::size_t>(CommunicatorPolicy::per_stage_edge) + 1);
static_assert(kGroupingNames.size() == static_cast<std::size_t>(Grouping::as_written) + 1);
constexpr std::string_view kEarlyPrefix = "early:";

}  // namespace

std::string_view policy_name(CommunicatorPolicy policy) {
  return kPolicyNames[static_cast<std::size_t>(policy)];
}

Expected<CommunicatorPolicy> policy_from_name(std::string_view name) {
  return enumerator_named<CommunicatorPolicy>("communicators", kPolicyNames, name);
}

Expected<Grouping> grouping_from_name(std::string_view name) {
  return enumerator_named<Grouping>("grouping", kGroupingNames, name);
}

std::string order_name(const LoweringOptions& options) {
  switch (options.order) {
    case IssueOrder::timed:
      return "timed";
    case IssueOrder::global:
      return "global";
    case IssueOrder::early:
      return options.early == 0 ? "just-in-time" : std::string(kEarlyPrefix) + std::to_string(options.early);
    case IssueOrder::issue_ordered:
      return "issue-ordered";
    case IssueOrder::as_written:
      return "as-written";
    case IssueOrder::jaxpp:
      return "jaxpp";
  }
  return "";
}

Expected<void> set_order(LoweringOptions& options, std::string_view name) {
  options.early = 0;
  if (name == "timed") {
    options.order = IssueOrder::timed;
  } else if (name == "global") {
    options.order = IssueOrder::global;
  } else if (name == "just-in-time") {
    options.order = IssueOrder::early;
  } else if (name == "issue-ordered") {
    options.order = IssueOrder::issue_ordered;
  } else if (name == "as-written") {
    options.order = IssueOrder::as_written;
  } else if (name == "jaxpp") {
    options.order = IssueOrder::jaxpp;
  } else if (const auto n = name.starts_with(kEarlyPrefix) ? parse_count(name.substr(kEarlyPrefix.size()))
                                                           : std::nullopt) {
    options.order = IssueOrder::early;
    options.early = *n;
  } else {
    return make_error(
        ErrorCode::bad_argument, "unknown order",
        {.found = std::string(name),
         .expected = "one of timed, global, just-in-time, early:N, issue-ordered, as-written, jaxpp"});
  }
  return {};
}

std::string send_done_delay_text(int delay) { return delay == kUntilStepEnd ? "end" : std::to_string(delay); }

Expected<int> send_done_delay_from_text(std::string_view text) {
  if (text == "end") return kUntilStepEnd;
  const auto delay = parse_count(text);
  if (delay && *delay != kUntilStepEnd) return *delay;
  return make_error(ErrorCode::bad_argument, "a send-done delay is a number of sends, or end",
                    {.found = std::string(text), .expected = "0, 1, ... or end"});
}

std::ostream& operator<<(std::ostream& out, const LoweringOptions& options) {
  out << order_name(options) << ' ' << policy_name(options.communicators) << " grouping "
      << kGroupingNames[static_cast<std::size_t>(options.grouping)] << " recompute " << options.recompute;
  if (options.receive_buffers) out << " receive-buffers " << *options.receive_buffers;
  if (options.offload.on()) out << " offload " << options.offload;
  if (options.load) out << " load";
  if (options.unshard) out << " unshard";
  if (options.reduce_each_microbatch) out << " reduce-grad-each-microbatch";
  if (options.reduce_grad && !options.reduce_each_microbatch) out << " reduce-grad";
  if (options.optimizer) out << " opt";
  if (options.clip) out << " clip";
  if (options.send_done_delay > 0)
    out << " send-done-delay " << send_done_delay_text(options.send_done_delay);
  return out;
}

}  // namespace ppsim
