#pragma once

#include <cstdint>

#include <rapidcheck.h>

#include "ppsim/core/ir/schedule.hpp"

namespace ppsim::test {

/// Which backward actions a random schedule has.
enum class BackwardMode : std::uint8_t {
  full,   ///< B everywhere
  split,  ///< I and W everywhere
  mixed,  ///< either, drawn for each (stage, microbatch)
  none,   ///< forward only
};

/// The contents that a random schedule may have; every file format can hold the defaults.
struct RandomShape {
  int ranks = 2;
  int chunks = 1;  ///< stages = ranks x chunks, dealt to the ranks at random
  int microbatches = 3;
  int slices = 1;
  BackwardMode backward = BackwardMode::mixed;
  bool recompute = false;   ///< R before some backward actions
  bool overlaps = false;    ///< some F and B of one rank as OVERLAP_F_B
  bool idle_cells = false;  ///< some empty cells
  bool general = false;     ///< skip edges, two routes, shared blocks, versions, collectives
};
std::ostream& operator<<(std::ostream& out, const RandomShape& shape);

/// A valid schedule that some timing can run to its end: the rows are cut from one random order of all
/// actions that respects every dependency. Same shape and seed, same schedule, on any machine.
[[nodiscard]] Schedule random_schedule(const RandomShape& shape, std::uint64_t seed);

/// Random shapes of at most 4 ranks, 3 chunks and 5 microbatches, without what only some formats can hold.
[[nodiscard]] rc::Gen<RandomShape> plain_shapes();
/// Shapes with slices, recompute and general pipelines too.
[[nodiscard]] rc::Gen<RandomShape> general_shapes();

/// Schedules of such shapes; shrink towards small shapes.
[[nodiscard]] rc::Gen<Schedule> schedules(rc::Gen<RandomShape> shapes);

}  // namespace ppsim::test
