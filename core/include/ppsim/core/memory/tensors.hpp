#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "ppsim/core/ir/units.hpp"

namespace ppsim {

/// A tensor of one rank and its lifetime: allocated when the first of its writers starts (or at the step's
/// start), freed when the last of its users completes (or at the step's end).
struct Tensor {
  SizeClass size_class;
  RankId rank;
  /// Version of parameters, update of gradients; -1 for what is per stage or block alone.
  std::int32_t microbatch = -1;
  bool from_start = false;
  bool to_end = false;
  std::uint32_t first_writer = 0;  ///< into TensorTable::writers
  std::uint32_t writer_count = 0;
  std::uint32_t first_user = 0;  ///< into TensorTable::users
  std::uint32_t user_count = 0;
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

/// All tensors of a Program, rank by rank, in issue order of their first writer. Writers and users are in
/// issue order. Users are all instructions that touch the tensor, its writers too: so a tensor that nothing
/// reads lives until its writers complete, and one whose last user of the table does not occur until the last
/// that does.
struct TensorTable {
  std::vector<Tensor> tensors;
  std::vector<InstructionId> writers;
  std::vector<InstructionId> users;

  [[nodiscard]] std::span<const InstructionId> writers_of(const Tensor& t) const {
    return {writers.data() + t.first_writer, t.writer_count};
  }
  [[nodiscard]] std::span<const InstructionId> users_of(const Tensor& t) const {
    return {users.data() + t.first_user, t.user_count};
  }
};

/// The lifetimes of docs/ir.md, section 5. A tensor that occurs twice because the Program repeats an action
/// is one tensor with more writers and users. What no instruction writes is no tensor, and an action on a
/// rank where it does not belong touches none.
///
/// A copy that is freed and allocated again is two tensors: saved activations end with the last user issued
/// before RELOAD, or the owner's RECV_A, which begins the next copy; gathered parameters end with RESHARD;
/// every compute action has its workspace. One version of the parameters is updated in place when
/// there is one update and every microbatch reads version 0; else OPT writes version update + 1 while it
/// reads the one before.
[[nodiscard]] TensorTable tensor_table(const Program& program);

/// Size of each tensor of the table, in table order.
[[nodiscard]] std::vector<Bytes> tensor_sizes(const TensorTable& table, const SizeTable& sizes);

/// Size class of what a SEND puts on the wire: boundary_output of its stage for SEND_F (the one that names
/// the other end where there is such a size), incoming_gradient of
/// the receiver for SEND_B, lent_activations for SEND_A.
[[nodiscard]] SizeClass payload_class(const Action& send);

}  // namespace ppsim
