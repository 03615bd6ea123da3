#include "warmup_order.hpp"

#include <algorithm>

namespace ppsim {

void add_row(ScheduleBuilder& builder, const WarmupOrder& order, int microbatches) {
  const int cells = microbatches * order.slices;
  const auto add = [&](OpKind kind, int cell) {
    const int slice = cell % order.slices;
    builder.add(kind, order.stage, MicrobatchId(cell / order.slices),
                SliceId(kind == OpKind::forward ? slice : order.slices - 1 - slice));
  };
  const OpKind backward = order.weight_delay ? OpKind::backward_input : OpKind::backward;
  int forwards = 0;
  int weights = 0;
  while (forwards < std::min(order.warmup, cells)) add(OpKind::forward, forwards++);
  for (int k = 0; k < cells; ++k) {
    add(backward, k);
    if (order.weight_delay && k >= *order.weight_delay) add(OpKind::backward_weight, weights++);
    if (forwards < cells) add(OpKind::forward, forwards++);
  }
  while (order.weight_delay && weights < cells) add(OpKind::backward_weight, weights++);
}

}  // namespace ppsim
