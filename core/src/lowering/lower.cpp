#include <cstddef>
#include <utility>

#include "lowering/build_program.hpp"
#include "lowering/insert/insert_offload.hpp"
#include "lowering/insert/insert_transfers.hpp"
#include "lowering/insert/insert_unshards.hpp"
#include "lowering/insert/insert_updates.hpp"
#include "lowering/order/issue_orders.hpp"
#include "lowering/order/limit_receives.hpp"
#include "lowering/order/order_as_jaxpp.hpp"
#include "lowering/order/order_exchanges.hpp"
#include "lowering/order/pair_transfers.hpp"
#include "lowering/order/walk.hpp"
#include "lowering/passes/merge_lines.hpp"
#include "lowering/passes/pass_walk.hpp"
#include "lowering/rows_text.hpp"
#include "ppsim/core/lowering/communicators.hpp"
#include "ppsim/core/lowering/lowering.hpp"

namespace ppsim {
namespace {

using namespace lowering;

tl::unexpected<Error> option_error(std::string why) {
  return make_error(ErrorCode::bad_argument, std::move(why));
}

/// Dense numbers of (stage, microbatch, slice).
std::size_t cell_count(const Pipeline& pipeline) {
  return as_size(pipeline.stages()) * as_size(pipeline.microbatches()) * as_size(pipeline.slices());
}
/// Requires: the action has a stage and a microbatch.
std::size_t cell_of(const Pipeline& pipeline, const Action& action) {
  const std::size_t row = action.stage().index() * as_size(pipeline.microbatches());
  return (row + action.mb().index()) * as_size(pipeline.slices()) + action.slice;
}

Expected<void> check_stage(const Pipeline& pipeline, StageId stage) {
  if (stage.value() < pipeline.stages()) return {};
  return make_error(
      ErrorCode::bad_argument, "recompute and offload name stages of the schedule",
      {.found = std::to_string(stage.value()), .expected = "below " + std::to_string(pipeline.stages())});
}

Expected<void> check_stages(const Pipeline& pipeline, const LoweringOptions& options) {
  for (const auto& [stage, choice] : options.recompute.stages()) {
    PPSIM_RETURN_IF_ERROR(check_stage(pipeline, stage));
  }
  for (const StageId stage : options.offload.stages) {
    PPSIM_RETURN_IF_ERROR(check_stage(pipeline, stage));
  }
  return {};
}

/// Whether some edge joins stages of different ranks.
bool needs_transfers(const Pipeline& pipeline) {
  const auto crosses = [&](const StageEdge& edge) {
    return pipeline.rank_of(edge.from) != pipeline.rank_of(edge.to);
  };
  return std::ranges::any_of(pipeline.spec().edges, crosses) ||
         std::ranges::any_of(pipeline.spec().side_edges, crosses);
}

Expected<void> check_options(const Pipeline& pipeline, const LoweringOptions& options) {
  if (options.early < 0) return option_error("early:N needs N >= 0, found " + std::to_string(options.early));
  if (options.receive_buffers && *options.receive_buffers < 1) {
    return option_error("receive buffers must be at least 1, found " +
                        std::to_string(*options.receive_buffers));
  }
  if (options.clip && !options.optimizer)
    return option_error("clip needs opt: it scales what an optimizer step reads");
  if (options.reduce_each_microbatch && !options.reduce_grad)
    return option_error("a sum of gradients for every microbatch needs reduce-grad");
  if (options.unshard_turns && options.order != IssueOrder::global)
    return option_error("turns for UNSHARD and RESHARD are those of order global");
  if (options.reduce_each_microbatch && options.order == IssueOrder::jaxpp)
    return option_error(
        "order jaxpp has no sum of gradients for every microbatch: JaxPP sums after its loop");
  if (options.offload.on() && options.recompute == StageRecompute(Recompute::full)) {
    return option_error("offload needs activations that are kept, and recompute full keeps none");
  }
  if (options.order == IssueOrder::jaxpp && (options.receive_buffers || options.grouping != Grouping::none))
    return option_error("order jaxpp has neither receive limits nor groups: it is what JaxPP issues");
  const bool as_written = options.order == IssueOrder::as_written || options.grouping == Grouping::as_written;
  if (as_written && needs_transfers(pipeline)) {
    return option_error(
        "as-written needs the transfers in the file: a schedule has none, a compute_comms file or a Program "
        "does");
  }
  return check_stages(pipeline, options);
}

bool is_shard(OpKind kind) { return kind == OpKind::unshard || kind == OpKind::reshard; }

/// The option that adds actions of this kind, where it is on.
const char* option_that_adds(OpKind kind, const LoweringOptions& options) {
  if (kind == OpKind::load && options.load) return "load";
  if (is_shard(kind) && options.unshard) return "unshard";
  if (kind == OpKind::reduce_grad && options.reduce_grad) return "reduce-grad";
  if (kind == OpKind::optimizer && options.optimizer) return "opt";
  if ((kind == OpKind::offload || kind == OpKind::reload) && options.offload.on()) return "offload";
  return nullptr;
}

/// Whether a lowering adds anything but transfers to a schedule.
bool adds_local_work(const LoweringOptions& options) {
  return options.load || options.unshard || options.reduce_grad || options.optimizer ||
         options.offload.on() || options.recompute.any(Recompute::full);
}

/// Actions that the schedule has are not added again, and activations that it lends are kept.
Expected<void> check_additions(const Schedule& schedule, const LoweringOptions& options) {
  if (!adds_local_work(options)) return {};
  for (const RankId rank : schedule.pipeline().rank_ids()) {
    for (const Cell& cell : schedule.row(rank)) {
      for (const Action& action : cell.actions()) {
        if (action.kind == OpKind::send_activation && options.recompute(action.stage()) == Recompute::full) {
          return option_error("the schedule lends activations, and recompute full keeps none of stage " +
                              std::to_string(action.subject));
        }
        const char* option = option_that_adds(action.kind, options);
        if (option == nullptr) continue;
        return option_error(std::string("the schedule has ") + std::string(info(action.kind).text) +
                            " already, and " + option + " would add it again");
      }
    }
  }
  return {};
}

/// A schedule, the options of its lowering and the observer of its passes.
struct Lowering {
  const Pipeline& pipeline;
  const LoweringOptions& options;
  const CostTable* costs;  ///< null where the order needs none
  const PassObserver& observer;
  bool drops_unshards = false;  ///< UNSHARD and RESHARD that take turns alone

