#pragma once

#include <cstdint>
#include <vector>

#include "ppsim/core/program.hpp"
#include "ppsim/core/tables.hpp"

namespace ppsim {

/// An instruction that reads what is no tensor, since nothing has written it: an OFFLOAD of activations that
/// only a later R makes.
struct UnwrittenRead {
  SizeClass size_class;
  std::int32_t microbatch = -1;
  InstructionId reader;
  friend bool operator==(const UnwrittenRead&, const UnwrittenRead&) = default;
};

/// Every such read. The table of tensors does not hold them. Order: rank by rank, by size class and place.
[[nodiscard]] std::vector<UnwrittenRead> unwritten_reads(const Program& program);

}  // namespace ppsim
