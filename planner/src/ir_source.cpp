#include "ppsim/planner/ir_source.hpp"

#include <filesystem>

#include "ppsim/core/json.hpp"
#include "ppsim/planner/files.hpp"

namespace ppsim {
namespace {

template <class T>
Expected<Ir> as_ir(Expected<T> value) {
  if (!value) return tl::unexpected(std::move(value).error());
  return Ir(*std::move(value));
}

bool looks_like_json(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

bool is_file(const std::string& argument) {
  std::error_code ignored;
  return argument == "-" || std::filesystem::exists(argument, ignored);
}

/// A word with a path separator or a file suffix was meant as a file.
bool meant_as_file(const std::string& argument) {
  return argument.find('/') != std::string::npos || argument.ends_with(".json") || argument.ends_with(".csv");
}

}  // namespace

Expected<Ir> ir_from_text(std::string_view text, const std::string& file, const ReadOptions& options) {
  if (looks_like_json(text)) return ir_from_json(text, file);
  if (csv_has_communication(text))
    return as_ir(program_from_csv(text, file, options.dialect, options.communicators));
  return as_ir(schedule_from_csv(text, file, options.dialect));
}

Expected<Ir> ir_from_argument(const std::string& argument, const ScheduleParameters& parameters,
                              const ReadOptions& options) {
  if (is_file(argument) || meant_as_file(argument)) {
    const auto text = read_text_file(argument);
    if (!text) return tl::unexpected(text.error());
    return ir_from_text(*text, argument, options);
  }
  const auto named = parse_named_schedule(argument, parameters);
  if (!named) return tl::unexpected(named.error());
  return as_ir(generate(named->name, named->parameters));
}

Expected<std::string> ir_text(const Ir& ir, const std::string& path, CsvDialect dialect) {
  if (path.ends_with(".csv"))
    return std::visit([&](const auto& value) { return to_csv(value, dialect); }, ir);
  return std::visit([](const auto& value) { return to_json(value); }, ir);
}

Expected<Schedule> compute_only(const Program& program) {
  ScheduleBuilder builder("compute_only", program.pipeline());
  for (std::size_t i = 0; i < program.size(); ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    const auto actions = program.actions(id);
    const OpKind kind = actions.front().kind;
    const bool between_stages =
        is_transfer(kind) && kind != OpKind::send_activation && kind != OpKind::recv_activation;
    if (between_stages || program.instruction(id).form == InstructionForm::group) continue;
    builder.add(program.rank_of(id), actions.size() == 2 ? Step(actions[0], actions[1]) : Step(actions[0]));
  }
  return builder.build();
}

const Pipeline& pipeline_of(const Ir& ir) {
  return std::visit([](const auto& value) -> const Pipeline& { return value.pipeline(); }, ir);
}

std::string name_of(const Ir& ir) {
  const auto* schedule = std::get_if<Schedule>(&ir);
  return schedule != nullptr ? schedule->name() : "program";
}

Expected<Program> to_program(const Ir& ir, LoweringOptions options, const CostTable* costs) {
  if (const auto* program = std::get_if<Program>(&ir)) return *program;
  return lower(std::get<Schedule>(ir), options, costs);
}

}  // namespace ppsim
