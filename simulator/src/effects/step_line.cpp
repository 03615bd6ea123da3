#include "ppsim/simulator/effects/step_line.hpp"

#include <algorithm>
#include <optional>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/sequences.hpp"

namespace ppsim::simulator {
namespace {

__extension__ using WideTime = __int128;

/// a - b at a factor, times its denominator. Differences have 62 bits and parts of a ratio 63.
WideTime difference_at(const TimeLine& a, const TimeLine& b, const Ratio& factor) {
  return WideTime{a.constant - b.constant} * factor.denominator() +
         WideTime{a.slope - b.slope} * factor.numerator();
}

/// Which line is longer at a factor: compares them there, then by slope.
class LaterAt {
 public:
  LaterAt(const Ratio& factor, bool steepest) : factor_(factor), steepest_(steepest) {}

  const TimeLine& operator()(const TimeLine& a, const TimeLine& b) const {
    const WideTime difference = difference_at(a, b, factor_);
    if (difference != 0) return difference > 0 ? a : b;
    if (a.slope != b.slope) return (a.slope > b.slope) == steepest_ ? a : b;
    return a.constant >= b.constant ? a : b;  // they differ at infinity only
  }

 private:
  Ratio factor_;
  bool steepest_;
};

/// Where a flatter line meets a steeper one.
/// Requires: the steeper one is not above it at 0.
Ratio meeting(const TimeLine& flat, const TimeLine& steep) {
  return {flat.constant - steep.constant, steep.slope - flat.slope};
}

/// The last segment that begins at a factor or before it.
const TimeLine& step_from(const std::vector<StepSegment>& segments, const Ratio& factor) {
  const auto next = std::upper_bound(segments.begin(), segments.end(), factor,
                                     [](const Ratio& f, const StepSegment& s) { return f < s.from; });
  return std::prev(next)->step;
}

/// Where two lines cross strictly between two factors; nothing where they do not.
std::optional<Ratio> crossing(const TimeLine& a, const TimeLine& b, const Ratio& from, const Ratio& to) {
  const TimeLine& flat = a.slope < b.slope ? a : b;
  const TimeLine& steep = a.slope < b.slope ? b : a;
  if (flat.slope == steep.slope || flat.constant < steep.constant) return std::nullopt;
  const Ratio at = meeting(flat, steep);
  return from < at && at < to ? std::optional(at) : std::nullopt;
}

int sign_of(WideTime value) { return value < 0 ? -1 : value > 0 ? 1 : 0; }

}  // namespace

Expected<StepLine> StepLine::make(const CompiledProgram& program, std::vector<TimeLine> costs) {
  PPSIM_CHECK(costs.size() == program.items.size(), "a line for every item");
  constexpr WideTime kMax = WideTime{1} << 62;
  StepLine result;
  WideTime sum = 0;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    PPSIM_CHECK(costs[i].constant >= 0 && costs[i].slope >= 0, "costs do not fall");
    sum += WideTime{costs[i].constant} + costs[i].slope;
    result.items_.push_back({program.items[i].first, program.items[i].second, costs[i]});
  }
  if (sum >= kMax) {
    return make_error(ErrorCode::bad_argument, "the costs of the Program add up to too much",
                      {.found = "a larger sum", .expected = "less than 2^62 ns (146 years) in all"});
  }
  result.last_items_ = program.last_items;
  return result;
}

TimeLine StepLine::longest(const Ratio& factor, bool steepest) const {
  const LaterAt later(factor, steepest);
  std::vector<TimeLine> ends(items_.size());
  for (std::size_t i = 1; i < items_.size(); ++i) {
    const Item& item = items_[i];
    const TimeLine& begin = later(ends[item.first], ends[item.second]);
    ends[i] = {begin.constant + item.cost.constant, begin.slope + item.cost.slope};
  }
  TimeLine step;
  for (const std::uint32_t item : last_items_) step = later(step, ends[item]);
  return step;
}

StepGrowth StepLine::growth(const Ratio& factor) const {
  PPSIM_CHECK(!factor.is_infinite(), "a finite factor");
  StepGrowth growth{flattest(factor), steepest(factor), Ratio(), Ratio::infinite()};
  // The step less one of its lines is convex: from outside, each line that is longer cuts off what lies
  // beyond its meeting with that line, and the last one to do so meets it where the segment ends.
  for (TimeLine outer = flattest(growth.to); outer.slope != growth.above.slope;) {
    growth.to = meeting(growth.above, outer);
    outer = flattest(growth.to);
    if (difference_at(outer, growth.above, growth.to) == 0) break;
  }
  for (TimeLine outer = steepest(growth.from); difference_at(outer, growth.below, growth.from) != 0;) {
    growth.from = meeting(outer, growth.below);
    outer = steepest(growth.from);
  }
  return growth;
}

std::vector<StepSegment> StepLine::segments() const {
  const TimeLine first = steepest(Ratio());
  std::vector<StepSegment> segments = {{Ratio(), first}};
  add_segments(first, flattest(Ratio::infinite()), segments);
  return segments;
}

/// Those behind `left` up to `right`, both of which are segments.
void StepLine::add_segments(const TimeLine& left, const TimeLine& right,
                            std::vector<StepSegment>& segments) const {
  if (left.slope == right.slope) return;
  const Ratio at = meeting(left, right);
  const TimeLine between = steepest(at);
  if (difference_at(between, left, at) == 0) {
    segments.push_back({at, right});
    return;
  }
  add_segments(left, between, segments);
  add_segments(between, right, segments);
}

double time_at(const TimeLine& line, const Ratio& factor) {
  return static_cast<double>(line.constant) + static_cast<double>(line.slope) * factor.value();
}

std::vector<ShorterRange> shorter_ranges(const std::vector<StepSegment>& first,
                                         const std::vector<StepSegment>& second) {
  std::vector<Ratio> points;
  for (const StepSegment& segment : first) points.push_back(segment.from);
  for (const StepSegment& segment : second) points.push_back(segment.from);
  sort_unique(points);
  for (std::size_t i = 0, bends = points.size(); i < bends; ++i) {
    const Ratio to = i + 1 < bends ? points[i + 1] : Ratio::infinite();
    const auto at = crossing(step_from(first, points[i]), step_from(second, points[i]), points[i], to);
    if (at) points.push_back(*at);
  }
  std::sort(points.begin(), points.end());
  std::vector<ShorterRange> ranges;
  for (const Ratio& from : points) {
    const TimeLine& a = step_from(first, from);
    const TimeLine& b = step_from(second, from);
    const int here = sign_of(difference_at(a, b, from));
    const int shorter = here != 0 ? here : sign_of(WideTime{a.slope} - b.slope);
    if (ranges.empty() || ranges.back().shorter != shorter) ranges.push_back({from, shorter});
  }
  return ranges;
}

}  // namespace ppsim::simulator
