#include "warmup_order.hpp"

#include <algorithm>

namespace ppsim {

void add_row(ScheduleBuilder& builder, const WarmupOrder& order, int microbatches) {
  const auto add = [&](OpKind kind, int microbatch) {
    builder.add(kind, order.stage, MicrobatchId(microbatch));
  };
  const OpKind backward = order.weight_delay ? OpKind::backward_input : OpKind::backward;
  int forwards = 0;
  int weights = 0;
  while (forwards < std::min(order.warmup, microbatches)) add(OpKind::forward, forwards++);
  for (int k = 0; k < microbatches; ++k) {
    add(backward, k);
    if (order.weight_delay && k >= *order.weight_delay) add(OpKind::backward_weight, weights++);
    if (forwards < microbatches) add(OpKind::forward, forwards++);
  }
  while (order.weight_delay && weights < microbatches) add(OpKind::backward_weight, weights++);
}

}  // namespace ppsim
