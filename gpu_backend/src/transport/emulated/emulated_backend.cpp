#include "emulated_backend.hpp"

#include <condition_variable>
#include <mutex>

#include "emulated_transport.hpp"
#include "executor/worker.hpp"
#include "timer_queue.hpp"

namespace ppsim::gpu_backend {
namespace {

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

void EmulatedWorker::run(ActionPlace place) {
  const auto started = WallClock::now();
  const auto actions = program_.actions(place.instruction);
  const Nanoseconds cost = costs_(cost_class_of(actions, program_.instruction(place.instruction).form));
  if (cost == 0) return;
  ask_for_precise_waits();
  std::unique_lock lock(mutex_);
  over_.wait_until(lock, started + std::chrono::nanoseconds(cost), [&] { return interrupted_; });
}

void EmulatedWorker::interrupt() {
  const std::lock_guard lock(mutex_);
  interrupted_ = true;
  over_.notify_all();
}

}  // namespace

Expected<void> EmulatedBackend::check(const TransportCapabilities& capabilities) const {
  return check_in_process(capabilities);
}

std::unique_ptr<Worker> EmulatedBackend::make_worker(const RunInput& input,
                                                     const MemoryPlan& /*memory*/) const {
  return std::make_unique<EmulatedWorker>(input.program, costs_);
}

std::unique_ptr<Transport> EmulatedBackend::make_transport(const RunInput& input,
                                                           CompletionSink& sink) const {
  return std::make_unique<EmulatedTransport>(input.program, costs_, input.options.capabilities.credits, sink);
}

}  // namespace ppsim::gpu_backend
