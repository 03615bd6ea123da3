#pragma once

#include <vector>

#include "ppsim/core/memory/tensors.hpp"

namespace ppsim {

/// The tensors of a Program that take memory, in the order of its table, and what each takes. Kinds to which
/// a table of sizes gives no bytes are left out: no walk over a run would count them.
struct SizedTensors {
  TensorTable table;
  std::vector<Bytes> sizes;  ///< parallel to table.tensors
};
[[nodiscard]] SizedTensors sized_tensors(const Program& program, const SizeTable& sizes);

}  // namespace ppsim
