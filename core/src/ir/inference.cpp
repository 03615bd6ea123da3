#include "ppsim/core/ir/inference.hpp"

#include <algorithm>

namespace ppsim {

bool trains(const Program& program, RankId rank) {
  for (int i = program.first(rank).value(); i < program.last(rank).value(); ++i) {
    const auto actions = program.actions(InstructionId(i));
    if (std::any_of(actions.begin(), actions.end(),
                    [](const Action& action) { return gives_weight_gradient(action.kind); })) {
      return true;
    }
  }
  return false;
}

bool trains(const Program& program) {
  for (int r = 0; r < program.pipeline().ranks(); ++r) {
    if (trains(program, RankId(r))) return true;
  }
  return false;
}

}  // namespace ppsim
