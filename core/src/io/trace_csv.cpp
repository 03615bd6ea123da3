#include "ppsim/core/io/trace_csv.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "action_scan.hpp"
#include "csv_cells.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/text/number_text.hpp"

namespace ppsim {
namespace {

constexpr std::array<std::string_view, 6> kColumns = {"rank",        "queue",    "index",
                                                      "instruction", "start_ns", "end_ns"};
enum Column : std::uint8_t { kRank, kQueue, kIndex, kInstruction, kStart, kEnd };

tl::unexpected<Error> broken(const std::string& file, int line, std::size_t column, Error error) {
  error.place.file = file;
  error.place.row = line;
  error.place.column = static_cast<int>(column) + 1;
  return tl::unexpected(std::move(error));
}

/// One line of a trace.
struct Line {
  int number = 0;                  ///< from 1
  std::size_t length = 0;          ///< in cells
  std::vector<std::string> cells;  ///< no more than one too many
};

/// The next line of a file; nothing at its end.
Expected<std::optional<Line>> next_line(CsvReader& reader) {
  if (!reader.next_row()) return std::nullopt;
  Line line{.number = reader.line(), .cells = {}};
  for (;; ++line.length) {
    PPSIM_ASSIGN_OR_RETURN(const auto cell, reader.next_cell());
    if (!cell) return line;
    if (line.length <= kColumns.size()) line.cells.emplace_back(*cell);
  }
}

/// Reads the cells of one line.
class LineReader {
 public:
  LineReader(const Line& row, const std::string& file) : row_(row), file_(file) {}

  Expected<TraceRow> read() {
    if (row_.length != kColumns.size()) {
      return fail(std::min(row_.length, kColumns.size() - 1), "a line of another length",
                  std::to_string(row_.length) + " cells", std::to_string(kColumns.size()) + " cells");
    }
    constexpr auto kLastId = std::numeric_limits<std::int32_t>::max();
    constexpr auto kLastTime = std::numeric_limits<Nanoseconds>::max();
    PPSIM_ASSIGN_OR_RETURN(const auto rank, number(kRank, 0, kLastId));
    PPSIM_ASSIGN_OR_RETURN(const auto index, number(kIndex, 0, kLastId));
    PPSIM_ASSIGN_OR_RETURN(const auto start, number(kStart, -1, kLastTime));
    PPSIM_ASSIGN_OR_RETURN(const auto end, number(kEnd, -1, kLastTime));
    if (end >= 0 && (start < 0 || end < start)) {
      return fail(kEnd, "a completion before the start", row_.cells[kEnd],
                  start < 0 ? "-1, as it did not start" : "-1 or at least " + row_.cells[kStart]);
    }
    return TraceRow{row_.number,
                    RankId(static_cast<std::int32_t>(rank)),
                    row_.cells[kQueue],
                    static_cast<std::int32_t>(index),
                    row_.cells[kInstruction],
                    start,
                    end};
  }

 private:
  tl::unexpected<Error> fail(std::size_t column, std::string message, std::string_view found,
                             std::string expected) const {
    return broken(file_, row_.number, column,
                  text_error(std::move(message), found, std::move(expected)).value());
  }

  [[nodiscard]] Expected<std::int64_t> number(Column column, std::int64_t least, std::int64_t most) const {
    const std::string& text = row_.cells[column];
    const auto value = parse_number<std::int64_t>(text);
    if (value && *value >= least && *value <= most) return *value;
    return fail(column, std::string(kColumns[column]) + " is not such a number", text,
                "an integer in [" + std::to_string(least) + ", " + std::to_string(most) + "]");
  }

  const Line& row_;
  const std::string& file_;
};

Expected<void> check_header(const std::vector<std::string>& found, const std::string& file) {
  for (std::size_t c = 0; c < std::max(found.size(), kColumns.size()); ++c) {
    const std::string_view cell = c < found.size() ? std::string_view(found[c]) : "nothing";
    if (c < kColumns.size() && cell == kColumns[c]) continue;
    const std::string expected = c < kColumns.size() ? std::string(kColumns[c]) : "the end of the line";
    return broken(file, 1, c, text_error("not the header of a trace", cell, expected).value());
  }
  return {};
}

/// Places the rows of a file on the instructions of a Program.
class SpanPlacement {
 public:
  SpanPlacement(const Program& program, const std::string& file)
      : program_(program), file_(file), seen_(program.size(), false) {
    trace_.spans = TimedTrace::Spans(program.size());
  }

  Expected<void> place(const TraceRow& row) {
    const int ranks = program_.pipeline().ranks();
    if (row.rank.value() >= ranks)
      return fail(row, kRank, std::to_string(row.rank.value()), "one of " + std::to_string(ranks) + " ranks");
    const int length = program_.last(row.rank).value() - program_.first(row.rank).value();
    if (row.index >= length) {
      return fail(row, kIndex, std::to_string(row.index),
                  "one of " + std::to_string(length) + " instructions of the rank");
    }
    const InstructionId id(program_.first(row.rank).value() + row.index);
    if (seen_[id.index()]) return fail(row, kIndex, std::to_string(row.index), "each instruction once");
    if (const std::string queue = queues_text(program_, id); row.queue != queue)
      return fail(row, kQueue, row.queue, queue);
    if (const std::string actions = actions_text(program_, id); row.instruction != actions)
      return fail(row, kInstruction, row.instruction, actions);
    seen_[id.index()] = true;
    trace_.spans[id] = {{row.start, 0}, {row.end, 0}};
    return {};
  }

  Expected<TimedTrace> take(int lines) {
    const auto missing = std::ranges::find(seen_, false);
    if (missing == seen_.end()) return std::move(trace_);
    const InstructionId id(static_cast<std::int32_t>(missing - seen_.begin()));
    const RankId rank = program_.rank_of(id);
    const int index = id.value() - program_.first(rank).value();
    return broken(file_, lines + 1, 0,
                  text_error("an instruction is missing", "the end of the file",
                             "rank " + std::to_string(rank.value()) + ", instruction " +
                                 std::to_string(index) + ": " + actions_text(program_, id))
                      .value());
  }

 private:
  [[nodiscard]] Expected<void> fail(const TraceRow& row, Column column, std::string_view found,
                                    std::string expected) const {
    return broken(file_, row.line, column,
                  text_error("not this program's trace", found, std::move(expected)).value());
  }

  const Program& program_;
  const std::string& file_;
  std::vector<bool> seen_;
  TimedTrace trace_;
};

}  // namespace

Expected<std::vector<TraceRow>> trace_rows_from_csv(std::string_view text, const std::string& file) {
  CsvReader reader(text, file);
  PPSIM_ASSIGN_OR_RETURN(const auto first, next_line(reader));
  PPSIM_RETURN_IF_ERROR(check_header(first.value_or(Line{}).cells, file));
  std::vector<TraceRow> rows;
  for (;;) {
    PPSIM_ASSIGN_OR_RETURN(const auto line, next_line(reader));
    if (!line) return rows;
    PPSIM_ASSIGN_OR_RETURN(auto row, LineReader(*line, file).read());
    rows.push_back(std::move(row));
  }
}

Expected<TimedTrace> trace_from_csv(std::string_view text, const std::string& file, const Program& program) {
  PPSIM_ASSIGN_OR_RETURN(const auto rows, trace_rows_from_csv(text, file));
  SpanPlacement placement(program, file);
  for (const TraceRow& row : rows) {
    PPSIM_RETURN_IF_ERROR(placement.place(row));
  }
  return placement.take(rows.empty() ? 1 : rows.back().line);
}

}  // namespace ppsim
