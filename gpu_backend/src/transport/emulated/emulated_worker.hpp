#pragma once

#include <condition_variable>
#include <mutex>

#include "executor/worker.hpp"

namespace ppsim::gpu_backend {

/// Does nothing for as long as every action takes.
class EmulatedWorker final : public Worker {
 public:
  /// Requires: references that outlive the worker.
  EmulatedWorker(const Program& program, const CostTable& costs) : program_(program), costs_(costs) {}

  void begin_step(int /*step*/) override {}
  /// The end is counted from the start of the action, so that what waking up takes does not add to it.
  void run(ActionPlace place) override;
  [[nodiscard]] std::vector<Transfer> transfers(ActionPlace place) override {
    return transfer_ends(program_, place);
  }
  [[nodiscard]] CollectiveCall collective(ActionPlace place) override {
    return collective_end(program_, place);
  }
  void freed(std::uint32_t /*tensor*/) override {}
  void interrupt() override;
  double end_step() override { return 0; }
  [[nodiscard]] std::vector<BlockGradients> gradients() const override { return {}; }

 private:
  const Program& program_;
  const CostTable& costs_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool interrupted_ = false;
};

}  // namespace ppsim::gpu_backend
