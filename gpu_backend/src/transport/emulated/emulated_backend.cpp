#include "emulated_backend.hpp"

#include "emulated_transport.hpp"
#include "executor/worker.hpp"

namespace ppsim::gpu_backend {
namespace {

/// Does nothing: that actions take their time is the executor's work.
class IdleWorker final : public Worker {
 public:
  /// Requires: a Program that outlives the worker.
  explicit IdleWorker(const Program& program) : program_(program) {}

  void begin_step(int /*step*/) override {}
  void run(ActionPlace /*place*/) override {}
  [[nodiscard]] std::vector<Transfer> transfers(ActionPlace place) override {
    return transfer_ends(program_, place);
  }
  [[nodiscard]] CollectiveCall collective(ActionPlace place) override {
    return collective_end(program_, place);
  }
  void freed(std::uint32_t /*tensor*/) override {}
  double end_step() override { return 0; }
  [[nodiscard]] std::vector<BlockGradients> gradients() const override { return {}; }

 private:
  const Program& program_;
};

}  // namespace

Expected<void> EmulatedBackend::check(const TransportCapabilities& capabilities) const {
  return check_in_process(capabilities);
}

std::unique_ptr<Worker> EmulatedBackend::make_worker(const RunInput& input,
                                                     const MemoryPlan& /*memory*/) const {
  return std::make_unique<IdleWorker>(input.program);
}

std::unique_ptr<Transport> EmulatedBackend::make_transport(const RunInput& input,
                                                           CompletionSink& sink) const {
  return std::make_unique<EmulatedTransport>(input, sink);
}

}  // namespace ppsim::gpu_backend
