#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ppsim/core/io/json.hpp"
#include "ppsim/core/ir/pipeline.hpp"
#include "ppsim/planner/costs/token_costs.hpp"
#include "ppsim/workload/analytic.hpp"

namespace ppsim::planner {

/// Costs in abstract units: `F=1,B=2,I=1,W=1,R=1,FB=3,c=0,A=1`.
struct UnitSource {
  UnitCosts costs;
  Bytes activation = 0;              ///< A: saved activations of one stage
  std::optional<TokenCosts> tokens;  ///< the times are those of slices of so many tokens; A is a sequence's
};

/// A cost model from outside: its tables for a pipeline.
using CostModel = std::function<Expected<Tables>(const Pipeline&)>;

/// The source of costs and sizes: units, a table, a model on a cluster, or a cost model from outside.
using CostSource = std::variant<UnitSource, Tables, Workload, CostModel>;

/// Errors: bad_argument for an unknown or repeated key, a value that is no number >= 0 or too large.
/// B defaults to I + W, I and W to halves of B, or to B less the other; without any of them I = W = 1. FB
/// defaults to F + B.
[[nodiscard]] Expected<UnitSource> parse_unit_costs(std::string_view text);

/// "80GB" is 80e9, "80GiB" 80 * 2^30, a bare number bytes; decimals are rounded down.
/// Errors: bad_argument.
[[nodiscard]] Expected<Bytes> parse_size(std::string_view text);

/// Notes on a model's costs that a reader of a result needs. One line each.
struct CostNotes {
  std::string workload;          ///< the request: model, sequence, parallelism, cluster, stack
  std::string not_modelled;      ///< effects that the costs leave out
  std::string known_error;       ///< of simulations of the nearest measured runs
  std::string calibration = {};  ///< its hash; empty: there is none
};

/// Costs and sizes of one pipeline, with the additions of a model.
struct CostBinding {
  Tables tables;
  bool has_sizes = false;
  std::optional<CostNotes> notes;
  std::optional<PipelineLayout> layout;  ///< of the model on the first route
  StageRecompute recompute;              ///< that costs and sizes are for
  std::optional<Bytes> memory_limit;     ///< of one GPU
  IdVector<RankId, StepEnd> ends;        ///< behind the pipeline; empty: the step ends with it
  std::optional<double> tokens_per_step;
  std::optional<double> model_flops_per_step;
  std::optional<double> peak_flops;
  std::vector<int> slice_lengths;  ///< tokens of each slice, where there are costs of tokens
};

/// Errors: bad_argument when the pipeline is not for the workload's batch; those of analytic_costs,
/// slice_lengths and the cost model.
[[nodiscard]] Expected<CostBinding> bind_cost_source(const CostSource& source, const Pipeline& pipeline);
/// Binds several sources, each over those before it. Anything beyond costs and sizes comes from the last
/// source that has it.
/// Errors: bad_argument where there is none; those of bind_cost_source.
[[nodiscard]] Expected<CostBinding> bind_cost_sources(std::span<const CostSource> sources,
                                                      const Pipeline& pipeline);

/// The costs and sizes of `over`, and those of `base` that `over` does not have: an entry of `over` for a
/// whole kind replaces one of `base` for a stage of it.
[[nodiscard]] Tables overlaid(const Tables& base, const Tables& over);

/// Every cost times `factor`, rounded to nanoseconds.
/// Errors: bad_argument for a factor that is not above 0, and for costs above 10^18 ns.
[[nodiscard]] Expected<CostTable> scaled_costs(const CostTable& costs, double factor);

}  // namespace ppsim::planner

namespace ppsim {
using planner::bind_cost_source;
using planner::bind_cost_sources;
using planner::CostBinding;
using planner::CostModel;
using planner::CostNotes;
using planner::CostSource;
using planner::overlaid;
using planner::parse_size;
using planner::parse_unit_costs;
using planner::scaled_costs;
using planner::UnitSource;
}  // namespace ppsim
