#include "dualpipe_rows.hpp"

#include <algorithm>
#include <deque>
#include <utility>

namespace ppsim::schedules {
namespace {

class RowWriter {
 public:
  RowWriter(ScheduleBuilder& builder, const DualPipeRow& row)
      : builder_(builder), rank_(row.rank), phases_(row.phases) {}

  void forward(std::size_t phase) { builder_.add(rank_, next_forward(phase)); }

  void backward(std::size_t phase) { builder_.add(rank_, next_backward(OpKind::backward, phase)); }

  /// I now, its W when weight() comes to it.
  void backward_input(std::size_t phase) {
    if (phases_[phase].whole) return backward(phase);
    const Action input = next_backward(OpKind::backward_input, phase);
    builder_.add(rank_, input);
    weights_.push_back(make_action(OpKind::backward_weight, input.subject, input.microbatch));
  }

  void add_pair(std::size_t forward_phase, std::size_t backward_phase) {
    const Action forward = next_forward(forward_phase);
    builder_.add(rank_, Cell(forward, next_backward(OpKind::backward, backward_phase)));
  }

  /// Every W that is left, by microbatch.
  void weights_by_microbatch() {
    std::ranges::sort(weights_, {}, [](const Action& w) { return std::pair(w.microbatch, w.subject); });
    while (!weights_.empty()) weight();
  }

  /// The oldest W, if one is left.
  void weight() {
    if (weights_.empty()) return;
    builder_.add(rank_, weights_.front());
    weights_.pop_front();
  }

 private:
  Action next_forward(std::size_t phase) {
    return make_action(OpKind::forward, phases_[phase].stage.value(),
                       phases_[phase].first_microbatch + forwards_[phase]++);
  }

  Action next_backward(OpKind kind, std::size_t phase) {
    return make_action(kind, phases_[phase].stage.value(),
                       phases_[phase].first_microbatch + backwards_[phase]++);
  }

  ScheduleBuilder& builder_;
  RankId rank_;
  std::array<DualPipeRow::Phase, 2> phases_;
  std::array<int, 2> forwards_ = {};
  std::array<int, 2> backwards_ = {};
  std::deque<Action> weights_;
};

template <class Body>
void repeat(int times, const Body& body) {
  for (int i = 0; i < times; ++i) body();
}

/// Steps 1 to 3: into the pipes.
void fill(RowWriter& writer, const DualPipeRow& row) {
  const int to_meeting = row.reach - row.away - 1;
  repeat(2 * to_meeting, [&] { writer.forward(0); });
  repeat(row.away + 1, [&] {
    writer.forward(0);
    writer.forward(1);
  });
  repeat(to_meeting, [&] {
    writer.backward_input(1);
    writer.weight();
    writer.forward(1);
  });
}

/// Steps 4 and 5: every F with a B. Where the ways meet, the first pair would only wait for its F.
void add_pairs(RowWriter& writer, const DualPipeRow& row) {
  const int to_meeting = row.reach - row.away - 1;
  for (int i = 0; i < row.microbatches - 2 * row.reach + row.away + 1; ++i) {
    if (i == 0 && to_meeting == 0) {
      writer.forward(0);
      writer.backward(1);
    } else {
      writer.add_pair(0, 1);
    }
    writer.add_pair(1, 0);
  }
  repeat(to_meeting, [&] {
    writer.backward(1);
    writer.add_pair(1, 0);
  });
}

/// Steps 6 to 8: out of the pipes, from half of step 6 on with W put off.
void drain(RowWriter& writer, const DualPipeRow& row) {
  const int pairs = row.away + 1;
  for (int i = 0; i < 2 * pairs; ++i) {
    const std::size_t phase = i % 2 == 0 ? 1 : 0;
    if (i < pairs) {
      writer.backward(phase);
    } else {
      writer.backward_input(phase);
    }
  }
  repeat(row.reach - row.away - 1, [&] {
    writer.weight();
    writer.backward_input(0);
  });
  repeat(pairs, [&] { writer.weight(); });
}

/// The same as JaxPP has it.
void drain_as_jaxpp(RowWriter& writer, const DualPipeRow& row) {
  const int pairs = row.away + 1;
  for (int i = 0; i < 2 * pairs; ++i) {
    const std::size_t phase = i % 2 == 0 ? 1 : 0;
    const bool splits = i / 2 >= pairs / 2 && row.away % 2 == static_cast<int>(phase);
    if (splits) {
      writer.backward_input(phase);
    } else {
      writer.backward(phase);
    }
  }
  repeat(row.reach - row.away - 1, [&] { writer.backward_input(0); });
  writer.weights_by_microbatch();
}

}  // namespace

void add_row(ScheduleBuilder& builder, const DualPipeRow& row) {
  RowWriter writer(builder, row);
  fill(writer, row);
  add_pairs(writer, row);
  if (row.as_jaxpp) return drain_as_jaxpp(writer, row);
  drain(writer, row);
}

Nanoseconds DualPipeForm::busy(const StageCosts& costs) const {
  const Nanoseconds pairs = Nanoseconds{2} * microbatches;
  const Nanoseconds overlapped = pairs - Nanoseconds{2} * reach - 1;
  const Nanoseconds apart = costs.forward + costs.backward;
  return pairs * apart - overlapped * (apart - costs.overlap);
}

std::optional<Nanoseconds> DualPipeForm::makespan(const StageCosts& costs) const {
  const Nanoseconds w = costs.backward_weight;
  const bool alike = costs.forward == w && costs.backward_input == w && costs.backward == 2 * w;
  if (!alike || costs.overlap < costs.backward || costs.transfer > 0) return std::nullopt;
  return busy(costs) + (reach - 1) * (costs.overlap + costs.backward - 3 * w);
}

}  // namespace ppsim::schedules
