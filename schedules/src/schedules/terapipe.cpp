#include <array>

#include "families/catalogue.hpp"
#include "families/repetitions.hpp"
#include "families/settings.hpp"
#include "families/stage_graphs.hpp"

// TeraPipe: GPipe over k slices of each sequence. F takes the slices from the first to the last, which attend
// to those before them, B from the last to the first; so the bubble is that of m k microbatches. The slices
// need not be equally long: best_slice_lengths (slice_lengths.hpp) is the paper's dynamic programme for their
// lengths, which are a matter of costs and not of the order.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "terapipe";

constexpr std::array<std::string_view, 2> kBackwardOrders = {"same", "reversed"};
constexpr std::array kSettings = {
    SettingInfo{"backward", "order of the microbatches in the backward: same or reversed", "same",
                kBackwardOrders},
};

std::string refusal(const ScheduleParameters& parameters) {
  return refused_word(parameters, "backward", kBackwardOrders);
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  const int m = parameters.microbatches;
  const int k = parameters.slices;
  const bool reversed = setting(parameters, "backward") == "reversed";
  PPSIM_ASSIGN_OR_RETURN(auto pipeline, make_looped(parameters, 1));
  ScheduleBuilder builder{std::string(kName), std::move(pipeline)};
  for (int s = 0; s < parameters.ranks; ++s) {
    for (int i = 0; i < m * k; ++i) {
      builder.add(OpKind::forward, StageId(s), MicrobatchId(i / k), SliceId(i % k));
    }
    for (int i = 0; i < m * k; ++i) {
      const int microbatch = reversed ? m - 1 - i / k : i / k;
      builder.add(OpKind::backward, StageId(s), MicrobatchId(microbatch), SliceId(k - 1 - i % k));
    }
  }
  return std::move(builder).build();
}

/// For slices that cost the same.
std::optional<Nanoseconds> makespan(const ScheduleParameters& parameters, const StageCosts& costs) {
  const Nanoseconds p = parameters.ranks;
  const Nanoseconds slices = Nanoseconds{parameters.microbatches} * parameters.slices;
  return (slices + p - 1) * (costs.forward + costs.backward) + 2 * (p - 1) * costs.transfer;
}

std::optional<int> peak(const ScheduleParameters& parameters, RankId) {
  return parameters.microbatches * parameters.slices;
}

}  // namespace

ScheduleInfo terapipe() {
  return {
      .name = kName,
      .summary = "GPipe over slices of the sequence",
      .paper = "Li et al., TeraPipe, ICML 2021, arXiv 2102.07988",
      .placement = "stage s on rank s",
      .constraints = "any ranks, microbatches and slices",
      .has_slices = true,
      .settings = kSettings,
      .refusal = refusal,
      .generate = generate,
      .repetitions = repeats_from_the_first,
      .forms = {.makespan = makespan,
                .peak_live_activations = peak,
                .bubble = "(p-1)(F+B) + 2(p-1)c",
                .peak = "mk"},
  };
}

}  // namespace ppsim::schedules::catalogue
