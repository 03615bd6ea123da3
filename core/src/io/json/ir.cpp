#include <nlohmann/json.hpp>
#include <optional>

#include "file.hpp"
#include "io/action_scan.hpp"
#include "ir/program_writer.hpp"
#include "layout.hpp"
#include "pipeline.hpp"
#include "ppsim/core/execution/rank_ranges.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/core/io/text.hpp"
#include "row_texts.hpp"

namespace ppsim {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kScheduleFormat = "ppsim-schedule";
constexpr const char* kProgramFormat = "ppsim-program";

/// The texts under `key`. Requires: the file follows its schema.
RowTexts texts_under(const JsonFile& file, const std::string& key) {
  RowTexts rows;
  for (const json& row : file.root().at(key)) {
    rows.emplace_back();
    for (const json& item : row) rows.back().emplace_back(item.get_ref<const std::string&>());
  }
  return rows;
}

/// A file, its rows, and the key under which they are.
struct RowFile {
  const JsonFile& file;
  std::string key;
  const RowTexts* lifted;  ///< null: the rows are in the file
};

template <class ReadItem>
Expected<void> read_row(const RowFile& from, RankId rank, const std::vector<std::string_view>& texts,
                        const ReadItem& read_item) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Expected<void> item = read_item(rank, texts[i]);
    if (!item)
      return from.file.error_at({from.key, std::to_string(rank.value()), std::to_string(i)}, item.error());
  }
  return {};
}

/// Calls `read_item(rank, text)` for every text of the rows, which must be one per rank: those of a rank one
/// after another, those of several at the same time.
template <class ReadItem>
Expected<void> read_rows(const RowFile& from, int ranks, const ReadItem& read_item) {
  const RowTexts own = from.lifted == nullptr ? texts_under(from.file, from.key) : RowTexts();
  const RowTexts& rows = from.lifted == nullptr ? own : *from.lifted;
  if (rows.size() != static_cast<std::size_t>(ranks)) {
    return from.file.error_at({from.key}, "another number of rows than ranks",
                              std::to_string(rows.size()) + " rows", std::to_string(ranks));
  }
  std::size_t texts = 0;
  for (const auto& row : rows) texts += row.size();
  const std::vector<RankRange> ranges = rank_ranges(ranks, texts);
  const auto read = all_at_once(ranges.size(), [&](std::size_t i) -> Expected<void> {
    for (RankId rank = ranges[i].first; rank < ranges[i].last; rank = next(rank))
      PPSIM_RETURN_IF_ERROR(read_row(from, rank, rows[rank.index()], read_item));
    return {};
  });
  // Of several errors that of the first row counts.
  for (const Expected<void>& part : read) PPSIM_RETURN_IF_ERROR(part);
  return {};
}

Expected<Schedule> read_schedule(const RowFile& from) {
  const JsonFile& file = from.file;
  PPSIM_RETURN_IF_ERROR(file.validate("schedule"));
  PPSIM_ASSIGN_OR_RETURN(const auto pipeline, read_pipeline(file));
  IdVector<RankId, std::vector<Cell>> rows(static_cast<std::size_t>(pipeline.ranks()));
  // Whose memory who starts the threads asks for, as others go on with it.
  if (from.lifted != nullptr && from.lifted->size() == rows.size()) {
    for (const RankId rank : rows.ids()) rows[rank].reserve((*from.lifted)[rank.index()].size());
  }
  PPSIM_RETURN_IF_ERROR(read_rows(from, pipeline.ranks(), [&](RankId rank, std::string_view text) {
    return parse_cell(pipeline, text).map([&](const Cell& cell) { rows[rank].push_back(cell); });
  }));
  auto schedule = ScheduleBuilder(file.root().value("name", ""), pipeline, std::move(rows)).build();
  if (!schedule) return file.error_at({"rows"}, schedule.error());
  return schedule;
}

std::vector<Communicator> read_communicators(const json& array) {
  std::vector<Communicator> communicators;
  for (const json& item : array) {
    communicators.push_back(
        {item.at("name").get<std::string>(), read_ids<RankId>(item.at("members")), item.value("queue", -1)});
  }
  return communicators;
}

/// 0 where a file does not say it.
Expected<int> read_send_done_delay(const JsonFile& file) {
  const auto found = file.root().find("send_done_delay");
  if (found == file.root().end()) return 0;
  if (!found->is_string()) return found->get<int>();
  if (*found == "end") return kUntilStepEnd;
  return file.error_at({"send_done_delay"}, "no such send-done delay", found->dump(),
                       "a number of sends or \"end\"");
}

/// A Program whose instructions are all plain, as those of any size are; nothing where it is another, or
/// where anything is wrong.
std::optional<Program> plain_program(const RowFile& from, const Pipeline& pipeline,
                                     std::vector<Communicator> communicators, int send_done_delay) {
  if (from.lifted == nullptr || from.lifted->size() != static_cast<std::size_t>(pipeline.ranks()))
    return std::nullopt;
  struct Row {
    std::vector<Action> actions;
    std::vector<CommunicatorId> communicators;
  };
  IdVector<RankId, Row> rows(from.lifted->size());
  IdVector<RankId, RowSize> sizes;
  for (const RankId rank : rows.ids()) {
    const std::size_t size = (*from.lifted)[rank.index()].size();
    sizes.push_back({size, size, true});
    rows[rank].actions.reserve(size);
    rows[rank].communicators.reserve(size);
  }
  const auto read =
      read_rows(from, pipeline.ranks(), [&](RankId rank, std::string_view text) -> Expected<void> {
        const std::optional<PlainInstruction> item = plain_instruction(pipeline, text);
        if (!item) return text_error("not a plain instruction", text, "");
        rows[rank].actions.push_back(item->action);
        rows[rank].communicators.push_back(item->communicator);
        return {};
      });
  if (!read) return std::nullopt;
  ProgramWriter writer(pipeline, std::move(communicators), sizes);
  writer.set_send_done_delay(send_done_delay);
  ProgramWriter::Part part = writer.part();
  for (const RankId rank : rows.ids()) {
    part.begin_row(rank);
    part.append(rows[rank].actions, rows[rank].communicators);
  }
  auto program = writer.finish({std::move(part)});
  return program ? std::optional(*std::move(program)) : std::nullopt;
}

