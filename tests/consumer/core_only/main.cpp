#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"

int main() {
  const auto schedule = ppsim::generate("1f1b", {.ranks = 2, .microbatches = 4});
  return schedule && ppsim::lower(*schedule, {}) ? 0 : 1;
}
