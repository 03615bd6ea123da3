#include "ppsim/core/ir/inference.hpp"

#include <algorithm>

namespace ppsim {

bool trains(const Program& program, RankId rank) {
  return std::ranges::any_of(program.ids_of(rank), [&](InstructionId id) {
    return std::ranges::any_of(program.actions(id), gives_weight_gradient, &Action::kind);
  });
}

bool trains(const Program& program) {
  return std::ranges::any_of(program.all_actions(), gives_weight_gradient, &Action::kind);
}

}  // namespace ppsim