  template <class Rows>
  void show(std::string_view pass, const Rows& rows) const {
    if (observer) observer(pass, rows_text(pipeline, rows));
  }
};

/// An action of this kind before the cell of every action for which `is_wanted`.
template <class IsWanted>
void insert_before(OpKind kind, CellRows& rows, const IsWanted& is_wanted) {
  for (const RankId rank : rows.rank_ids()) {
    std::vector<Cell> cells;
    for (const Cell& cell : rows[rank]) {
      for (const Action& a : cell.actions()) {
        if (is_wanted(a)) cells.emplace_back(make_action(kind, a.subject, a.microbatch, a.slice));
      }
      cells.push_back(cell);
    }
    rows.replace(rank, std::move(cells));
  }
}

/// LOAD directly before every F of a first stage.
void insert_loads(const Pipeline& pipeline, CellRows& rows) {
  insert_before(OpKind::load, rows, [&](const Action& a) {
    return a.kind == OpKind::forward && pipeline.producers(a.stage(), a.mb()).empty();
  });
}

/// R directly before every B and I of the stages that recompute in full, where the row does not hold it
/// already.
void insert_recompute(const Pipeline& pipeline, const StageRecompute& recompute, CellRows& rows) {
  std::vector<char> recomputed(cell_count(pipeline), 0);
  insert_before(OpKind::recompute, rows, [&](const Action& a) {
    if (a.kind == OpKind::recompute) recomputed[cell_of(pipeline, a)] = 1;
    return gives_input_gradient(a.kind) && recomputed[cell_of(pipeline, a)] == 0 &&
           recompute(a.stage()) == Recompute::full;
  });
}

/// Everything that a rank does beside its cells, transfers aside.
void insert_local_work(const Lowering& lowering, CellRows& rows) {
  const LoweringOptions& options = lowering.options;
  if (options.recompute.any(Recompute::full)) {
    insert_recompute(lowering.pipeline, options.recompute, rows);
    lowering.show("insert_recompute", rows);
  }
  if (options.load) {
    insert_loads(lowering.pipeline, rows);
    lowering.show("insert_loads", rows);
  }
  if (options.unshard || lowering.drops_unshards) {
    insert_unshards(rows);
    lowering.show("insert_unshards", rows);
  }
  if (options.reduce_grad || options.optimizer) {
    insert_updates(lowering.pipeline, options, rows);
    lowering.show("insert_updates", rows);
  }
}

/// Copies lie beside the computation as it runs without them, where costs say how.
Expected<void> insert_copies(const Lowering& lowering, CellRows& rows) {
  if (!lowering.options.offload.on()) return {};
  if (lowering.costs == nullptr) {
    insert_offload(lowering.options, nullptr, nullptr, rows);
  } else {
    order_exchanges(lowering.pipeline, rows);
    PPSIM_ASSIGN_OR_RETURN(const EarliestTimes times, walk(lowering.pipeline, rows, lowering.costs));
    rows.forget_after();
    insert_offload(lowering.options, &times, lowering.costs, rows);
  }
  lowering.show("insert_offload", rows);
  return {};
}

void put_in_order(const Lowering& lowering, LineRows& lines) {
  switch (lowering.options.order) {
    case IssueOrder::timed:
      sort_by_time(lines);
      return lowering.show("sort_by_time", lines);
    case IssueOrder::early:
      place_arrivals(lowering.pipeline, lowering.options, lines);
      return lowering.show("place_arrivals", lines);
    case IssueOrder::issue_ordered:
      order_by_issue(lines);
      return lowering.show("order_by_issue", lines);
    case IssueOrder::global:
    case IssueOrder::as_written:
    case IssueOrder::jaxpp:
      return;
  }
}

/// The costs that order a schedule where none are given; transfers take no time.
CostTable unit_costs() {
  CostTable costs;
  for (const OpKind kind : {OpKind::forward, OpKind::backward_input, OpKind::backward_weight,
                            OpKind::recompute, OpKind::offload, OpKind::reload})
    costs.set({.kind = kind}, 1);
  costs.set({.kind = OpKind::backward}, 2);
  costs.set({.kind = OpKind::overlap}, 3);
  return costs;
}

/// The pipeline with what the options for updates add to it.
Expected<Pipeline> with_updates(const Pipeline& given, const LoweringOptions& options) {
  PPSIM_ASSIGN_OR_RETURN(Pipeline pipeline, options.clip ? with_norm(given) : given);
  if (!options.reduce_each_microbatch) return pipeline;
  return reducing_each_microbatch(pipeline);
}

/// UNSHARD and RESHARD that the schedule has stay where they are.
bool drops_unshards(const Schedule& schedule, const LoweringOptions& options) {
  if (!options.unshard_turns || options.unshard) return false;
  for (const RankId rank : schedule.pipeline().rank_ids()) {
    for (const Cell& cell : schedule.row(rank))
      if (is_shard(cell.actions().front().kind)) return false;
  }
  return true;
}

void drop_unshards(LineRows& lines) {
  for (LineRow& row : lines) {
    row.name_lines();
    std::vector<Line> kept;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (!is_shard(row.action(i).kind)) kept.push_back(row.line(i));
    }
    row.replace(kept);
  }
}

/// Cells and transfers in issue order. Who observes the passes sees the walk, and what its order becomes.
Expected<LineRows> ordered_lines(const Lowering& lowering, const CellRows& rows) {
  const bool by_time = lowering.options.order == IssueOrder::timed;
  if (!lowering.observer) {
    if (const auto times = walk_passes(lowering.pipeline, rows, lowering.costs)) {
      LineRows lines = merged_lines(lowering.pipeline, rows, *times);
      if (!by_time) put_in_order(lowering, lines);
      return lines;
    }
  }
  PPSIM_ASSIGN_OR_RETURN(LineRows lines, insert_transfers(lowering.pipeline, rows, lowering.costs));
  lowering.show("insert_transfers", lines);
  if (lowering.drops_unshards) {
    drop_unshards(lines);
    lowering.show("drop_unshards", lines);
  }
  put_in_order(lowering, lines);
  return lines;
}

/// Turns cells into instructions in issue order, transfers included.
Expected<LineRows> issued(const Lowering& lowering, CellRows& rows) {
  const Pipeline& pipeline = lowering.pipeline;
  order_exchanges(pipeline, rows);
  lowering.show("order_exchanges", rows);
  if (lowering.options.order == IssueOrder::jaxpp) {
    PPSIM_ASSIGN_OR_RETURN(const EarliestTimes times, walk(pipeline, rows, lowering.costs));
    Expected<LineRows> lines = order_as_jaxpp(pipeline, rows, times);
    if (lines) lowering.show("order_as_jaxpp", *lines);
    return lines;
  }
  PPSIM_ASSIGN_OR_RETURN(LineRows lines, ordered_lines(lowering, rows));
  if (lowering.options.receive_buffers) {
    PPSIM_RETURN_IF_ERROR(limit_receives(pipeline, lowering.options, lines));
    lowering.show("limit_receives", lines);
  }
  if (lowering.options.grouping == Grouping::paired) {
    pair_transfers(pipeline, lines);
    lowering.show("pair_transfers", lines);
  }
  return lines;
}

}  // namespace

