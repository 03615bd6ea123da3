#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "ppsim/gpu_backend/device/device.hpp"
#include "stage_model/tensor_map.hpp"
#include "worker.hpp"

namespace ppsim::gpu_backend {

using Devices = std::vector<std::unique_ptr<Device>>;

/// Carries out each action on the tensors, on a device for each rank with one pool of memory; the ranks of
/// other processes have neither.
class ActionRunner final : public Worker {
 public:
  /// Requires: references that outlive the runner.
  ActionRunner(const RunInput& input, const MemoryPlan& memory, Devices devices);

  /// Fills what exists from the step's start: parameters, and batches that no LOAD fetches.
  void begin_step(int step) override;
  void run(ActionPlace place) override;
  [[nodiscard]] std::vector<Transfer> transfers(ActionPlace place) override;
  /// An UNSHARD has done its part then.
  [[nodiscard]] CollectiveCall collective(ActionPlace place) override;
  /// Overwrites the tensor where the run poisons.
  void freed(std::uint32_t tensor) override;
  void interrupt() override {}
  /// Takes the gradients that no OPT has consumed.
  double end_step() override;
  [[nodiscard]] std::vector<BlockGradients> gradients() const override;

 private:
  /// A block and a rank that holds it.
  struct Share {
    RankId rank;
    BlockId block;
  };
  /// Gradients to hand out, the losses behind them, and whether an OPT ends their life.
  struct Taken {
    BlockGradients gradients;
    bool optimized = false;
    double loss = 0;  ///< of the step
  };
  using Cell = std::tuple<std::int32_t, std::int32_t, std::int32_t>;  ///< stage, microbatch, slice
  static Cell cell(const Action& a) { return {a.subject, a.microbatch, a.slice}; }

  void find_shares();
  void find_actions();
  void reserve_host_copy(RankId rank, const Action& offload);
  void keep_newest_parameters();
  void run_action(ActionPlace place, const Action& action);
  void compute(ActionPlace place, const Action& action);
  void clear_gradients(ActionPlace place, const Action& action);
  void unshard(ActionPlace place, StageId stage);
  void optimize(ActionPlace place, const Action& action);
  [[nodiscard]] Taken* find_gradients(RankId rank, BlockId block, int update);
  void take(Taken& taken);
  void move(RankId rank, const Payload& to, const Payload& from);
  void add_part(ActionPlace place, const Action& action, CollectiveCall& call) const;
  [[nodiscard]] std::span<std::byte> own_norm(ActionPlace place, const Action& action);
  [[nodiscard]] double& squared_norm(RankId rank, int update);
  [[nodiscard]] bool here(RankId rank) const { return devices_[rank.index()] != nullptr; }
  [[nodiscard]] Device& device(RankId rank) const { return *devices_[rank.index()]; }

  const Program& program_;
  const Pipeline& pipeline_;
  const CpuStageModel& model_;
  const RunOptions& options_;
  const MemoryPlan& memory_;
  Devices devices_;
  SizeTable sizes_;
  TensorMap tensors_;
  std::vector<Share> shares_;
  std::map<Cell, Payload> host_copies_;
  std::vector<Taken> gradients_;  ///< by block, update, rank; each is written by one rank's compute queue
  std::vector<double> norms_;     ///< per rank and update, squared; kNoNorm before COLL "norm"
  std::int64_t step_ = 0;         ///< that all actions of it are told
};

}  // namespace ppsim::gpu_backend
