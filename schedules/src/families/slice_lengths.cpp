#include "ppsim/schedules/slice_lengths.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>

#include "ppsim/core/ir/ids.hpp"

namespace ppsim::schedules {
namespace {

constexpr int kMaxPieces = 2048;
constexpr Nanoseconds kUnreachable = std::numeric_limits<Nanoseconds>::max();

int pieces_of(const SliceProblem& problem) { return (problem.sequence - 1) / problem.granularity + 1; }

/// The times of all slices: from one boundary between pieces to a later one.
class SliceTimes {
 public:
  SliceTimes(const SliceProblem& problem, const SliceCost& cost)
      : problem_(problem), pieces_(pieces_of(problem)) {
    times_.resize(as_size(pieces_) * as_size(pieces_ + 1) / 2);
    for (int end = 1; end <= pieces_; ++end) {
      for (int begin = 0; begin < end; ++begin) {
        times_[index(begin, end)] = cost(tokens(end) - tokens(begin), tokens(begin));
      }
    }
  }

  [[nodiscard]] int pieces() const { return pieces_; }
  [[nodiscard]] int tokens(int boundary) const {
    return static_cast<int>(
        std::min<std::int64_t>(std::int64_t{boundary} * problem_.granularity, problem_.sequence));
  }
  [[nodiscard]] Nanoseconds operator()(int begin, int end) const { return times_[index(begin, end)]; }

 private:
  [[nodiscard]] static std::size_t index(int begin, int end) {
    return as_size(end) * as_size(end - 1) / 2 + as_size(begin);
  }

  const SliceProblem& problem_;
  int pieces_;
  std::vector<Nanoseconds> times_;  // by end, then begin
};

/// Where the slices of a sequence end, and what they take.
struct Cut {
  std::vector<int> ends;
  Nanoseconds sum = 0;
  Nanoseconds longest = 0;
};

/// Slices up to a boundary: the least sum, of several cuts with it the least longest slice, and where the
/// last slice begins.
struct Partial {
  Nanoseconds sum = kUnreachable;
  Nanoseconds longest = 0;
  int begin = 0;
};
using Layer = std::vector<Partial>;  ///< by boundary

/// Fills the layer with one more slice, shorter than the bound, behind those of `before`, which may be the
/// layer itself: then with any number of slices.
void add_slice(const SliceTimes& times, Nanoseconds bound, const Layer& before, Layer& layer) {
  for (int end = 1; end <= times.pieces(); ++end) {
    Partial& best = layer[as_size(end)];
    for (int begin = 0; begin < end; ++begin) {
      const Partial& until = before[as_size(begin)];
      const Nanoseconds slice = times(begin, end);
      if (until.sum == kUnreachable || slice >= bound) continue;
      const Partial found{checked_add(until.sum, slice), std::max(until.longest, slice), begin};
      if (std::tie(found.sum, found.longest) < std::tie(best.sum, best.longest)) best = found;
    }
  }
}

/// No slice yet.
Layer first_layer(const SliceTimes& times) {
  Layer layer(as_size(times.pieces()) + 1);
  layer.front().sum = 0;
  return layer;
}

/// The layers of exactly `slices` slices, or the one of any number.
std::vector<Layer> layers_of(const SliceTimes& times, std::optional<int> slices, Nanoseconds bound) {
  std::vector<Layer> layers = {first_layer(times)};
  if (!slices) {
    add_slice(times, bound, layers.front(), layers.front());
    return layers;
  }
  for (int k = 0; k < *slices; ++k) {
    Layer layer(layers.front().size());
    add_slice(times, bound, layers.back(), layer);
    layers.push_back(std::move(layer));
  }
  return layers;
}

/// The cut with the least sum, and then the least longest slice, whose slices are all shorter than the bound.
std::optional<Cut> min_sum(const SliceTimes& times, std::optional<int> slices, Nanoseconds bound) {
  const std::vector<Layer> layers = layers_of(times, slices, bound);
  const Partial& all = layers.back().back();
  if (all.sum == kUnreachable) return std::nullopt;
  Cut cut{{}, all.sum, all.longest};
  std::size_t layer = layers.size() - 1;
  for (int end = times.pieces(); end > 0;) {
    cut.ends.push_back(times.tokens(end));
    end = layers[layer][as_size(end)].begin;
    if (slices) --layer;
  }
  std::ranges::reverse(cut.ends);
  return cut;
}

std::vector<int> lengths_of(const Cut& cut) {
  std::vector<int> lengths;
  int begin = 0;
  for (const int end : cut.ends) {
    lengths.push_back(end - begin);
    begin = end;
  }
  return lengths;
}

Expected<void> check(const SliceProblem& problem) {
  const auto refuse = [](std::string what, std::int64_t found, std::string expected) {
    return make_error(ErrorCode::bad_argument, std::move(what),
                      {.found = std::to_string(found), .expected = std::move(expected)});
  };
  if (problem.sequence < 1) return refuse("a sequence needs tokens", problem.sequence, "1 or more");
  if (problem.granularity < 1) return refuse("granularity out of range", problem.granularity, "1 or more");
  if (problem.ranks < 1) return refuse("ranks out of range", problem.ranks, "1 or more");
  if (problem.microbatches < 1) return refuse("microbatches out of range", problem.microbatches, "1 or more");
  const int pieces = pieces_of(problem);
  if (pieces > kMaxPieces) {
    return refuse("too many pieces: take a larger granularity", pieces,
                  "at most " + std::to_string(kMaxPieces));
  }
  if (problem.slices && (*problem.slices < 1 || *problem.slices > pieces)) {
    return refuse("slices out of range", *problem.slices,
                  "in [1, " + std::to_string(pieces) + "], the pieces of the granularity");
  }
  return {};
}

}  // namespace

Expected<SliceLengths> best_slice_lengths(const SliceProblem& problem, const SliceCost& cost) {
  PPSIM_RETURN_IF_ERROR(check(problem));
  const SliceTimes times(problem, cost);
  SliceLengths best{{}, kUnreachable};
  Nanoseconds bound = kUnreachable;
  while (const std::optional<Cut> cut = min_sum(times, problem.slices, bound)) {
    const Nanoseconds sum = checked_multiply(problem.microbatches, cut->sum);
    const Nanoseconds time = checked_add(sum, checked_multiply(problem.ranks - 1, cut->longest));
    if (time < best.time) best = {lengths_of(*cut), time};
    // Shorter slices have no lesser sum: they are better only by a longest slice that makes up for it.
    const Nanoseconds left = best.time - sum;
    if (problem.ranks == 1 || left <= 0) break;
    bound = std::min(cut->longest, (left - 1) / (problem.ranks - 1) + 1);
  }
  return best;
}

}  // namespace ppsim::schedules
