#include "cells.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "alphabet.hpp"
#include "ppsim/core/execution/rank_ranges.hpp"

namespace ppsim {
namespace {

constexpr int kMaxEmptyCells = 1 << 22;    // they stay in a schedule
constexpr std::size_t kMaxRows = 1 << 16;  // as of a pipeline

/// Where another alphabet has the action, names it.
Error with_dialect(Error error, std::string_view text) {
  if (scan_action(text, compute_alphabet(CsvDialect::legacy))) {
    error.message += " of this dialect";
    error.place.expected += ", or --dialect legacy";
  }
  return error;
}

Expected<void> scan_into(TorchCell& cell, std::string_view text, const Alphabet& alphabet) {
  const Expected<ScannedAction> scanned = scan_action(text, alphabet);
  if (!scanned) return tl::unexpected(with_dialect(scanned.error(), text));
  if (scanned->slice || scanned->peer)
    return text_error("an action with more than PyTorch's files hold", text, alphabet.expected);
  cell.scanned[cell.count++] = {scanned->kind, scanned->subject, scanned->number.value_or(-1)};
  return {};
}

/// The text of the action that a cell waits for: without its `WAIT_`; nothing where the cell is no wait.
std::optional<std::string> waited_for(std::string_view text) {
  constexpr std::string_view kWait = "WAIT_";
  const std::size_t kind = text.find_first_not_of("0123456789");
  if (kind == std::string_view::npos || !text.substr(kind).starts_with(kWait)) return std::nullopt;
  return std::string(text.substr(0, kind)).append(text.substr(kind + kWait.size()));
}

Expected<void> scan_wait(TorchCell& cell, const std::string& action, const Alphabet& alphabet) {
  cell.waits = true;
  const Expected<ScannedAction> scanned = scan_action(action, kNativeAlphabet);
  if (scanned && (is_send(scanned->kind) || scanned->kind == OpKind::reduce_grad) &&
      scanned->kind != OpKind::send_activation) {
    return scan_into(cell, action, alphabet).map_error([&](Error error) {
      error.place.found = printable(cell.text);
      return error;
    });
  }
  return text_error("not a wait", cell.text,
                    "WAIT_SEND_F, WAIT_SEND_B or WAIT_REDUCE_GRAD, such as 0WAIT_SEND_F3");
}

Expected<void> scan_cell(TorchCell& cell, const Alphabet& alphabet) {
  if (const auto action = waited_for(cell.text)) return scan_wait(cell, *action, alphabet);
  if (!cell.text.starts_with('(')) return scan_into(cell, cell.text, alphabet);
  PPSIM_ASSIGN_OR_RETURN(const auto parts, scan_pair(cell.text));
  for (const std::string_view part : parts) {
    PPSIM_RETURN_IF_ERROR(scan_into(cell, part, alphabet));
  }
  return {};
}

/// A pass with all its numbers in range, of a pipeline without slices.
bool is_plain_pass(const Pipeline& pipeline, const TorchAction& action) {
  return is_pass(action.kind) && action.subject < pipeline.stages() && action.number >= 0 &&
         action.number < pipeline.microbatches() && pipeline.slices() == 1;
}

/// Which stages and microbatches the cells name, and where.
class Census {
 public:
  explicit Census(const std::string& file) : file_(file) {}

  Expected<void> count(int rank, const TorchCell& cell) {
    for (const TorchAction& action : cell.actions()) {
      if (is_new(action.subject, rank, known_stage_))
        PPSIM_RETURN_IF_ERROR(place(action.subject, rank, cell.text));
      if (action.number >= 0 && is_new(action.number, 0, known_microbatch_))
        microbatches_.insert(action.number);
    }
    return {};
  }

  [[nodiscard]] Expected<Pipeline> pipeline(std::size_t rows) const {
    std::vector<RankId> placement;
    std::set<std::int32_t> stages;
    for (const auto& [stage, rank] : rank_of_) {
      stages.insert(stage);
      placement.emplace_back(rank);
    }
    PPSIM_RETURN_IF_ERROR(check_gaps("stage", stages));
    PPSIM_RETURN_IF_ERROR(check_gaps("microbatch", microbatches_));
    auto pipeline = make_chain(static_cast<int>(rows), static_cast<int>(stages.size()),
                               static_cast<int>(microbatches_.size()), std::move(placement));
    if (!pipeline) return make_error(ErrorCode::bad_file, pipeline.error().message, in_file());
    return pipeline;
  }

