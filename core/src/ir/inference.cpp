#include "ppsim/core/ir/inference.hpp"

#include <algorithm>

namespace ppsim {

bool trains(const Program& program, RankId rank) {
  for (const InstructionId id : program.ids_of(rank)) {
    const auto actions = program.actions(id);
    if (std::any_of(actions.begin(), actions.end(),
                    [](const Action& action) { return gives_weight_gradient(action.kind); })) {
      return true;
    }
  }
  return false;
}

bool trains(const Program& program) {
  for (const RankId rank : program.pipeline().rank_ids()) {
    if (trains(program, rank)) return true;
  }
  return false;
}

}  // namespace ppsim
