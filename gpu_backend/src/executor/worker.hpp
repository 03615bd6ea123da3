#pragma once

#include <vector>

#include "action_place.hpp"
#include "action_times.hpp"
#include "ppsim/gpu_backend/executor/execute.hpp"
#include "ppsim/gpu_backend/transport/transport.hpp"

namespace ppsim::gpu_backend {

/// A Program to run, its arithmetic and options, and the part of it that runs here.
struct RunInput {
  const Program& program;
  const CpuStageModel& model;
  const RunOptions& options;
  LocalRanks here;
  ActionTimes& times;
};

/// Carries out the instructions of this process's ranks, apart from when they happen. Different queues call
/// it at the same time; the Program's dependencies keep them off each other's tensors. Errors: throws
/// BackendError.
class Worker {
 public:
  virtual ~Worker() = default;

  virtual void begin_step(int step) = 0;
  /// Runs an instruction of compute or copy actions, and returns when it is complete.
  virtual void run(ActionPlace place) = 0;
  /// The operations that a communication instruction posts: transfers, or one collective.
  [[nodiscard]] virtual std::vector<Transfer> transfers(ActionPlace place) = 0;
  [[nodiscard]] virtual CollectiveCall collective(ActionPlace place) = 0;
  /// The last user of a tensor is complete.
  virtual void freed(std::uint32_t tensor) = 0;
  /// The step is done. Returns: the sum of the losses of its microbatches.
  virtual double end_step() = 0;
  /// The gradients of the last step, as OPT found them where there is one.
  [[nodiscard]] virtual std::vector<BlockGradients> gradients() const = 0;
};

/// The ends of an instruction of transfers, without their payloads.
[[nodiscard]] std::vector<Transfer> transfer_ends(const Program& program, ActionPlace place);
/// The part of a rank in the collective of an instruction, without its payload.
[[nodiscard]] CollectiveCall collective_end(const Program& program, ActionPlace place);

}  // namespace ppsim::gpu_backend