Expected<Program> lower(const Schedule& schedule, const LoweringOptions& options, const CostTable* costs,
                        const PassObserver& observer) {
  PPSIM_RETURN_IF_ERROR(check_options(schedule.pipeline(), options));
  PPSIM_RETURN_IF_ERROR(check_additions(schedule, options));
  PPSIM_ASSIGN_OR_RETURN(Pipeline pipeline, with_updates(schedule.pipeline(), options));

  const CostTable units = unit_costs();
  const CostTable* times = costs != nullptr ? costs : &units;
  const Lowering lowering{pipeline, options, options.order == IssueOrder::timed ? times : nullptr, observer,
                          drops_unshards(schedule, options)};
  CellRows rows(schedule);
  lowering.show("schedule", rows);
  insert_local_work(lowering, rows);
  PPSIM_RETURN_IF_ERROR(insert_copies(lowering, rows));
  PPSIM_ASSIGN_OR_RETURN(LineRows lines, issued(lowering, rows));
  Expected<Program> program = build_program(pipeline, options, std::move(lines));
  if (program) lowering.show("build_program", *program);
  return program;
}

Expected<Program> with_communicators(const Program& program, CommunicatorPolicy policy) {
  ProgramDraft draft = to_draft(program);
  assign_communicators(program.pipeline(), draft, policy);
  return ProgramBuilder::build(program.pipeline(), draft);
}

}  // namespace ppsim
