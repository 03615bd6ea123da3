#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "ppsim/core/io/torch_csv.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/planner/costs/costs.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim::planner {

/// Either level of the IR.
using Ir = std::variant<Schedule, Program>;

struct Target;

/// The options of reading a file.
struct ReadOptions {
  CsvDialect dialect = CsvDialect::torch;
  CommunicatorPolicy communicators = CommunicatorPolicy::per_edge;  ///< of a compute_comms CSV
  const Target* target = nullptr;  ///< where there is one, a CSV that it would not load is refused
};

/// True of a text that is meant as native JSON: by its first character, or by the name of its file.
[[nodiscard]] bool is_native_json(std::string_view text, const std::string& file);

/// A native JSON file, or a PyTorch CSV of either flavour, told apart by is_native_json.
/// Errors: bad_file with the place, and with what a file looks like that is none (an old alphabet, a list as
/// Python prints it, a file that was cut off); ill_formed for a CSV whose rows are no schedule; those of
/// check_text_loads.
[[nodiscard]] Expected<Ir> ir_from_text(std::string_view text, const std::string& file,
                                        const ReadOptions& options);

/// True of an argument that is `name` or `name:key=value,...` of a schedule that there is.
[[nodiscard]] bool names_schedule(const std::string& argument);

/// True of an argument that names a file and not a schedule: `-`, what looks like a path, and an existing
/// file that is not called like a schedule.
[[nodiscard]] bool names_file(const std::string& argument);

/// ScheduleParameters::slices where none are given: as many as suit the costs of tokens, or one.
inline constexpr int kUsualSlices = std::numeric_limits<int>::min();

/// The error of a schedule that is asked for without ranks or microbatches.
[[nodiscard]] Error needs_counts(const std::string& name, const ScheduleParameters& asked);

/// The schedule `name` or `name:key=value,...` with `parameters`, of which 0 ranks or microbatches stand for
/// none given. An order that follows costs follows those of `source`, bound to the schedule's own pipeline.
/// Errors: bad_argument naming the schedules there are, or what is missing; those of generate,
/// bind_cost_source and slice_lengths.
[[nodiscard]] Expected<Ir> ir_from_name(const std::string& name, const ScheduleParameters& parameters,
                                        const std::optional<CostSource>& source = {});

[[nodiscard]] const Pipeline& pipeline_of(const Ir& ir);
/// The schedule's name, or "program".
[[nodiscard]] std::string name_of(const Ir& ir);

/// The text of a file: PyTorch CSV for a path that ends in `.csv`, else native JSON.
/// Errors: those of to_csv.
[[nodiscard]] Expected<std::string> ir_text(const Ir& ir, const std::string& path, CsvDialect dialect);

/// The Schedule that a Program computes: its rows without transfers between stages and without groups.
/// Errors: ill_formed when the rest is no Schedule.
[[nodiscard]] Expected<Schedule> compute_only(const Program& program);

/// A Program as it is; a Schedule lowered. `observer` may be empty.
/// Errors: those of lower.
[[nodiscard]] Expected<Program> to_program(const Ir& ir, const LoweringOptions& options,
                                           const CostTable* costs, const PassObserver& observer = nullptr);

}  // namespace ppsim::planner

namespace ppsim {
using planner::compute_only;
using planner::Ir;
using planner::ir_from_name;
using planner::ir_from_text;
using planner::ir_text;
using planner::is_native_json;
using planner::kUsualSlices;
using planner::name_of;
using planner::names_file;
using planner::names_schedule;
using planner::needs_counts;
using planner::pipeline_of;
using planner::ReadOptions;
using planner::to_program;
}  // namespace ppsim
