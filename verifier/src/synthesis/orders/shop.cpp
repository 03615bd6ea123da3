#include "synthesis/orders/shop.hpp"

#include <algorithm>

namespace ppsim::verifier::synthesis {

Shop::Shop(const ChainModel& chain, const Relaxation& relaxation, const Rooms& rooms, Objective wanted)
    : model(chain),
      tails(relaxation.tail),
      objective(wanted),
      microbatches(chain.microbatches()),
      lanes_of(static_cast<std::size_t>(chain.ranks())),
      work(static_cast<std::size_t>(chain.ranks()), 0),
      capacity(rooms.capacity),
      weight_room(capacity.size(), 0),
      backward_room(capacity.size(), 0) {
  for (int number = 0; number < chain.lanes(); ++number) {
    const auto at = static_cast<std::size_t>(number);
    const int stage = number / chain.phases();
    const int phase = number % chain.phases();
    Lane lane{.rank = chain.rank_of_stage(stage),
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
      lane.source = chain.lane(from, phase);
      lane.lag = chain.transfer(from, stage);
    } else if (phase > 0) {
      lane.source = number - 1;
    }
    lanes_of[static_cast<std::size_t>(lane.rank)].push_back(number);
    work[static_cast<std::size_t>(lane.rank)] += lane.duration * microbatches;
    lanes.push_back(lane);
    if (phase + 1 == chain.phases()) reserve(static_cast<std::size_t>(lane.rank), stage);
  }
  for (int number = 0; number < chain.lanes(); ++number) {
    const Lane& lane = lanes[static_cast<std::size_t>(number)];
    if (lane.source < 0) continue;
    Lane& source = lanes[static_cast<std::size_t>(lane.source)];
    if (source.rank != lane.rank) source.reader = number;
  }
}

void Shop::reserve(std::size_t rank, int stage) {
  const Lane& forward = lanes[static_cast<std::size_t>(model.lane(stage, 0))];
  const Lane& input = lanes[static_cast<std::size_t>(model.lane(stage, 1))];
  Bytes weight = 0;
  if (model.phases() > 2) weight = lanes[static_cast<std::size_t>(model.lane(stage, 2))].take;
  weight_room[rank] = std::max(weight_room[rank], weight);
  backward_room[rank] = std::max({backward_room[rank], forward.give, input.take + weight});
}

}  // namespace ppsim::verifier::synthesis
