#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/memory/tensors.hpp"

namespace ppsim::test {

/// A Program in the notation of instruction_text, `0SEND_F0@1` naming communicator 1. Throws with the reason
/// when it does not parse or build.
struct HandProgram {
  PipelineSpec pipeline;
  std::vector<Communicator> communicators = {};
  std::vector<std::vector<std::string>> rows = {};

  [[nodiscard]] Program build() const;
};

/// A chain; stage s on rank s mod ranks.
PipelineSpec chain_spec(int ranks, int stages, int microbatches);

/// Communicators of the given ranks, each with a queue of its own, named c0, c1, ...
std::vector<Communicator> communicators(std::initializer_list<std::initializer_list<int>> members);

/// The instructions at these positions of a rank's list.
std::vector<InstructionId> at(const Program& program, int rank, std::initializer_list<int> positions);

/// The tensors of a rank with this size class kind and subject, in table order.
std::vector<Tensor> tensors_of(const TensorTable& table, int rank, TensorKind kind, int subject);

/// "1,3 -> 3,5", positions of writers and users; "start" and "end" where the tensor outlives its
/// instructions.
std::string lifetime(const Program& program, const TensorTable& table, const Tensor& tensor);

/// Lifetimes of tensors_of, joined by "; ".
std::string lifetimes(const Program& program, int rank, TensorKind kind, int subject);

}  // namespace ppsim::test
