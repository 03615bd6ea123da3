#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "executor/action_place.hpp"
#include "executor/memory/memory_plan.hpp"
#include "ppsim/gpu_backend/stage_model/stage_model.hpp"
#include "ppsim/gpu_backend/transport/transport.hpp"

namespace ppsim::gpu_backend {

/// The tensors of LOAD, of a slice or, where it is negative, of a whole microbatch.
[[nodiscard]] ActionBuffers batch_buffers(std::span<std::byte> x, std::int32_t slice,
                                          const std::int64_t* step);

/// The tensors that a collective of a microbatch reads and writes on one rank.
struct CollectiveBuffers {
  CollectivePart part;
  std::span<std::byte> result;  ///< on the rank of the stage that reads the sum
  RankId receiver;              ///< that rank, if anything is summed
};

/// Finds the memory of the tensors that actions touch. A class may have several tensors over a step (before
/// OFFLOAD and after RELOAD): an action touches the newest one whose first writer stands at or before it in
/// the list; in a list out of order, where none is before it, the oldest of those after it.
/// Errors: throws BackendError for a tensor that an action needs and none makes, and for pieces that do not
/// fit.
class TensorMap {
 public:
  /// Requires: references that outlive the map; one pool per rank.
  TensorMap(const Program& program, const MemoryPlan& plan, const SizeTable& sizes,
            std::vector<std::span<std::byte>> pools);

  /// The tensors of F, B, I, W or R.
  [[nodiscard]] ActionBuffers buffers(ActionPlace place, const Action& action) const;
  /// Where the gradient of x goes as well as to ActionBuffers::dx: the input is a sum of what several stages
  /// make, and each of them gets the gradient of the sum.
  [[nodiscard]] std::vector<std::span<std::byte>> copies_of_dx(ActionPlace place, const Action& action) const;
  /// The tensors of a COLL of a microbatch, with so many bytes of statistics.
  [[nodiscard]] CollectiveBuffers collective(ActionPlace place, const Action& action, Bytes statistics) const;
  /// The tensor that a SEND reads or a RECV writes.
  [[nodiscard]] Payload payload(ActionPlace place, const Action& transfer) const;
  /// The saved activations of a stage, which OFFLOAD reads and RELOAD writes.
  [[nodiscard]] Payload saved(ActionPlace place, const Action& action) const;
  [[nodiscard]] std::array<Bytes, 2> saved_sizes(const Action& action) const;
  [[nodiscard]] std::span<std::byte> batch(ActionPlace place, const Action& load) const;
  /// Between UNSHARD and RESHARD; empty elsewhere, and where actions read one of several versions.
  [[nodiscard]] std::span<std::byte> gathered(ActionPlace place, StageId stage) const;
  [[nodiscard]] std::span<std::byte> optimizer_state(RankId rank, BlockId block) const;

  /// The tensor of a version, or of the newest one before it.
  [[nodiscard]] std::span<std::byte> parameters(RankId rank, BlockId block, int version) const;
  /// The gradients of a block that one update sums; empty where the rank has none.
  [[nodiscard]] std::span<std::byte> gradients(RankId rank, BlockId block, int update) const;
  /// True of the instruction at which these gradients come to be.
  [[nodiscard]] bool makes_gradients(ActionPlace place, BlockId block, int update) const;
  /// Where B and W of a microbatch add to the gradients of a block: those of its update, or of itself where
  /// REDUCE_GRAD sums each microbatch's.
  [[nodiscard]] std::span<std::byte> summand(RankId rank, BlockId block, MicrobatchId mb) const;
  /// True of the instruction at which these come to be.
  [[nodiscard]] bool makes_summand(ActionPlace place, BlockId block, MicrobatchId mb) const;

  [[nodiscard]] std::span<std::byte> memory(std::uint32_t tensor) const;
  /// The memory that holds all tensors of a rank.
  [[nodiscard]] std::span<std::byte> pool(RankId rank) const { return pools_[rank.index()]; }

 private:
  /// A tensor under what it is looked up by.
  struct Entry {
    RankId rank;
    SizeClass size_class;
    std::int32_t microbatch = -1;
    std::int32_t since = -1;  ///< instruction of the first writer; -1: the step's start
    std::uint32_t tensor = 0;
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };

  [[nodiscard]] std::optional<std::uint32_t> find(ActionPlace place, const SizeClass& key,
                                                  std::int32_t mb) const;
  [[nodiscard]] std::span<std::byte> any(ActionPlace place, const SizeClass& key, std::int32_t mb) const;
  [[nodiscard]] std::span<std::byte> need(ActionPlace place, const Action& action,
                                          const SizeClass& key) const;
  [[nodiscard]] const Entry* newest_until(const Entry& limit) const;
  [[nodiscard]] const Entry* oldest_after(const Entry& limit) const;
  [[nodiscard]] bool made_again(ActionPlace place, const Action& action) const;

  void block_buffers(ActionPlace place, const Action& action, ActionBuffers& out) const;
  void activation_buffers(ActionPlace place, const Action& action, ActionBuffers& out) const;
  void slice_buffers(ActionPlace place, const Action& action, ActionBuffers& out) const;
  void gradient_buffers(ActionPlace place, const Action& action, ActionBuffers& out) const;
  [[nodiscard]] std::span<std::byte> input_gradient(ActionPlace place, const Action& action,
                                                    StageId producer) const;
  void inputs(ActionPlace place, const Action& action, ActionBuffers& out) const;
  void side_buffers(ActionPlace place, const Action& action, ActionBuffers& out) const;
  [[nodiscard]] bool is_side(const Action& transfer) const;
  void input_gradients(ActionPlace place, const Action& action, ActionBuffers& out) const;
  [[nodiscard]] std::span<std::byte> input_from(ActionPlace place, const Action& action,
                                                StageId producer) const;
  [[nodiscard]] std::span<std::byte> received_part(ActionPlace place, const Action& action,
                                                   StageId from) const;

  const Program& program_;
  const Pipeline& pipeline_;
  const MemoryPlan& plan_;
  const SizeTable& sizes_;
  std::vector<std::span<std::byte>> pools_;
  std::vector<Entry> entries_;  ///< ascending
};

}  // namespace ppsim::gpu_backend
