#include "worker.hpp"

#include "ppsim/core/execution/facts.hpp"

namespace ppsim::gpu_backend {

std::vector<Transfer> transfer_ends(const Program& program, ActionPlace place) {
  std::vector<Transfer> result;
  const auto actions = program.actions(place.instruction);
  const auto communicators = program.communicators_of(place.instruction);
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const RankId peer = peer_rank(program.pipeline(), actions[i]);
    const Direction direction = info(actions[i].kind).direction;
    const bool sends = direction == Direction::send;
    const Channel channel{communicators[i], sends ? place.rank : peer, sends ? peer : place.rank};
    result.push_back({place.instruction, static_cast<std::uint32_t>(i), channel, direction, {}});
  }
  return result;
}

CollectiveCall collective_end(const Program& program, ActionPlace place) {
  return {.instruction = place.instruction,
          .communicator = program.communicators_of(place.instruction).front(),
          .rank = place.rank};
}

}  // namespace ppsim::gpu_backend
