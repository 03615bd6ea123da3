#include "rank_clocks.hpp"

#include <algorithm>
#include <map>

#include "ppsim/core/ir/check.hpp"

namespace ppsim::verifier {
namespace {

/// Which track an elementary completion belongs to, before tracks have numbers: (kind, channel or
/// communicator).
using TrackKey = std::pair<int, std::size_t>;
enum TrackKind { kCompute, kCopy, kOutgoing, kIncoming, kCollective };

constexpr std::size_t kBetweenLooks = 4096;  // steps of the plan between looks at the time

std::vector<std::size_t> channels_of_messages(const ExecutionGraph& graph) {
  std::vector<std::size_t> channel;
  for (std::size_t m = 0; m < graph.messages.size(); ++m) {
    channel.push_back(graph.messages[m].previous >= 0 ? channel[m - 1] : m);
  }
  return channel;
}

}  // namespace

bool is_within(ClockView a, ClockView b) { return std::ranges::equal(a, b, std::ranges::less_equal()); }

/// Numbers the points of one rank.
class RankPoints {
 public:
  RankPoints(const ClockRequest& request, RankClocks& out)
      : program_(request.analyzed.program()),
        graph_(request.analyzed.guaranteed_graph()),
        out_(out),
        first_(program_.first(request.rank)),
        last_(program_.last(request.rank)),
        lag_(request.receipts == Receipts::lag && graph_.capabilities.credits.has_value()),
        sent_(graph_.messages.size()),
        received_(lag_ ? graph_.messages.size() : 0) {
    out_.first_ = first_;
    const std::vector<std::size_t> channel = channels_of_messages(graph_);
    out_.point_begin_.push_back(0);
    for (const InstructionId id : program_.ids_of(request.rank)) {
      for (const std::uint32_t m : graph_.messages_of(id)) number_message(m, channel[m], id);
      if (const std::int32_t match = graph_.match_of[id.index()]; match >= 0) {
        number_match(as_size(match));
      } else if (graph_.messages_of(id).empty()) {
        const bool copies = info(program_.actions(id).front().kind).resource == Resource::copy;
        out_.points_.push_back(next_point({copies ? kCopy : kCompute, 0}));
      }
      out_.point_begin_.push_back(out_.points_.size());
    }
    out_.tracks_ = length_.size();
    for (const std::int32_t length : length_) {
      out_.track_begin_.push_back(size_);
      size_ += as_size(length);
    }
  }

  [[nodiscard]] bool is_own(InstructionId id) const { return id >= first_ && id < last_; }
  [[nodiscard]] std::size_t instructions() const { return out_.point_begin_.size() - 1; }
  [[nodiscard]] std::size_t size() const { return size_; }

  [[nodiscard]] std::size_t tracks() const { return length_.size(); }
  [[nodiscard]] ClockPart work(InstructionId id) const {
    return is_own(id) ? part(out_.points_of(id).front()) : ClockPart{};
  }
  [[nodiscard]] ClockPart sent(std::size_t message) const { return part(sent_[message]); }
  [[nodiscard]] ClockPart received(std::size_t message) const {
    return lag_ ? part(received_[message]) : ClockPart{};
  }
  [[nodiscard]] ClockPart member(InstructionId id) const { return part(member_point(id)); }

  /// The point of an event on this rank; it has no track if the event is on another rank.
  [[nodiscard]] Point point_of(ClockEvent event, std::uint32_t subject) const {
    switch (event) {
      case ClockEvent::start:
      case ClockEvent::met:
        return {};
      case ClockEvent::complete:
        return member_point(InstructionId(static_cast<std::int32_t>(subject)));
      case ClockEvent::work:
        return is_own(InstructionId(static_cast<std::int32_t>(subject)))
                   ? out_.points_of(InstructionId(static_cast<std::int32_t>(subject))).front()
                   : Point{};
      case ClockEvent::sent:
        return sent_[subject];
      case ClockEvent::received:
        return lag_ ? received_[subject] : Point{};
    }
    PPSIM_CHECK(false, "an event is one of these");
  }

 private:
  static ClockPart part(Point point) { return {point.track, point.index + 1}; }

  [[nodiscard]] Point member_point(InstructionId id) const {
    return is_own(id) && graph_.match_of[id.index()] >= 0 ? out_.points_of(id).front() : Point{};
  }

  void number_message(std::uint32_t m, std::size_t channel, InstructionId id) {
    const bool arrives = lag_ && graph_.messages[m].receive == id;
    Point& point = (arrives ? received_ : sent_)[m];
    if (point.track < 0) point = next_point({arrives ? kIncoming : kOutgoing, channel});
    out_.points_.push_back(point);
  }

  void number_match(std::size_t match) {
    out_.points_.push_back(next_point({kCollective, graph_.matches[match].communicator.index()}));
  }

  Point next_point(TrackKey key) {
    const auto [entry, fresh] = track_of_.try_emplace(key, static_cast<std::int32_t>(length_.size()));
    if (fresh) length_.push_back(0);
    return {entry->second, length_[as_size(entry->second)]++};
  }

  const Program& program_;
  const ExecutionGraph& graph_;
  RankClocks& out_;
  InstructionId first_;
  InstructionId last_;
  bool lag_;
  std::map<TrackKey, std::int32_t> track_of_;
  std::vector<std::int32_t> length_;  ///< per track
  std::size_t size_ = 0;
  std::vector<Point> sent_;      ///< per message: transferred, or in flight
  std::vector<Point> received_;  ///< per message: received by the rank, where receipts lag
};

std::int32_t* RankClocks::row_of(Point point) {
  const auto row = track_begin_[as_size(point.track)] + as_size(point.index);
  return before_point_.data() + row * tracks_;
}

RankClocks::RankClocks(const ClockRequest& request, const Limits& limits) : rank_(request.rank) {
  const RankPoints points(request, *this);
  limits.need(points.size() + points.instructions() + 1, tracks_ * sizeof(std::int32_t) + 1);
  before_point_.assign(points.size() * tracks_, 0);
  before_start_.assign(points.instructions() * tracks_, 0);
  limits.need(1, request.plan.bytes_of_run(tracks_));
  std::size_t done = 0;
  request.plan.run(points, [&](ClockEvent event, std::uint32_t subject, ClockView clock) {
    if (++done % kBetweenLooks == 0) limits.poll();
    if (std::int32_t* const row = row_of(points, event, subject); row != nullptr)
      std::ranges::copy(clock, row);
  });
}

std::int32_t* RankClocks::row_of(const RankPoints& points, ClockEvent event, std::uint32_t subject) {
  if (event != ClockEvent::start) {
    const Point point = points.point_of(event, subject);
    return point.track >= 0 ? row_of(point) : nullptr;
  }
  const InstructionId id(static_cast<std::int32_t>(subject));
  if (!points.is_own(id)) return nullptr;
  return before_start_.data() + as_size(id.value() - first_.value()) * tracks_;
}

}  // namespace ppsim::verifier
