#include <algorithm>
#include <array>

#include "families/catalogue.hpp"
#include "families/placements.hpp"
#include "families/repetitions.hpp"

// ZB-V: the stages run down the ranks and back up, so that the last rank has the first backward at once, and
// all ranks hold the same activations. The order is that of section 6 of the paper, written by hand for
// F = I = W, as in PyTorch's ScheduleZBVZeroBubble; it is made for at least 2p - 1 microbatches, and those
// that there are not are left out.
//
// Bubble of the span: nothing at F = I = W, and from 2p - 1 microbatches on never more for more of them.
// "Pipeline parallelism with controllable memory" (arXiv 2405.15362) has W + 2I >= 2F and W + 2F >= 2I as
// the condition for none; that is about orders made for the costs. This one order, at three ranks and more,
// waits wherever F, I and W are not alike. How long is computed here, not in a paper: the longest of the
// chains of actions below.

namespace ppsim::schedules::catalogue {
namespace {

constexpr std::string_view kName = "zb-v";

/// One rank's cells; chunk 0 is on the way down, chunk 1 on the way up.
class Row {
 public:
  Row(ScheduleBuilder& builder, const ScheduleParameters& parameters, int rank)
      : builder_(builder),
        microbatches_(parameters.microbatches),
        stages_{StageId(rank), StageId(2 * parameters.ranks - 1 - rank)} {}

  void forward(std::size_t chunk) { add(OpKind::forward, chunk, forwards_[chunk]++); }
  void input(std::size_t chunk) { add(OpKind::backward_input, chunk, inputs_[chunk]++); }
  void weight(std::size_t chunk) { add(OpKind::backward_weight, chunk, weights_[chunk]++); }
  void full(std::size_t chunk) {
    forward(chunk);
    input(chunk);
    weight(chunk);
  }
  /// The W of every I that is done.
  void weights(std::size_t chunk) {
    while (weights_[chunk] < inputs_[chunk]) weight(chunk);
  }
  [[nodiscard]] int forwards(std::size_t chunk) const { return forwards_[chunk]; }

 private:
  void add(OpKind kind, std::size_t chunk, int microbatch) {
    if (microbatch < microbatches_) builder_.add(kind, stages_[chunk], MicrobatchId(microbatch));
  }

  ScheduleBuilder& builder_;
  int microbatches_;
  std::array<StageId, 2> stages_;
  std::array<int, 2> forwards_ = {};
  std::array<int, 2> inputs_ = {};
  std::array<int, 2> weights_ = {};
};

/// Until the rank has its first backward of chunk 0.
void warm_up(Row& row, int ranks, int rank) {
  for (int i = 0; i < 2 * (ranks - rank) - 1; ++i) row.forward(0);
  for (int i = 0; i < rank; ++i) {
    row.forward(1);
    row.forward(0);
  }
  for (int i = 0; i < ranks - rank; ++i) row.full(1);
}

/// One of each action of both chunks, F of chunk 0 while there are any.
void run_steadily(Row& row, int microbatches) {
  while (row.forwards(1) < microbatches) {
    if (row.forwards(0) < microbatches) row.forward(0);
    row.input(0);
    row.weight(0);
    row.full(1);
  }
}

void cool_down(Row& row, int ranks, int rank) {
  for (int i = 0; i < rank; ++i) {
    row.input(0);
    row.input(1);
  }
  for (int i = 0; i < ranks - rank; ++i) {
    row.input(0);
    row.weight(0);
  }
  row.weights(1);
  row.weights(0);
}

Expected<Schedule> generate(const ScheduleParameters& parameters) {
  const int p = parameters.ranks;
  PPSIM_ASSIGN_OR_RETURN(auto pipeline,
                         make_chain(p, 2 * p, parameters.microbatches, folded_placement(p, 2)));
  ScheduleBuilder builder{std::string(kName), std::move(pipeline)};
  for (int r = 0; r < p; ++r) {
    Row row(builder, parameters, r);
    warm_up(row, p, r);
    run_steadily(row, std::max(2 * p - 1, parameters.microbatches));
    cool_down(row, p, r);
  }
  return std::move(builder).build();
}

/// The idle time of the rank with the longest span on p > 1 ranks.
Nanoseconds wait_of(Nanoseconds p, const StageCosts& costs) {
  const Nanoseconds f = costs.forward;
  const Nanoseconds i = costs.backward_input;
  const Nanoseconds w = costs.backward_weight;
  return std::max<Nanoseconds>({0, 2 * (p - 1) * (i - w), (p - 1) * (2 * f - i - w), (p - 1) * (i - f),
                                (p - 2) * (f - i), (p - 2) * (w - f), (p - 2) * (w - f) + i - f,
                                2 * (p - 1) * (f - w) + i - f, 2 * (p - 1) * (f - w) - w});
}

std::optional<Nanoseconds> span(const ScheduleParameters& parameters, const StageCosts& costs) {
  const Nanoseconds p = parameters.ranks;
  const Nanoseconds m = parameters.microbatches;
  if (m < 2 * p - 1 || (p > 1 && costs.transfer > 0)) return std::nullopt;
  const Nanoseconds busy = 2 * m * (costs.forward + costs.backward_input + costs.backward_weight);
  return p == 1 ? busy : busy + wait_of(p, costs);
}

std::optional<int> peak(const ScheduleParameters& parameters, RankId rank) {
  const int m = parameters.microbatches;
  const int r = rank.value();
  return std::min(m, 2 * parameters.ranks - 1 - r) + std::min(m, r + 1);
}

}  // namespace

ScheduleInfo zb_v() {
  return {
      .name = kName,
      .summary = "zero bubble at equal costs within the activations of 1F1B",
      .paper =
          "Qi et al., Zero bubble pipeline parallelism, section 6 of the first version, arXiv 2401.10241v1; "
          "PyTorch's ScheduleZBVZeroBubble",
      .placement = "down the ranks and back up: stages r and 2p - 1 - r on rank r",
      .constraints = "any ranks and microbatches; without bubble from 2p - 1 microbatches on",
      .default_chunks = 2,
      .min_chunks = 2,
      .max_chunks = 2,
      .splits_backward = true,
      .settings = {},
      .generate = generate,
      .repetitions = repeats_once_filled,
      .forms = {.span = span,
                .peak_live_activations = peak,
                .bubble = "0 for F = I, I = W",
                .peak = "min(2p, 2m)"},
  };
}

}  // namespace ppsim::schedules::catalogue
