#pragma once

#include <vector>

#include "ppsim/core/ir/action.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/memory/tensors.hpp"

namespace ppsim {

/// An instruction that reads what is no tensor, since nothing has written it: an OFFLOAD of activations that
/// only a later R makes.
struct UnwrittenRead {
  SizeClass size_class;
  std::int32_t microbatch = -1;
  InstructionId reader;
  friend bool operator==(const UnwrittenRead&, const UnwrittenRead&) = default;
};

/// The tensors of a Program, and every read of what is none.
struct TensorUses {
  TensorTable table;
  std::vector<UnwrittenRead> unwritten;  ///< rank by rank, by size class and place
};
[[nodiscard]] TensorUses tensor_uses(const Program& program);

/// Whether the action drops the memory of a tensor that it uses, rather than be its last user.
[[nodiscard]] bool frees(const Action& action, const Tensor& tensor);

}  // namespace ppsim
