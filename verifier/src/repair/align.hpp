#pragma once

#include <optional>
#include <vector>

#include "ppsim/verifier/repair/repair.hpp"

namespace ppsim::verifier::repairing {

/// A Program whose channels are received in the order in which they are sent in, and the receives that moved.
struct Aligned {
  Program program;
  std::vector<Change> changes;
};

/// Receives move forward only, so that they stay before what uses them. Nothing where the two ends of some
/// channel do not name the same messages, or a receive that would move belongs to a group.
[[nodiscard]] std::optional<Aligned> receives_in_order(const Program& program);

}  // namespace ppsim::verifier::repairing
