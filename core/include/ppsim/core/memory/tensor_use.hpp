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

/// Whether several instructions write an input: outputs of several stages, part by part.
[[nodiscard]] bool comes_in_parts(const Tensor& tensor);

/// The writers that have to be complete before an instruction uses an input that comes in parts: all of them
/// for its stage; for a sibling that reads some of these outputs with it the RECVs of those alone.
[[nodiscard]] std::vector<InstructionId> writers_before(const Program& program, const TensorTable& table,
                                                        const Tensor& tensor, InstructionId user);

/// Whether the action drops the memory of a tensor that it uses, rather than be its last user.
[[nodiscard]] bool frees(const Action& action, const Tensor& tensor);

}  // namespace ppsim
