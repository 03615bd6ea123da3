#pragma once

#include <bitset>
#include <cstdint>
#include <vector>

#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim {

/// One use of a tensor by an instruction.
enum class Touch : std::uint8_t {
  read,
  read_given,  ///< read; where nothing writes the tensor, it exists from the step's start
  write,
  save,     ///< write, by an F; not where an R writes the tensor
  renew,    ///< write a new copy; earlier touches are of another tensor
  release,  ///< read; later touches are of another tensor
  exists,   ///< no instruction: allocated from the step's start
  keep,     ///< no instruction: allocated to the step's end
};

/// One touch; size class and microbatch say of which tensor.
struct TensorTouch {
  SizeClass size_class;
  std::int32_t microbatch = -1;
  InstructionId instruction;
  Touch touch = Touch::read;
};

/// Kinds of tensors, by their numbers.
using TensorKinds = std::bitset<kTensorKindCount>;

/// Every touch of the tensors of a rank that are of these kinds, sorted by size class, microbatch and place
/// in the list: the table of lifetimes of docs/ir.md, section 5, action by action.
[[nodiscard]] std::vector<TensorTouch> tensor_touches(const Program& program, RankId rank,
                                                      const TensorKinds& kinds);

}  // namespace ppsim
