#include "support/random_case.hpp"

#include <algorithm>

#include "ppsim/core/execution/execution_graph.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim::test {

RandomCase random_case(int number) {
  const auto seed = static_cast<std::uint64_t>(number) * 0x9E3779B97F4A7C15ULL + 1;
  RandomShape shape;
  shape.ranks = 1 + static_cast<int>((seed >> 8) % 4);
  shape.chunks = 1 + static_cast<int>((seed >> 16) % 2);
  shape.microbatches = 1 + static_cast<int>((seed >> 24) % 4);
  shape.slices = (seed >> 32) % 4 == 0 ? 2 + static_cast<int>((seed >> 36) % 2) : 1;
  shape.backward = static_cast<BackwardMode>((seed >> 40) % 4);
  shape.recompute = (seed >> 44) % 3 == 0;
  shape.overlaps = (seed >> 48) % 3 == 0;
  shape.general = (seed >> 52) % 3 == 0;
  const Schedule schedule = random_schedule(shape, seed);
  return {random_program(schedule, number % 3 == 0 ? 0 : 1 + number % 3, seed + 1),
          random_costs(schedule.pipeline().stages(), seed + 2), random_capabilities(false, seed + 3)};
}

bool is_issued_as_listed(const Program& program) {
  const ExecutionGraph graph = build_execution_graph(program, rendezvous());
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    const auto waits = graph.predecessors_of(id);
    if (std::ranges::any_of(waits, [&](InstructionId before) { return before > id; })) return false;
  }
  return true;
}

}  // namespace ppsim::test
