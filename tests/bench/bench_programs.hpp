#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim::bench {

/// A pipeline of `chunks` stages per rank in a loop; 1F1B for one chunk, interleaved 1F1B with groups of
/// `ranks` microbatches for more. Requires: ranks >= 3; microbatches a multiple of ranks where chunks > 1.
struct Shape {
  int ranks = 8;
  int microbatches = 64;
  int chunks = 1;
};

/// F = 1, B = 2, c = 0.1 units.
[[nodiscard]] CostTable bench_costs();

/// The compute actions of one rank in order.
[[nodiscard]] std::vector<Action> compute_row(const Shape& shape, int rank);

/// The same with transfers: a RECV before each consumer, a SEND after each producer, a queue per directed
/// edge.
[[nodiscard]] Program lowered_program(const Shape& shape);

/// The schedule as flat arrays, for the plain loop: (stage, microbatch) of forwards, then of backwards, are
/// cells.
struct FlatSchedule {
  struct Step {
    std::uint32_t cell = 0;
    std::uint32_t input = 0;     ///< cell that it needs; cell 0 ends at the step's start
    std::uint32_t transfer = 0;  ///< 0: the input is on the same rank; 1: it is not
    std::uint32_t backward = 0;
  };
  std::vector<std::uint32_t> row_begin;
  std::vector<Step> steps;
  std::size_t cells = 0;
};
[[nodiscard]] FlatSchedule flat_schedule(const Shape& shape);

struct FlatTimes {
  std::int64_t makespan = 0;
  double bubble_fraction = 0;
};

/// Order-driven recurrence by sweeps over the ranks, each of which retires whatever it can.
[[nodiscard]] FlatTimes run_flat(const FlatSchedule& schedule, std::vector<std::int64_t>& ends);

}  // namespace ppsim::bench
