#include "ppsim/core/io/trace_csv.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "action_scan.hpp"
#include "csv_cells.hpp"
#include "ppsim/core/io/text.hpp"
#include "trace_cells.hpp"

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

/// Reads the cells of one line.
class LineReader {
 public:
  LineReader(const CsvRow& row, const std::string& file) : row_(row), file_(file) {}

  Expected<TraceRow> read() {
    if (row_.cells.size() != kColumns.size()) {
      return fail(std::min(row_.cells.size(), kColumns.size() - 1), "a line of another length",
                  std::to_string(row_.cells.size()) + " cells", std::to_string(kColumns.size()) + " cells");
    }
    constexpr auto kLastId = std::numeric_limits<std::int32_t>::max();
    constexpr auto kLastTime = std::numeric_limits<Nanoseconds>::max();
    const auto rank = number(kRank, 0, kLastId);
    if (!rank) return tl::unexpected(rank.error());
    const auto index = number(kIndex, 0, kLastId);
    if (!index) return tl::unexpected(index.error());
    const auto start = number(kStart, -1, kLastTime);
    if (!start) return tl::unexpected(start.error());
    const auto end = number(kEnd, -1, kLastTime);
    if (!end) return tl::unexpected(end.error());
    if (*end >= 0 && (*start < 0 || *end < *start)) {
      return fail(kEnd, "a completion before the start", row_.cells[kEnd],
                  *start < 0 ? "-1, as it did not start" : "-1 or at least " + row_.cells[kStart]);
    }
    return TraceRow{row_.line,
                    RankId(static_cast<std::int32_t>(*rank)),
                    row_.cells[kQueue],
                    static_cast<std::int32_t>(*index),
                    row_.cells[kInstruction],
                    *start,
                    *end};
  }

 private:
  tl::unexpected<Error> fail(std::size_t column, std::string message, std::string_view found,
                             std::string expected) const {
    return broken(file_, row_.line, column,
                  text_error(std::move(message), found, std::move(expected)).value());
  }

  [[nodiscard]] Expected<std::int64_t> number(Column column, std::int64_t least, std::int64_t most) const {
    const std::string& text = row_.cells[column];
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most)
      return value;
    return fail(column, "not a " + std::string(kColumns[column]), text,
                "an integer in [" + std::to_string(least) + ", " + std::to_string(most) + "]");
  }

  const CsvRow& row_;
  const std::string& file_;
};

Expected<void> check_header(const std::vector<CsvRow>& rows, const std::string& file) {
  const std::vector<std::string> found = rows.empty() ? std::vector<std::string>() : rows.front().cells;
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
    trace_.spans = IdVector<InstructionId, Span>(program.size());
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
    const auto missing = std::find(seen_.begin(), seen_.end(), false);
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
  const auto lines = read_csv(text, file);
  if (!lines) return tl::unexpected(lines.error());
  if (auto header = check_header(*lines, file); !header) return tl::unexpected(header.error());
  std::vector<TraceRow> rows;
  for (std::size_t i = 1; i < lines->size(); ++i) {
    auto row = LineReader((*lines)[i], file).read();
    if (!row) return tl::unexpected(row.error());
    rows.push_back(*std::move(row));
  }
  return rows;
}

Expected<TimedTrace> trace_from_csv(std::string_view text, const std::string& file, const Program& program) {
  const auto rows = trace_rows_from_csv(text, file);
  if (!rows) return tl::unexpected(rows.error());
  SpanPlacement placement(program, file);
  for (const TraceRow& row : *rows) {
    if (auto placed = placement.place(row); !placed) return tl::unexpected(placed.error());
  }
  return placement.take(rows->empty() ? 1 : rows->back().line);
}

}  // namespace ppsim
