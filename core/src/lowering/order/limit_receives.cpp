#include "limit_receives.hpp"

#include <map>
#include <optional>

#include "arrivals.hpp"
#include "ppsim/core/ir/concatenated.hpp"

namespace ppsim::lowering {
namespace {

/// The arrivals of one stream, in order; those from `placed` on still wait for their place.
struct StreamState {
  std::vector<std::size_t> lines;
  std::size_t placed = 0;
};

class RowLimiter {
 public:
  RowLimiter(const Pipeline& pipeline, const LoweringOptions& options, RankId rank, LineRow& row)
      : pipeline_(pipeline),
        options_(options),
        rank_(rank),
        row_(row),
        users_(first_users(pipeline, rank, row)),
        done_(row.size(), 0) {}

  Expected<void> run() {
    for (std::size_t i = 0; i < row_.size(); ++i) {
      const Line line = row_.line(i);
      if (is_arrival(line)) {
        StreamState& stream = streams_[stream_of(pipeline_, options_.communicators, line)];
        stream.lines.push_back(i);
        place_ready(stream);
        continue;
      }
      if (const auto late = arrival_still_waiting(i)) return too_few(*late, line);
      place(i);
      if (!computes(line)) continue;
      for (auto& [key, stream] : streams_) place_ready(stream);
    }
    row_.replace(lines_);
    return {};
  }

 private:
  void place(std::size_t i) {
    done_[i] = 1;
    lines_.push_back(row_.line(i));
  }

  /// The line for which an arrival of a stream waits.
  [[nodiscard]] std::int32_t limit_of(const StreamState& stream, std::size_t which) const {
    const auto buffers = as_size(*options_.receive_buffers);
    return which < buffers ? kNobody : users_[stream.lines[which - buffers]];
  }

  void place_ready(StreamState& stream) {
    for (; stream.placed < stream.lines.size(); ++stream.placed) {
      const std::int32_t limit = limit_of(stream, stream.placed);
      if (limit != kNobody && done_[as_size(limit)] == 0) return;
      const std::size_t i = stream.lines[stream.placed];
      place(i);
      if (limit != kNobody) row_.after.push_back({row_.line(i).id, row_.line(as_size(limit)).id});
    }
  }

  /// An arrival that line `i` uses and that has no place yet.
  [[nodiscard]] std::optional<Line> arrival_still_waiting(std::size_t i) const {
    for (const auto& [key, stream] : streams_) {
      for (std::size_t w = stream.placed; w < stream.lines.size(); ++w) {
        if (users_[stream.lines[w]] == static_cast<std::int32_t>(i)) return row_.line(stream.lines[w]);
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] Expected<void> too_few(const Line& late, const Line& user) const {
    return make_error(ErrorCode::bad_argument,
                      concatenated("receive buffers: ", *options_.receive_buffers, " are too few on rank ",
                                   rank_, ": ", user.action, " needs ", late.action,
                                   " while an earlier arrival of its channel is still unused"));
  }

  const Pipeline& pipeline_;
  const LoweringOptions& options_;
  RankId rank_;
  LineRow& row_;
  std::vector<std::int32_t> users_;
  std::vector<char> done_;
  std::map<Stream, StreamState> streams_;
  std::vector<Line> lines_;
};

}  // namespace

Expected<void> limit_receives(const Pipeline& pipeline, const LoweringOptions& options, LineRows& rows) {
  for (const RankId rank : pipeline.rank_ids()) {
    auto limited = RowLimiter(pipeline, options, rank, rows[rank]).run();
    if (!limited) return limited;
  }
  return {};
}

}  // namespace ppsim::lowering
