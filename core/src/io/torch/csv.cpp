#include "ppsim/core/io/torch_csv.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "alphabet.hpp"
#include "cells.hpp"
#include "io/csv_cells.hpp"
#include "plain_rows.hpp"
#include "ppsim/core/execution/rank_ranges.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/lowering/communicators.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "waits.hpp"

namespace ppsim {
namespace {

tl::unexpected<Error> cannot_hold(const std::string& what) {
  return make_error(ErrorCode::bad_argument, "PyTorch's CSV cannot hold " + what);
}

/// Everything that makes a pipeline more than a chain of placed stages.
Expected<void> check_plain(const Pipeline& pipeline) {
  const PipelineSpec& own = pipeline.spec();
  if (own.slices > 1) return cannot_hold(std::to_string(own.slices) + " slices of a microbatch");
  if (own.routes.size() > 1) return cannot_hold(std::to_string(own.routes.size()) + " routes");
  PPSIM_ASSIGN_OR_RETURN(const auto chain,
                         make_chain(own.ranks, own.stages, own.microbatches, own.placement.items()));
  const PipelineSpec& plain = chain.spec();
  if (own.routes != plain.routes) return cannot_hold("a route that leaves stages out");
  if (!own.side_edges.empty()) return cannot_hold("side edges");
  if (own.edges != plain.edges) return cannot_hold("edges that are not the chain 0 -> 1 -> ...");
  if (own.blocks != plain.blocks) return cannot_hold("parameter blocks that are not one per stage");
  if (own.update != plain.update || own.version != plain.version || own.lag != plain.lag)
    return cannot_hold("updates and weight versions");
  if (own.collectives != plain.collectives) return cannot_hold("named collectives");
  return {};
}

/// Whether the name of a communication occurs anywhere.
bool names_communication(std::string_view text) {
  return std::ranges::any_of(kOpTable, [&](const OpInfo& kind) {
    return is_communication(kind.kind) && text.find(kind.text) != std::string_view::npos;
  });
}

class CsvWriter {
 public:
  CsvWriter(const Pipeline& pipeline, CsvDialect dialect) : pipeline_(pipeline), dialect_(dialect) {}

  Expected<void> add_cell(std::span<const Action> actions) {
    std::string cell;
    for (const Action& action : actions) {
      PPSIM_ASSIGN_OR_RETURN(const std::string text, cell_text(action));
      cell += (cell.empty() ? "" : ";") + text;
    }
    if (actions.size() == 2) cell = "(" + cell + ")" + std::string(info(OpKind::overlap).text);
    cells_.push_back(std::move(cell));
    return {};
  }

  /// The cell that waits for an action.
  Expected<void> add_wait(const Action& action) {
    PPSIM_ASSIGN_OR_RETURN(std::string text, cell_text(action));
    text.insert(std::to_string(action.subject).size(), "WAIT_");
    cells_.push_back(std::move(text));
    return {};
  }

  [[nodiscard]] bool writes_waits() const { return dialect_ == CsvDialect::torch_2_15; }

  void end_row() {
    text_ += csv_line(cells_);
    cells_.clear();
  }

  /// The text, provided that a reader infers the same pipeline from it.
  Expected<std::string> finish(const Alphabet& alphabet) const {
    const auto inferred = TorchCells::read(text_, "", alphabet).and_then([](const TorchCells& cells) {
      return cells.infer_pipeline();
    });
    if (!inferred)
      return cannot_hold("a pipeline that does not follow from its cells: " + inferred.error().message);
    if (*inferred != pipeline_) return cannot_hold("stages, microbatches or ranks without action");
    return text_;
  }

 private:
  Expected<std::string> cell_text(const Action& action) const {
    const std::string native = action_text(pipeline_, action);
    const std::optional<std::string_view> kind = torch_text(action.kind, dialect_);
    if (!kind) return cannot_hold(native + " in this dialect");
    if (is_transfer(action.kind) && native.find_first_of("<>") != std::string::npos) {
      return cannot_hold(native + ", whose other end is no neighbour");
    }
    if (action.kind == OpKind::reduce_grad && action.update() > 0) return cannot_hold(native);
    std::string text = std::to_string(action.subject) + std::string(*kind);
    if (info(action.kind).microbatch == MicrobatchUse::required) text += std::to_string(action.microbatch);
    return text;
  }

  const Pipeline& pipeline_;
  CsvDialect dialect_;
  std::vector<std::string> cells_;
  std::string text_;
};

/// The same error, about a file; a rule broken by arguments is one broken by the file that they come from.
tl::unexpected<Error> in_file(Error error, const std::string& file) {
  if (error.code == ErrorCode::bad_argument) error.code = ErrorCode::bad_file;
  if (error.place.file.empty()) error.place.file = file;
  return tl::unexpected(std::move(error));
}

std::string schedule_name(const std::string& file) {
  const std::string name = file.substr(file.find_last_of('/') + 1);
  return name.substr(0, name.rfind('.'));
}

Expected<InstructionDraft> draft_of(const Pipeline& pipeline, const TorchCells& cells,
                                    const TorchCell& cell) {
  if (cell.empty > 0) {
    return cells.at(cell, {ErrorCode::bad_file,
                           "an empty cell",
                           {.expected = "an action; only compute_only files have idle cells"}});
  }
  PPSIM_ASSIGN_OR_RETURN(const CellActions actions, cells.resolve(pipeline, cell));
  InstructionDraft draft;
  draft.form = actions.count == 2 ? InstructionForm::overlap : InstructionForm::single;
  draft.actions.assign(actions.items.begin(), actions.items.begin() + actions.count);
  return draft;
}

/// A row of a `compute_comms` file: its instructions, and where it waits for which of them.
class CommunicationRow {
 public:
  CommunicationRow(const Pipeline& pipeline, const TorchCells& cells) : pipeline_(pipeline), cells_(cells) {}

