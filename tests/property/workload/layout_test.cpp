#include "ppsim/workload/layout.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>

namespace ppsim {
namespace {

PipelineLayout random_layout() {
  const int stages = *rc::gen::inRange(1, 12);
  const int first_mtp = *rc::gen::inRange(0, stages + 1);  // stages from here on have no layers
  PipelineLayout layout;
  for (int s = 0; s < stages; ++s) {
    // Few values, so that there are runs.
    const std::int64_t count = *rc::gen::element(0, 1, 2, 2, 2, 11);
    layout.stages.push_back(s < first_mtp ? StageContents{.layers = count} : StageContents{.mtp = count});
  }
  layout.stages.front().embedding = true;
  layout.stages.back().loss = true;
  return layout;
}

RC_GTEST_PROP(LayoutProperty, WhatIsWrittenReadsTheSame, ()) {
  const PipelineLayout layout = random_layout();
  const std::string text = layout_text(layout);
  RC_LOG() << text;
  const auto read = parse_layout(text);
  RC_ASSERT(read.has_value());
  RC_ASSERT(*read == layout);
  RC_ASSERT(check_layout(layout, layout.layers(), static_cast<int>(layout.stages.size())).has_value());
}

RC_GTEST_PROP(LayoutProperty, AnyTextIsReadOrRefusedAtAPlace, ()) {
  const auto text = *rc::gen::container<std::string>(rc::gen::elementOf(std::string("EtmL|(),*0123x")));
  const auto layout = parse_layout(text);
  if (layout) {
    RC_ASSERT(check_layout(*layout, layout->layers(), static_cast<int>(layout->stages.size())).has_value());
  } else {
    RC_ASSERT(layout.error().place.column >= 1);
    RC_ASSERT(layout.error().place.column <= static_cast<int>(text.size()) + 1);
    RC_ASSERT(!layout.error().place.found.empty());
    RC_ASSERT(!layout.error().place.expected.empty());
  }
}

struct Quality {
  Nanoseconds slowest = 0;
  std::int64_t squares = 0;
  friend auto operator<=>(const Quality&, const Quality&) = default;
};

Quality quality(const LayoutTimes& times, const std::vector<std::int64_t>& counts) {
  Quality result;
  std::size_t layer = 0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    Nanoseconds time = (s == 0 ? times.embedding : 0) + (s + 1 == counts.size() ? times.loss : 0);
    for (std::int64_t i = 0; i < counts[s]; ++i) time += times.layers[layer++];
    result.slowest = std::max(result.slowest, time);
    result.squares += counts[s] * counts[s];
  }
  return result;
}

/// The best of all cuts of the layers that are left among the stages that are left.
Quality best_of_all(const LayoutTimes& times, std::vector<std::int64_t>& counts, std::size_t stage,
                    std::int64_t left) {
  if (stage + 1 == counts.size()) {
    counts[stage] = left;
    return quality(times, counts);
  }
  Quality best{std::numeric_limits<Nanoseconds>::max(), 0};
  for (counts[stage] = 0; counts[stage] <= left; ++counts[stage]) {
    const std::int64_t here = counts[stage];
    best = std::min(best, best_of_all(times, counts, stage + 1, left - here));
    counts[stage] = here;
  }
  return best;
}

RC_GTEST_PROP(LayoutProperty, BalancedIsTheBestOfAllCuts, ()) {
  const auto time = rc::gen::inRange<Nanoseconds>(0, 12);
  LayoutTimes times;
  times.embedding = *time;
  times.loss = *time;
  times.layers = *rc::gen::resize(8, rc::gen::container<std::vector<Nanoseconds>>(time));
  const int stages = *rc::gen::inRange(1, 6);
  const PipelineLayout layout = balanced_layout(times, stages);
  const auto layers = static_cast<std::int64_t>(times.layers.size());
  RC_ASSERT(check_layout(layout, layers, stages).has_value());
  std::vector<std::int64_t> counts;
  for (const StageContents& stage : layout.stages) counts.push_back(stage.layers);
  std::vector<std::int64_t> other(static_cast<std::size_t>(stages));
  RC_ASSERT(quality(times, counts) == best_of_all(times, other, 0, layers));
}

}  // namespace
}  // namespace ppsim
