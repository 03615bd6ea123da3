#include "split_rounds.hpp"

#include <algorithm>
#include <tuple>

namespace ppsim::gpu_backend {
namespace {

std::vector<CommunicatorId> by_members(const Program& program) {
  std::vector<CommunicatorId> result;
  for (std::size_t c = 0; c < program.communicators().size(); ++c) {
    const CommunicatorId id(static_cast<std::int32_t>(c));
    if (program.communicator(id).members.size() > 1) result.push_back(id);
  }
  std::sort(result.begin(), result.end(), [&](CommunicatorId a, CommunicatorId b) {
    return std::tie(program.communicator(a).members, a) < std::tie(program.communicator(b).members, b);
  });
  return result;
}

}  // namespace

std::vector<std::vector<CommunicatorId>> split_rounds(const Program& program) {
  std::vector<std::vector<CommunicatorId>> rounds;
  std::vector<std::vector<bool>> taken;  // per round and rank
  for (const CommunicatorId id : by_members(program)) {
    const auto& members = program.communicator(id).members;
    const auto has_room = [&](const std::vector<bool>& ranks) {
      return std::none_of(members.begin(), members.end(), [&](RankId rank) { return ranks[rank.index()]; });
    };
    const auto round =
        static_cast<std::size_t>(std::find_if(taken.begin(), taken.end(), has_room) - taken.begin());
    if (round == rounds.size()) {
      rounds.emplace_back();
      taken.emplace_back(static_cast<std::size_t>(program.pipeline().ranks()), false);
    }
    rounds[round].push_back(id);
    for (const RankId rank : members) taken[round][rank.index()] = true;
  }
  return rounds;
}

}  // namespace ppsim::gpu_backend