 private:
  [[nodiscard]] ErrorPlace in_file() const {
    ErrorPlace place;
    place.file = file_;
    return place;
  }

  [[nodiscard]] Expected<void> check_gaps(const std::string& what,
                                          const std::set<std::int32_t>& found) const {
    std::int32_t expected = 0;
    for (const std::int32_t id : found) {
      if (id != expected++) {
        ErrorPlace place = in_file();
        place.found = what + " " + std::to_string(id);
        place.expected = what + " " + std::to_string(expected - 1) + " too";
        return make_error(ErrorCode::bad_file,
                          "the file names no " + what + " " + std::to_string(expected - 1), std::move(place));
      }
    }
    if (!found.empty()) return {};
    ErrorPlace place = in_file();
    place.expected = what + " 0";
    return make_error(ErrorCode::bad_file, "the file names no " + what, std::move(place));
  }

  Expected<void> place(std::int32_t stage, int rank, std::string_view text) {
    const auto [known, fresh] = rank_of_.try_emplace(stage, rank);
    if (fresh || known->second == rank) return {};
    return text_error(
        "stage " + std::to_string(stage) + " stands in row " + std::to_string(known->second + 1) + " too",
        text, "each stage in one row");
  }

  /// Whether an id is seen for the first time in its row; of large ones every time, to keep the table small.
  static bool is_new(std::int32_t id, int row, std::vector<int>& row_of) {
    constexpr std::size_t kMaxKnown = 1U << 20U;
    const auto at = static_cast<std::size_t>(id);
    if (at >= kMaxKnown) return true;
    if (at >= row_of.size()) row_of.resize(at + 1, -1);
    return std::exchange(row_of[at], row) != row;
  }

  const std::string& file_;
  std::map<std::int32_t, int> rank_of_;
  std::set<std::int32_t> microbatches_;
  std::vector<int> known_stage_;       ///< by id: the row of the last action that names it
  std::vector<int> known_microbatch_;  ///< by id: 0 where it is known
};

}  // namespace

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kSpaces = " \t";
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

PassReader::PassReader(const Alphabet& alphabet) {
  for (std::size_t i = 0; i < letters_.size(); ++i) {
    const char letter = static_cast<char>('A' + i);
    const std::optional<OpKind> kind = alphabet.kind_of({&letter, 1});
    if (kind && is_pass(*kind)) letters_[i] = kind;
  }
}

TorchCells::TorchCells(std::string file, const Alphabet& alphabet)
    : file_(std::move(file)), alphabet_(alphabet), passes_(alphabet) {}

/// The parts that are read at the same time: a single one where a cell may be quoted and so contain a line
/// end, or where there are too many lines.
std::vector<TorchCells::Part> TorchCells::parts_of(std::string_view text) {
  constexpr std::size_t kCell = 7;  // characters of a usual one
  if (text.find('"') != std::string_view::npos) return {{text, 0}};
  const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n'));
  if (lines >= kMaxRows) return {{text, 0}};
  std::vector<Part> parts;
  for (const RankRange& range : rank_ranges(static_cast<int>(lines), text.size() / kCell)) {
    std::size_t end = 0;
    for (RankId line = range.first; line < range.last; line = next(line)) end = text.find('\n', end) + 1;
    if (range.last.index() == lines) end = text.size();
    parts.push_back({text.substr(0, end), range.first.value()});
    text.remove_prefix(end);
  }
  return parts;
}

/// Leaves errors to a reader of the whole file, which finds the first one.
Expected<TorchCells> TorchCells::read(std::string_view text, const std::string& file,
                                      const Alphabet& alphabet) {
  const std::vector<Part> parts = parts_of(text);
  if (parts.size() == 1) return read_whole(text, file, alphabet);
  auto cells = all_at_once(parts.size(), [&](std::size_t i) {
    TorchCells part(file, alphabet);
    const bool first = i == 0;
    const bool good = part.read_rows(first ? CsvReader(parts[i].text, file)
                                           : CsvReader(parts[i].text, file, parts[i].lines_before))
                          .has_value();
    return good ? std::optional(std::move(part)) : std::nullopt;
  });
  TorchCells all(file, alphabet);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!cells[i] || (all.empty_ += cells[i]->empty_) > kMaxEmptyCells)
      return read_whole(text, file, alphabet);
    if (cells[i]->rows_.empty()) continue;
    all.rows_.resize(static_cast<std::size_t>(parts[i].lines_before));
    std::ranges::move(cells[i]->rows_, std::back_inserter(all.rows_));
  }
  return all;
}