  Expected<void> add(const TorchCell& cell) {
    PPSIM_ASSIGN_OR_RETURN(auto instruction, draft_of(pipeline_, cells_, cell));
    if (cell.waits) return add_wait(instruction.actions[0], cell);
    const auto position = static_cast<int>(instructions_.size());
    if (instruction.form == InstructionForm::single) started_[instruction.actions[0]] = position;
    instructions_.push_back(std::move(instruction));
    return {};
  }

  [[nodiscard]] std::vector<InstructionDraft>& instructions() { return instructions_; }
  [[nodiscard]] const std::vector<TorchWait>& waits() const { return waits_; }

 private:
  /// PyTorch refuses such waits too: one needs what it waits for before it, and each is waited for once.
  Expected<void> add_wait(const Action& action, const TorchCell& cell) {
    const auto found = started_.find(action);
    if (found == started_.end()) {
      return cells_.at(
          cell, text_error("a wait for nothing", cell.text,
                           action_text(pipeline_, action) + " before it in its row, and no other wait for it")
                    .value());
    }
    waits_.push_back({found->second, static_cast<int>(instructions_.size())});
    started_.erase(found);
    return {};
  }

  const Pipeline& pipeline_;
  const TorchCells& cells_;
  std::vector<InstructionDraft> instructions_;
  std::vector<TorchWait> waits_;
  std::map<Action, int> started_;
};

Expected<ProgramDraft> draft_of(const Pipeline& pipeline, const TorchCells& cells,
                                CommunicatorPolicy policy) {
  ProgramDraft draft;
  std::vector<std::vector<TorchWait>> waits;
  for (const std::vector<TorchCell>& cells_of_row : cells.rows()) {
    CommunicationRow row(pipeline, cells);
    for (const TorchCell& cell : cells_of_row) {
      PPSIM_RETURN_IF_ERROR(row.add(cell));
    }
    draft.rows.push_back(std::move(row.instructions()));
    waits.push_back(row.waits());
  }
  assign_communicators(pipeline, draft, policy);
  for (std::size_t r = 0; r < waits.size(); ++r)
    add_waits(draft.rows[RankId(static_cast<std::int32_t>(r))], waits[r]);
  return draft;
}

Expected<void> add_row(ScheduleBuilder& builder, const Pipeline& pipeline, const TorchCells& cells,
                       RankId rank) {
  for (const TorchCell& cell : cells.rows()[rank.index()]) {
    for (int i = 0; i < cell.empty; ++i) builder.add(rank, Cell());
    if (cell.empty > 0) continue;
    PPSIM_ASSIGN_OR_RETURN(const CellActions actions, cells.resolve(pipeline, cell));
    Cell added;
    if (actions.count == 1) added = Cell(actions.items[0]);
    if (actions.count == 2) added = Cell(actions.items[0], actions.items[1]);
    builder.add(rank, added);
  }
  return {};
}

Expected<void> add_cells(ScheduleBuilder& builder, const Pipeline& pipeline, const TorchCells& cells) {
  const std::vector<RankRange> ranges = rank_ranges(pipeline.ranks(), cells.size());
  // Of several errors that of the first row counts.
  const auto added = all_at_once(ranges.size(), [&](std::size_t i) -> Expected<void> {
    for (RankId rank = ranges[i].first; rank < ranges[i].last; rank = next(rank))
      PPSIM_RETURN_IF_ERROR(add_row(builder, pipeline, cells, rank));
    return {};
  });
  for (const Expected<void>& part : added) PPSIM_RETURN_IF_ERROR(part);
  return {};
}

/// Errors: bad_argument for `after` that waits at these places do not say.
Expected<void> check_waits(std::vector<InstructionDraft> row, std::span<const TorchWait> waits) {
  const std::vector<InstructionDraft> asked = row;
  for (InstructionDraft& item : row) item.after.clear();
  add_waits(row, waits);
  if (row == asked) return {};
  return cannot_hold("`after` other than that of waits for sends and reductions");
}

/// Errors: bad_argument for what a cell cannot say.
Expected<void> check_cell(const Program& program, InstructionId id, bool writes_waits) {
  const Instruction instruction = program.instruction(id);
  const std::string where =
      " (rank " + std::to_string(program.rank_of(id).value()) + ": " + actions_text(program, id) + ")";
  if (instruction.form == InstructionForm::group) return cannot_hold("groups" + where);
  if (!writes_waits && !program.after(id).empty()) return cannot_hold("`after`" + where);
  if (instruction.blocking) return cannot_hold("blocking instructions" + where);
  return {};
}

Expected<void> add_row(CsvWriter& writer, const Program& program, const ProgramDraft& draft, RankId rank) {
  const std::vector<InstructionDraft>& row = draft.rows[rank];
  std::vector<TorchWait> waits;
  if (writer.writes_waits()) waits = plan_waits(row);
  if (writer.writes_waits() && has_after(row)) {
    PPSIM_RETURN_IF_ERROR(check_waits(row, waits));
  }
  auto wait = waits.begin();
  for (int i = 0; i <= static_cast<int>(row.size()); ++i) {
    for (; wait != waits.end() && wait->before == i; ++wait) {
      const Action& action = row[static_cast<std::size_t>(wait->what)].actions[0];
      PPSIM_RETURN_IF_ERROR(writer.add_wait(action));
    }
    if (i == static_cast<int>(row.size())) break;
    const InstructionId id(program.first(rank).value() + i);
    PPSIM_RETURN_IF_ERROR(check_cell(program, id, writer.writes_waits()));
    PPSIM_RETURN_IF_ERROR(writer.add_cell(program.actions(id)));
  }
  return {};
}

}  // namespace

Expected<CsvDialect> dialect_from_name(std::string_view name) {
  constexpr std::array<std::string_view, 4> kNames = {"torch", "legacy", "zero-bubble", "torch-2.15"};
  static_assert(kNames.size() == static_cast<std::size_t>(CsvDialect::torch_2_15) + 1);
  return enumerator_named<CsvDialect>("dialect", kNames, name);
}

Expected<Schedule> schedule_from_csv(std::string_view text, const std::string& file, CsvDialect dialect) {
  const Alphabet alphabet = compute_alphabet(dialect);
  const auto built = [&](ScheduleBuilder builder) -> Expected<Schedule> {
    auto schedule = std::move(builder).build();
    if (!schedule) return in_file(schedule.error(), file);
    return schedule;
  };
  if (auto plain = plain_rows(text, alphabet))
    return built({schedule_name(file), std::move(plain->pipeline), std::move(plain->rows)});
  PPSIM_ASSIGN_OR_RETURN(const auto cells, TorchCells::read(text, file, alphabet));
  PPSIM_ASSIGN_OR_RETURN(const auto pipeline, cells.infer_pipeline());
  ScheduleBuilder builder(schedule_name(file), pipeline);
  PPSIM_RETURN_IF_ERROR(add_cells(builder, pipeline, cells));
  return built(std::move(builder));
}

Expected<Program> program_from_csv(std::string_view text, const std::string& file, CsvDialect dialect,
                                   CommunicatorPolicy policy) {
  PPSIM_ASSIGN_OR_RETURN(const auto cells, TorchCells::read(text, file, communication_alphabet(dialect)));
  PPSIM_ASSIGN_OR_RETURN(const auto pipeline, cells.infer_pipeline());
  PPSIM_ASSIGN_OR_RETURN(const auto draft, draft_of(pipeline, cells, policy));
  auto program = ProgramBuilder::build(pipeline, draft);
  if (!program) return in_file(program.error(), file);
  return program;
}

bool csv_has_communication(std::string_view text) {
  // Most files are one or the other, and of a large one it is a while until the last cell is known.
  if (!names_communication(text)) return false;
  const std::string no_file;
  CsvReader reader(text, no_file);
  while (reader.next_row()) {
    for (;;) {
      const auto cell = reader.next_cell();
      if (!cell) return false;
      if (!*cell) break;
      if ((*cell)->empty()) continue;
      const auto action = scan_action(stripped(**cell));
      if (action && is_communication(action->kind)) return true;
    }
  }
  return false;
}

Expected<std::string> to_csv(const Schedule& schedule, CsvDialect dialect) {
  PPSIM_RETURN_IF_ERROR(check_plain(schedule.pipeline()));
  CsvWriter writer(schedule.pipeline(), dialect);
  for (const RankId rank : schedule.pipeline().rank_ids()) {
    for (const Cell& cell : schedule.row(rank)) {
      PPSIM_RETURN_IF_ERROR(writer.add_cell(cell.actions()));
    }
    writer.end_row();
  }
  return writer.finish(compute_alphabet(dialect));
}

Expected<std::string> to_csv(const Program& program, CsvDialect dialect) {
  PPSIM_RETURN_IF_ERROR(check_plain(program.pipeline()));
  if (program.send_done_delay() > 0) {
    return make_error(ErrorCode::bad_argument, "PyTorch's CSV cannot say how long what is sent stays",
                      {.found = "a send-done delay", .expected = "0, or a .json file"});
  }
  CsvWriter writer(program.pipeline(), dialect);
  const ProgramDraft draft = to_draft(program);
  for (const RankId rank : program.pipeline().rank_ids()) {
    PPSIM_RETURN_IF_ERROR(add_row(writer, program, draft, rank));
    writer.end_row();
  }
  return writer.finish(communication_alphabet(dialect));
}

}  // namespace ppsim
