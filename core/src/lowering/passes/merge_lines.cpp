#include "merge_lines.hpp"

#include <algorithm>
#include <compare>

#include "lowering/insert/transfers.hpp"

namespace ppsim::lowering {
namespace {

/// When a line comes. Lines of one cell come in the order of their sources.
struct Turn {
  Nanoseconds time = 0;
  std::int32_t sweep = 0;
  RankId rank;  ///< whose cell it is

  friend auto operator<=>(const Turn&, const Turn&) = default;
};

/// The cells of a rank, and when they run.
struct RankCells {
  RankId rank;
  std::span<const Cell> cells;
  std::span<const PassTime> times;
};

/// Lines of a row that come from the cells of one rank, in the order of these.
class LineSource {
 public:
  enum class Kind : std::uint8_t {
    cells,     ///< the cells themselves
    sends,     ///< their SENDs
    receives,  ///< the RECVs that another rank has of them
  };

  LineSource(Kind kind, const RankCells& from, RankId to, const TransferIndex& transfers)
      : kind_(kind), from_(from), to_(to), transfers_(&transfers) {
    find();
  }

  [[nodiscard]] bool is_over() const { return place_ == from_.cells.size(); }
  /// Requires: not over.
  [[nodiscard]] const Turn& turn() const { return turn_; }
  /// Writes the lines whose turn it is, and goes on.
  void write(LineWriter& row) {
    for (const Action& line : lines_) row.add(line, turn_.time);
    ++place_;
    find();
  }

 private:
  /// Goes on to a cell with lines.
  void find() {
    for (; place_ < from_.cells.size(); ++place_) {
      find_lines();
      if (lines_.empty()) continue;
      const PassTime& pass = from_.times[place_];
      turn_ = {kind_ == Kind::cells ? pass.start : pass.end, pass.sweep, from_.rank};
      return;
    }
  }

  void find_lines() {
    lines_.clear();
    for (const Action& action : from_.cells[place_].actions()) {
      if (kind_ == Kind::cells) {
        lines_.push_back(action);
      } else {
        transfers_->for_each(action, [&](const Action& send, const Action& receive, RankId receiver) {
          if (kind_ == Kind::sends) lines_.push_back(send);
          if (kind_ == Kind::receives && receiver == to_) lines_.push_back(receive);
        });
      }
    }
  }

  Kind kind_;
  RankCells from_;
  RankId to_;
  const TransferIndex* transfers_;
  std::size_t place_ = 0;
  std::vector<Action> lines_;  ///< of the cell at `place_`
  Turn turn_;
};

/// Writes the lines of all sources by their turns. Order among equals: that of the sources.
void merge(std::vector<LineSource> sources, LineWriter& row) {
  const auto drop_those_over = [&] {
    std::erase_if(sources, [](const LineSource& s) { return s.is_over(); });
  };
  for (drop_those_over(); !sources.empty();) {
    LineSource* earliest = sources.data();
    for (LineSource& source : sources) {
      if (source.turn() < earliest->turn()) earliest = &source;
    }
    earliest->write(row);
    if (earliest->is_over()) drop_those_over();
  }
}

}  // namespace

LineRows merged_lines(const Pipeline& pipeline, const CellRows& rows, const PassTimes& times) {
  const TransferIndex transfers(pipeline);
  const std::vector<Flow> flows = flows_of(transfers, rows);
  const IdVector<RankId, std::size_t> counts = line_counts(rows, flows);
  IdVector<RankId, std::vector<RankId>> senders(counts.size());
  for (const Flow& flow : flows) senders[flow.to].push_back(flow.from);
  LineRows lines(counts.size());
  std::vector<LineWriter> writers;  // whose memory who starts the threads asks for, as others go on with it
  for (const RankId rank : lines.ids()) writers.emplace_back(lines[rank], counts[rank], false);
  const auto merge_row = [&](RankId to) {
    std::vector<LineSource> sources;
    const auto add = [&](LineSource::Kind kind, RankId from) {
      sources.emplace_back(kind, RankCells{from, rows[from], times[from]}, to, transfers);
    };
    add(LineSource::Kind::cells, to);
    add(LineSource::Kind::sends, to);
    for (const RankId from : senders[to]) add(LineSource::Kind::receives, from);
    merge(std::move(sources), writers[to.index()]);
    writers[to.index()].finish();
  };
  const std::vector<RankRange> ranges = rows.ranges();
  all_at_once(ranges.size(), [&](std::size_t i) {
    for (RankId rank = ranges[i].first; rank < ranges[i].last; rank = next(rank)) merge_row(rank);
  });
  return lines;
}

}  // namespace ppsim::lowering
