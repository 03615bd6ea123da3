#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ppsim/core/ir/tables.hpp"
#include "ppsim/core/ir/units.hpp"
#include "ppsim/verifier/parameterized/periodic.hpp"

namespace ppsim::verifier {

/// A cutoff of a family: states of its members have counterparts in the member with one period less.
struct Cutoff {
  std::int64_t from = 0;  ///< for every k > from
  std::vector<Bytes>
      growth;  ///< per rank: how much more a state of k periods needs than its counterpart, at most
};

/// For families in which no event can get far ahead of another one. Within `spread` instances of each other,
/// all counters of a state of a long member are either far from their ends or far from 0. In the first case
/// they are a state with one period less as they are, in the second one when each is lowered by one; every
/// wait and every tensor is looked at for what "far" has to be.
/// Returns: nothing where that cannot be shown.
[[nodiscard]] std::optional<Cutoff> find_cutoff(const PeriodicProgram& family, const SizeTable& sizes);

}  // namespace ppsim::verifier
