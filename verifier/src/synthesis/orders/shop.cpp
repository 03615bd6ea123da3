#include "synthesis/orders/shop.hpp"

#include <algorithm>

namespace ppsim::verifier::synthesis {

Shop::Shop(const ChainModel& chain, const Relaxation& relaxation, const Rooms& rooms, Objective wanted)
    : model(chain),
      tails(relaxation.tail),
      objective(wanted),
      microbatches(chain.microbatches()),
      strands_of(as_size(chain.ranks())),
      work(as_size(chain.ranks()), 0),
      capacity(rooms.capacity),
      weight_room(capacity.size(), 0),
      backward_room(capacity.size(), 0) {
  for (int number = 0; number < chain.strands(); ++number) {
    const auto at = as_size(number);
    const int stage = number / chain.phases();
    const int phase = number % chain.phases();
    Strand strand{.rank = chain.rank_of_stage(stage),
                  .stage = stage,
                  .phase = phase,
                  .duration = chain.duration(stage, phase),
                  .take = rooms.take[at],
                  .give = rooms.give[at]};
    const bool first = stage == 0;
    const bool last = stage + 1 == chain.stages();
    int from = stage;
    if (phase == 0 && !first) from = stage - 1;
    if (phase == 1 && !last) from = stage + 1;
    if (from != stage) {
      strand.source = chain.strand(from, phase);
      strand.lag = chain.transfer(from, stage);
    } else if (phase > 0) {
      strand.source = number - 1;
    }
    strands_of[as_size(strand.rank)].push_back(number);
    work[as_size(strand.rank)] += strand.duration * microbatches;
    strands.push_back(strand);
    if (phase + 1 == chain.phases()) reserve(as_size(strand.rank), stage);
  }
  for (int number = 0; number < chain.strands(); ++number) {
    const Strand& strand = strands[as_size(number)];
    if (strand.source < 0) continue;
    Strand& source = strands[as_size(strand.source)];
    if (source.rank != strand.rank) source.reader = number;
  }
}

void Shop::reserve(std::size_t rank, int stage) {
  const Strand& forward = strands[as_size(model.strand(stage, 0))];
  const Strand& input = strands[as_size(model.strand(stage, 1))];
  Bytes weight = 0;
  if (model.phases() > 2) weight = strands[as_size(model.strand(stage, 2))].take;
  weight_room[rank] = std::max(weight_room[rank], weight);
  backward_room[rank] = std::max({backward_room[rank], forward.give, input.take + weight});
}

}  // namespace ppsim::verifier::synthesis