Expected<TorchCells> TorchCells::read_whole(std::string_view text, const std::string& file,
                                            const Alphabet& alphabet) {
  TorchCells cells(file, alphabet);
  PPSIM_RETURN_IF_ERROR(cells.read_rows(CsvReader(text, file)));
  return cells;
}

Expected<void> TorchCells::read_rows(CsvReader reader) {
  // An empty line between others is an idle rank; editors leave empty lines at the end.
  for (std::size_t lines = 1; reader.next_row(); ++lines) {
    for (;;) {
      if (lines == rows_.size()) add_passes(reader);
      PPSIM_ASSIGN_OR_RETURN(const auto cell, reader.next_cell());
      if (!cell) break;
      if (lines > kMaxRows) {
        return at({.row = reader.line(), .column = 1},
                  text_error("a file with too many rows", "row " + std::to_string(lines),
                             "at most " + std::to_string(kMaxRows))
                      .value());
      }
      rows_.resize(lines);
      PPSIM_RETURN_IF_ERROR(add(stripped(*cell), !reader.is_quoted(), reader));
    }
  }
  return {};
}

void TorchCells::add_passes(CsvReader& reader) {
  for (;;) {
    const std::string_view ahead = reader.ahead();
    std::string_view rest = ahead;
    const std::optional<TorchAction> pass = passes_.take(rest);
    const std::size_t length = ahead.size() - rest.size();
    if (!pass || !reader.pass_cell(length)) return;
    TorchCell& cell = rows_.back().emplace_back();
    cell.text = ahead.substr(0, length);
    cell.row = reader.line();
    cell.column = reader.column();
    cell.scanned[cell.count++] = *pass;
  }
}

std::size_t TorchCells::size() const {
  std::size_t cells = 0;
  for (const std::vector<TorchCell>& row : rows_) cells += row.size();
  return cells;
}

Expected<void> TorchCells::add(std::string_view text, bool is_own, const CsvReader& reader) {
  if (text.empty()) return add_empty(reader);
  TorchCell& cell = rows_.back().emplace_back();
  cell.text = is_own ? text : quoted_.emplace_back(text);
  cell.row = reader.line();
  cell.column = reader.column();
  std::string_view rest = text;
  if (const auto pass = passes_.take(rest); pass && rest.empty()) {
    cell.scanned[cell.count++] = *pass;
    return {};
  }
  if (auto scanned = scan_cell(cell, alphabet_); !scanned) return at(cell, std::move(scanned).error());
  return {};
}

Expected<void> TorchCells::add_empty(const CsvReader& reader) {
  std::vector<TorchCell>& row = rows_.back();
  if (row.empty() || row.back().empty == 0) {
    TorchCell& cell = row.emplace_back();
    cell.row = reader.line();
    cell.column = reader.column();
  }
  ++row.back().empty;
  if (++empty_ <= kMaxEmptyCells) return {};
  return at({.row = reader.line(), .column = reader.column()},
            text_error("a file with too many empty cells", "empty cell " + std::to_string(empty_),
                       "at most " + std::to_string(kMaxEmptyCells))
                .value());
}

tl::unexpected<Error> TorchCells::at(const TorchCell& cell, Error error) const {
  error.place.file = file_;
  error.place.row = cell.row;
  error.place.column = cell.column;
  return tl::unexpected(std::move(error));
}

Expected<Pipeline> TorchCells::infer_pipeline() const {
  Census census(file_);
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    for (const TorchCell& cell : rows_[r]) {
      if (auto counted = census.count(static_cast<int>(r), cell); !counted) return at(cell, counted.error());
    }
  }
  return census.pipeline(rows_.size());
}

Expected<CellActions> TorchCells::resolve(const Pipeline& pipeline, const TorchCell& cell) const {
  CellActions actions;
  for (const TorchAction& scanned : cell.actions()) {
    if (is_plain_pass(pipeline, scanned)) {
      actions.items[actions.count++] = make_action(scanned.kind, scanned.subject, scanned.number);
      continue;
    }
    Expected<Action> action = resolve_action(pipeline, scanned.scanned(), cell.text);
    if (!action) return at(cell, std::move(action).error());
    actions.items[actions.count++] = *action;
  }
  if (actions.count < 2) return actions;
  if (auto checked = check_pair(actions.items[0], actions.items[1], cell.text); !checked)
    return at(cell, checked.error());
  return actions;
}

}  // namespace ppsim