Expected<Program> read_program(const RowFile& from) {
  const JsonFile& file = from.file;
  PPSIM_RETURN_IF_ERROR(file.validate("program"));
  PPSIM_ASSIGN_OR_RETURN(const auto pipeline, read_pipeline(file));
  ProgramDraft draft;
  draft.communicators = read_communicators(file.root().at("communicators"));
  PPSIM_ASSIGN_OR_RETURN(const auto delay, read_send_done_delay(file));
  draft.send_done_delay = delay;
  if (auto program = plain_program(from, pipeline, draft.communicators, delay)) return *std::move(program);
  draft.rows = IdVector<RankId, std::vector<InstructionDraft>>(static_cast<std::size_t>(pipeline.ranks()));
  PPSIM_RETURN_IF_ERROR(read_rows(from, pipeline.ranks(), [&](RankId rank, std::string_view text) {
    return parse_instruction(pipeline, text).map([&](InstructionDraft item) {
      draft.rows[rank].push_back(std::move(item));
    });
  }));
  auto program = ProgramBuilder::build(pipeline, draft);
  if (!program) return file.error_at({"ranks"}, program.error());
  return program;
}

using Either = std::variant<Schedule, Program>;

Expected<Either> read_ir(const JsonFile& file, const RowTexts* lifted) {
  PPSIM_ASSIGN_OR_RETURN(const auto format, file.format({kScheduleFormat, kProgramFormat}));
  if (format == kScheduleFormat) {
    return read_schedule({file, "rows", lifted}).map([](Schedule schedule) {
      return Either(std::move(schedule));
    });
  }
  return read_program({file, "ranks", lifted}).map([](Program program) {
    return Either(std::move(program));
  });
}

/// Nothing where anything is not as it should be.
std::optional<Either> read_lifted(const LiftedRows& lifted, const std::string& file) {
  const auto parsed = JsonFile::parse(lifted.rest, file);
  if (!parsed) return std::nullopt;
  const auto found = parsed->root().find(lifted.key);  // of an object; else none
  const bool is_root = found != parsed->root().end() && found->is_array() &&
                       found->size() == lifted.rows.size() && parsed->root().is_object();
  const auto format = parsed->format({kScheduleFormat, kProgramFormat});
  if (!is_root || !format || (*format == kScheduleFormat) != (lifted.key == "rows")) return std::nullopt;
  auto ir = read_ir(*parsed, &lifted.rows);
  return ir ? std::optional(*std::move(ir)) : std::nullopt;
}

}  // namespace

std::string to_json(const Schedule& schedule) {
  const Pipeline& pipeline = schedule.pipeline();
  auto rows = ordered_json::array();
  for (const RankId rank : pipeline.rank_ids()) {
    auto row = ordered_json::array();
    for (const Cell& cell : schedule.row(rank)) row.push_back(cell_text(pipeline, cell));
    rows.push_back(std::move(row));
  }
  return laid_out({{"format", kScheduleFormat},
                   {"version", 1},
                   {"name", schedule.name()},
                   {"pipeline", pipeline_json(pipeline)},
                   {"rows", std::move(rows)}});
}

std::string to_json(const Program& program) {
  auto communicators = ordered_json::array();
  for (const Communicator& communicator : program.communicators()) {
    ordered_json item = {{"name", communicator.name}, {"members", ids_json(communicator.members)}};
    if (communicator.queue >= 0) item["queue"] = communicator.queue;
    communicators.push_back(std::move(item));
  }
  auto ranks = ordered_json::array();
  for (const RankId rank : program.pipeline().rank_ids()) {
    auto row = ordered_json::array();
    for (const InstructionId id : program.ids_of(rank)) row.push_back(instruction_text(program, id));
    ranks.push_back(std::move(row));
  }
  ordered_json file = {{"format", kProgramFormat},
                       {"version", 1},
                       {"pipeline", pipeline_json(program.pipeline())},
                       {"communicators", std::move(communicators)}};
  const int delay = program.send_done_delay();
  if (delay == kUntilStepEnd) {
    file["send_done_delay"] = "end";
  } else if (delay > 0) {
    file["send_done_delay"] = delay;
  }
  file["ranks"] = std::move(ranks);
  return laid_out(file);
}

Expected<std::variant<Schedule, Program>> ir_from_json(std::string_view text, const std::string& file) {
  // Where it fails, the places of what is wrong are those in the whole text.
  if (const auto lifted = lift_rows(text)) {
    if (auto ir = read_lifted(*lifted, file)) return *std::move(ir);
  }
  PPSIM_ASSIGN_OR_RETURN(const auto parsed, JsonFile::parse(text, file));
  return read_ir(parsed, nullptr);
}

}  // namespace ppsim
