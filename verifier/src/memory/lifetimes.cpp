#include "lifetimes.hpp"

#include <algorithm>

namespace ppsim::verifier {
namespace {

Clock owned(ClockView clock) { return {clock.begin(), clock.end()}; }

/// The possible first writers: those that no other one precedes or equals.
std::vector<Birth> births_of(const TensorTable& tensors, const RankClocks& clocks, const Tensor& tensor) {
  if (tensor.from_start) return {{Clock(clocks.tracks(), 0), InstructionId()}};
  std::vector<Birth> births;
  for (const InstructionId writer : tensors.writers_of(tensor)) {
    const ClockView after = clocks.before_start(writer);
    if (std::ranges::any_of(births, [&](const Birth& b) { return is_within(b.after, after); })) continue;
    std::erase_if(births, [&](const Birth& b) { return is_within(after, b.after); });
    births.push_back({owned(after), writer});
  }
  return births;
}

/// Whether an instruction, once started, completes at once where what it waits for has happened already.
bool receives_what_is_there(const ExecutionGraph& graph, InstructionId id) {
  return graph.capabilities.credits && std::ranges::any_of(graph.messages_of(id), [&](std::uint32_t m) {
           return graph.messages[m].receive == id;
         });
}

/// The last point of each track among the completions of all users: the others of the track precede it.
std::vector<Point> last_points(const AnalyzedProgram& analyzed, const RankClocks& clocks,
                               const Tensor& tensor) {
  std::vector<Point> last(clocks.tracks());
  const auto add = [&last](Point point) {
    Point& known = last[as_size(point.track)];
    if (known.track < 0 || known.index < point.index) known = point;
  };
  for (const InstructionId user : analyzed.tensors().users_of(tensor)) {
    for (const Point point : clocks.points_of(user)) add(point);
    if (!receives_what_is_there(analyzed.guaranteed_graph(), user)) continue;
    const ClockView start = clocks.before_start(user);
    for (std::size_t track = 0; track < start.size(); ++track) {
      if (start[track] > 0) add({static_cast<std::int32_t>(track), start[track] - 1});
    }
  }
  std::erase_if(last, [](const Point& p) { return p.track < 0; });
  return last;
}

/// Only the points that none of the others implies. Two that imply each other are one event; the first
/// counts.
std::vector<Clock> deaths_of(const AnalyzedProgram& analyzed, const RankClocks& clocks,
                             const Tensor& tensor) {
  if (tensor.to_end) return {};
  std::vector<Point> maximal;
  for (const Point point : last_points(analyzed, clocks, tensor)) {
    const auto implies = [&](Point a, Point b) { return clocks.before(a)[as_size(b.track)] > b.index; };
    if (std::ranges::any_of(maximal, [&](Point p) { return implies(p, point); })) continue;
    std::erase_if(maximal, [&](Point p) { return implies(point, p); });
    maximal.push_back(point);
  }
  std::vector<Clock> deaths;
  for (const Point point : maximal) {
    deaths.emplace_back(clocks.tracks(), 0);
    deaths.back()[as_size(point.track)] = point.index + 1;
  }
  return deaths;
}

}  // namespace

bool Lifetime::is_live(ClockView moment) const {
  return std::ranges::any_of(births, [&](const Birth& b) { return is_within(b.after, moment); }) &&
         (deaths.empty() ||
          !std::ranges::all_of(deaths, [&](const Clock& d) { return is_within(d, moment); }));
}

std::vector<Lifetime> lifetimes_of(const AnalyzedProgram& analyzed, const std::vector<Bytes>& sizes,
                                   const RankClocks& clocks, const Limits& limits) {
  std::vector<Lifetime> lifetimes;
  const std::vector<Tensor>& tensors = analyzed.tensors().tensors;
  const auto first = std::ranges::lower_bound(tensors, clocks.rank(), {}, &Tensor::rank);
  for (auto t = as_size(first - tensors.begin()); t < tensors.size() && tensors[t].rank == clocks.rank();
       ++t) {
    if (sizes[t] == 0) continue;
    limits.poll();
    limits.need(lifetimes.size(),
                sizeof(Lifetime) + 2 * (sizeof(Birth) + clocks.tracks() * sizeof(Clock::value_type)));
    lifetimes.push_back({static_cast<std::uint32_t>(t), sizes[t],
                         births_of(analyzed.tensors(), clocks, tensors[t]),
                         deaths_of(analyzed, clocks, tensors[t])});
  }
  return lifetimes;
}

}  // namespace ppsim::verifier
