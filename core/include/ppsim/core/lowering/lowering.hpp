#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/ids.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "ppsim/core/lowering/memory_saving.hpp"

namespace ppsim {

enum class CommunicatorPolicy : std::uint8_t { per_rank, per_pair, per_edge, per_stage_edge };
enum class IssueOrder : std::uint8_t { timed, global, early, issue_ordered, as_written, jaxpp };
enum class Grouping : std::uint8_t { none, paired, as_written };

/// How a Schedule becomes a Program.
struct LoweringOptions {
  IssueOrder order = IssueOrder::timed;
  int early =
      0;  ///< with IssueOrder::early: compute actions that a RECV stands before its place; 0: just-in-time
  CommunicatorPolicy communicators = CommunicatorPolicy::per_edge;
  Grouping grouping = Grouping::none;
  std::optional<int> receive_buffers;  ///< waiting messages per channel, at least 1; empty: no limit
  StageRecompute recompute;            ///< R before the backward of the stages that recompute in full
  Offload offload;                     ///< OFFLOAD after F, RELOAD before B or I, beside other computation
  bool load = false;                   ///< LOAD before the F of first stages
  bool unshard = false;                ///< UNSHARD and RESHARD as PyTorch places them
  /// They are not in the Program and take their turns in the order of it: PyTorch's without FSDP.
  bool unshard_turns = false;
  bool reduce_grad = false;  ///< REDUCE_GRAD after the last B or W of a block on a rank
  bool reduce_each_microbatch =
      false;                ///< REDUCE_GRAD of shared blocks for each microbatch; needs `reduce_grad`
  bool optimizer = false;   ///< OPT after the last B or W (or REDUCE_GRAD) of a block on a rank
  bool clip = false;        ///< COLL "norm" over all ranks before the first OPT; needs `optimizer`
  int send_done_delay = 0;  ///< of the Program

  friend bool operator==(const LoweringOptions&, const LoweringOptions&) = default;
};
std::ostream& operator<<(std::ostream& out, const LoweringOptions& options);

[[nodiscard]] std::string_view policy_name(CommunicatorPolicy policy);
/// Errors: bad_argument.
[[nodiscard]] Expected<CommunicatorPolicy> policy_from_name(std::string_view name);
/// "none", "paired" or "as-written". Errors: bad_argument.
[[nodiscard]] Expected<Grouping> grouping_from_name(std::string_view name);
/// "timed", "global", "just-in-time", "early:2", "issue-ordered", "as-written", "jaxpp".
[[nodiscard]] std::string order_name(const LoweringOptions& options);
/// Errors: bad_argument naming the orders there are.
[[nodiscard]] Expected<void> set_order(LoweringOptions& options, std::string_view name);

/// A number of sends, or "end" for kUntilStepEnd.
[[nodiscard]] std::string send_done_delay_text(int delay);
/// Errors: bad_argument.
[[nodiscard]] Expected<int> send_done_delay_from_text(std::string_view text);

/// The instructions of each rank as text, in issue order, each with the places in its row that it comes
/// after.
using PassRows = IdVector<RankId, std::vector<std::string>>;
/// Is told what every pass of a lowering makes of the rows, in the order of the passes.
using PassObserver = std::function<void(std::string_view pass, const PassRows& rows)>;

/// Inserts transfers, puts every instruction on its queue and in issue order.
/// `costs` is for IssueOrder::timed and ignored elsewhere; without it F, I, W, R and a
/// copy of activations take one unit, B two and transfers nothing. `observer` may be empty.
/// Errors: bad_argument for options that do not go together (clip without optimizer, as-written without
/// transfers in the schedule), name stages that the pipeline does not have, or ask for a sum of every
/// microbatch where no block has copies on several ranks that each of them visits; deadlock
/// when the rows of the schedule wait for each other.
[[nodiscard]] Expected<Program> lower(const Schedule& schedule, const LoweringOptions& options,
                                      const CostTable* costs = nullptr,
                                      const PassObserver& observer = nullptr);

/// The same Program with the communicators of another policy; order and groups stay.
[[nodiscard]] Expected<Program> with_communicators(const Program& program, CommunicatorPolicy policy);

}  // namespace ppsim
