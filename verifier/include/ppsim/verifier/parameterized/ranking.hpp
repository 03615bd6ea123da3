#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ppsim/verifier/parameterized/periodic.hpp"

namespace ppsim::verifier {

/// A number for every instance of every event of a periodic program, for every number k of periods:
/// instance i of event e has offset[e] + scale * (i + phase[e] * k).
struct Ranking {
  std::int64_t scale = 1;
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> phase;

  friend bool operator==(const Ranking&, const Ranking&) = default;
};

/// A ranking that every wait decreases, which no cycle of waits can do: the periodic program cannot deadlock,
/// for whatever number of periods. Found by longest paths over the events of one period, first in whole runs
/// through all microbatches (phases), then in microbatches. Returns: nothing where those paths have no end;
/// then the waits of some number of periods have a cycle, or only do not because instances are absent.
[[nodiscard]] std::optional<Ranking> find_ranking(const PeriodicProgram& family);

/// Looks at each wait alone: whether what waits has a larger number than what it waits for, for every
/// instance and every k >= family.first.
[[nodiscard]] bool ranks_all_waits(const PeriodicProgram& family, const Ranking& ranking);

}  // namespace ppsim::verifier

namespace ppsim {
using verifier::find_ranking;
using verifier::Ranking;
using verifier::ranks_all_waits;
}  // namespace ppsim
