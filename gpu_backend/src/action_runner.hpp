#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "ppsim/gpu_backend/device.hpp"
#include "ppsim/gpu_backend/execute.hpp"
#include "tensor_map.hpp"

namespace ppsim {

/// What is to run, with what arithmetic, and how.
struct RunInput {
  const Program& program;
  const StageModel& model;
  const RunOptions& options;
};

/// What each action does to the tensors, on the devices: its meaning apart from when it happens.
/// Different lanes call it at the same time; the Program's dependencies keep them off each other's tensors.
class ActionRunner {
 public:
  /// Requires: references that outlive the runner.
  ActionRunner(const RunInput& input, const std::vector<std::unique_ptr<Device>>& devices,
               const TensorMap& tensors);

  /// Fills what exists from the step's start: parameters, and batches that no LOAD fetches.
  void begin_step(int step, const TensorTable& table);
  /// Runs an instruction of compute or copy actions.
  void run(ActionPlace place);
  /// What a communication instruction posts, all of it transfers or one collective. An UNSHARD has done its
  /// part then.
  [[nodiscard]] std::vector<Transfer> transfers(ActionPlace place) const;
  [[nodiscard]] CollectiveCall collective(ActionPlace place);
  /// Takes the gradients of the last step that no OPT has consumed.
  void end_step();
  /// The gradients of the last step, as OPT found them where there is one.
  [[nodiscard]] std::vector<BlockGradients> gradients() const;

 private:
  /// A block and a rank that holds it.
  struct Share {
    RankId rank;
    BlockId block;
  };
  /// Gradients to hand out, and whether an OPT ends their life.
  struct Taken {
    BlockGradients gradients;
    bool optimized = false;
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
  [[nodiscard]] std::span<std::byte> own_norm(ActionPlace place, const Action& action);
  [[nodiscard]] double& squared_norm(RankId rank, int update);
  [[nodiscard]] Device& device(RankId rank) const { return *devices_[rank.index()]; }

  const Program& program_;
  const Pipeline& pipeline_;
  const StageModel& model_;
  const RunOptions& options_;
  const std::vector<std::unique_ptr<Device>>& devices_;
  const TensorMap& tensors_;
  std::vector<Share> shares_;
  std::map<Cell, Payload> host_copies_;
  std::vector<Taken> gradients_;  ///< by block, update, rank; each is written by one rank's compute queue
  std::vector<double> norms_;     ///< per rank and update, squared; kNoNorm before COLL "norm"
  bool last_step_ = false;
};

}  // namespace ppsim
