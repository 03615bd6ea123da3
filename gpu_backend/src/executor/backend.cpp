#include "backend.hpp"

#include "device/cpu/cpu_backend.hpp"
#include "ppsim/gpu_backend/executor/backends.hpp"
#include "transport/emulated/emulated_transport.hpp"

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

/// Every rank in the time that it is given.
class EmulatedBackend final : public Backend {
 public:
  [[nodiscard]] std::unique_ptr<Worker> make_worker(const RunInput& input,
                                                    const MemoryPlan& /*memory*/) const override {
    return std::make_unique<IdleWorker>(input.program);
  }
  [[nodiscard]] std::unique_ptr<Transport> make_transport(const RunInput& input,
                                                          CompletionSink& sink) const override {
    return std::make_unique<EmulatedTransport>(input, sink);
  }
};

struct Name {
  std::string_view operator()(const CpuOptions& /*cpu*/) const { return "cpu"; }
  std::string_view operator()(const EmulatedOptions& /*emulated*/) const { return "emulated"; }
  std::string_view operator()(const CudaOptions& /*cuda*/) const { return "cuda"; }
};

struct Make {
  std::unique_ptr<Backend> operator()(const CpuOptions& /*cpu*/) const {
    return std::make_unique<CpuBackend>();
  }
  std::unique_ptr<Backend> operator()(const EmulatedOptions& /*emulated*/) const {
    return std::make_unique<EmulatedBackend>();
  }
  std::unique_ptr<Backend> operator()(const CudaOptions& /*cuda*/) const { return nullptr; }
};

}  // namespace

std::string_view backend_name(const BackendOptions& backend) { return std::visit(Name{}, backend); }

std::unique_ptr<Backend> make_backend(const BackendOptions& options) { return std::visit(Make{}, options); }

TransportCapabilities capabilities_of(const RunOptions& run) {
  TransportCapabilities capabilities = run.capabilities;
  const auto* const cuda = std::get_if<CudaOptions>(&run.backend);
  if (cuda == nullptr) return capabilities;
  // Copies are enqueued behind all that they wait for, and a graph has no launch order: none holds anything
  // up, and none may be counted on.
  if (cuda->transport == CudaTransport::copy || cuda->graphs)
    capabilities.launches = {};
  else
    capabilities.launches = {LaunchOrder::start, false, cuda->one_hardware_queue};
  capabilities.guaranteed_launches = capabilities.launches;
  capabilities.eager = cuda->transport == CudaTransport::nccl;
  return capabilities;
}

Expected<void> check_in_process(const TransportCapabilities& capabilities) {
  if (capabilities.residency) {
    return make_error(ErrorCode::bad_argument, "the in-process transport has no residency limit");
  }
  if (capabilities.captures_graphs) {
    return make_error(ErrorCode::bad_argument, "the in-process transport captures no graphs");
  }
  if (capabilities.credits && *capabilities.credits < 1) {
    return make_error(ErrorCode::bad_argument, "a channel needs at least 1 credit");
  }
  return {};
}

}  // namespace ppsim::gpu_backend
