#include "ppsim/planner/ir_source.hpp"

#include <algorithm>
#include <filesystem>

#include "misread.hpp"
#include "ppsim/core/io/jaxpp_tasks.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/planner/targets.hpp"

namespace ppsim::planner {
namespace {

template <class T>
Expected<Ir> as_ir(Expected<T> value) {
  if (!value) return tl::unexpected(std::move(value).error());
  return Ir(*std::move(value));
}

/// Slices where none are given.
Expected<int> usual_slices(const ScheduleInfo& info, const ScheduleParameters& asked,
                           const std::optional<CostSource>& source) {
  const auto* units = source ? std::get_if<UnitSource>(&*source) : nullptr;
  if (!info.has_slices || units == nullptr || !units->tokens) return 1;
  return slice_lengths(*units->tokens, {asked.ranks, asked.microbatches, {}})
      .map([](const std::vector<int>& lengths) { return static_cast<int>(lengths.size()); });
}

/// A parameter that no schedule has, or not this one.
Expected<void> check_known(const ScheduleInfo& info, const ScheduleParameters& asked) {
  std::vector<std::string_view> known = {"ranks", "microbatches", "chunks", "slices"};
  append_all(known, names_in(info.settings));
  for (const auto& [name, value] : asked.settings) {
    if (std::ranges::find(known, name) != known.end()) continue;
    return make_error(ErrorCode::bad_argument,
                      std::string(info.name) + ": no parameter \"" + name + "\"" + suggestion(name, known),
                      {.found = name + "=" + value, .expected = joined(known)});
  }
  return {};
}

}  // namespace

bool is_native_json(std::string_view text, const std::string& file) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool bracket = first != std::string_view::npos && (text[first] == '{' || text[first] == '[');
  return bracket || suffix_of(file) == ".json";
}

bool names_schedule(const std::string& argument) {
  const std::string name = argument.substr(0, argument.find(':'));
  return std::ranges::any_of(registered_schedules(),
                             [&](const ScheduleInfo& info) { return info.name == name; });
}

bool names_file(const std::string& argument) {
  const std::string suffix = suffix_of(argument);
  if (argument == "-" || argument.find('/') != std::string::npos || suffix == ".json" || suffix == ".csv")
    return true;
  std::error_code ignored;
  return !names_schedule(argument) && std::filesystem::exists(argument, ignored) &&
         !std::filesystem::is_directory(argument, ignored);
}

Expected<Ir> ir_from_text(std::string_view text, const std::string& file, const ReadOptions& options) {
  if (is_python_list(text)) return tl::unexpected(python_list_error(file));
  if (is_jaxpp_tasks(text)) return as_ir(schedule_from_jaxpp_tasks(text, file));
  if (is_native_json(text, file)) return ir_from_json(text, file);
  if (options.target != nullptr) {
    PPSIM_RETURN_IF_ERROR(check_text_loads(*options.target, text, file, options.dialect));
  }
  auto ir = csv_has_communication(text)
                ? as_ir(program_from_csv(text, file, options.dialect, options.communicators))
                : as_ir(schedule_from_csv(text, file, options.dialect));
  return looked_at(std::move(ir), text, file, options.dialect);
}

Error needs_counts(const std::string& name, const ScheduleParameters& asked) {
  return {ErrorCode::bad_argument,
          name + " needs ranks and microbatches of 1 or more",
          {.found = std::to_string(asked.ranks) + " ranks, " + std::to_string(asked.microbatches) +
                    " microbatches",
           .expected = name + ":ranks=P,microbatches=M, or where the command has them --ranks P "
                              "--microbatches M or a --model with its parallelism"}};
}

Expected<Ir> ir_from_name(const std::string& name, const ScheduleParameters& parameters,
                          const std::optional<CostSource>& source) {
  PPSIM_ASSIGN_OR_RETURN(const auto named, parse_named_schedule(name, parameters));
  ScheduleParameters asked = named.parameters;
  const bool complete = asked.ranks != 0 && asked.microbatches != 0;
  const auto info = find_schedule(named.name);
  // A misspelt setting is reported before a missing one.
  if (info) {
    PPSIM_RETURN_IF_ERROR(check_known(**info, asked));
  }
  if (info && !complete) return tl::unexpected(needs_counts(named.name, asked));
  if (info && asked.slices == kUsualSlices) {
    PPSIM_ASSIGN_OR_RETURN(const auto slices, usual_slices(**info, asked, source));
    asked.slices = slices;
  }
  auto schedule = generate(named.name, asked);
  if (!schedule || !source || !(*info)->uses_costs) return as_ir(std::move(schedule));
  // Costs are bound to a pipeline, which the schedule made for unit costs has already.
  PPSIM_ASSIGN_OR_RETURN(const auto costs, bind_cost_source(*source, schedule->pipeline()));
  asked.costs = costs.tables.costs;
  return as_ir(generate(named.name, asked));
}

Expected<std::string> ir_text(const Ir& ir, const std::string& path, CsvDialect dialect) {
  if (suffix_of(path) == ".csv")
    return std::visit([&](const auto& value) { return to_csv(value, dialect); }, ir);
  return std::visit([](const auto& value) { return to_json(value); }, ir);
}

Expected<Schedule> compute_only(const Program& program) {
  ScheduleBuilder builder("compute_only", program.pipeline());
  for (const InstructionId id : program.ids()) {
    const auto actions = program.actions(id);
    if (names_peer_stage(actions.front().kind) || program.instruction(id).form == InstructionForm::group)
      continue;
    builder.add(program.rank_of(id), actions.size() == 2 ? Cell(actions[0], actions[1]) : Cell(actions[0]));
  }
  return std::move(builder).build();
}

const Pipeline& pipeline_of(const Ir& ir) {
  return std::visit([](const auto& value) -> const Pipeline& { return value.pipeline(); }, ir);
}

std::string name_of(const Ir& ir) {
  const auto* schedule = std::get_if<Schedule>(&ir);
  return schedule != nullptr ? schedule->name() : "program";
}

Expected<Program> to_program(const Ir& ir, const LoweringOptions& options, const CostTable* costs,
                             const PassObserver& observer) {
  if (const auto* program = std::get_if<Program>(&ir)) return *program;
  return lower(std::get<Schedule>(ir), options, costs, observer);
}

}  // namespace ppsim::planner
