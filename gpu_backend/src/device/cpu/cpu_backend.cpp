#include "cpu_backend.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <vector>

#include "executor/rank_actions.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "stage_model/gradient_norm.hpp"
#include "transport/emulated/emulated_transport.hpp"
#include "transport/in_process/in_process_transport.hpp"

namespace ppsim::gpu_backend {
namespace {

constexpr std::align_val_t kAlignment{64};
/// A value that shows a use of memory that nothing has written: a NaN in float32, -1 in integers.
constexpr std::byte kPoison{0xFF};

/// Host memory and the calling thread.
class HostDevice final : public Device {
 public:
  explicit HostDevice(RankId rank) : rank_(rank) {}

  [[nodiscard]] RankId rank() const override { return rank_; }
  [[nodiscard]] std::span<std::byte> allocate(Bytes bytes, const char* what) override;
  [[nodiscard]] std::span<std::byte> allocate_host(Bytes bytes) override {
    return allocate(bytes, "what leaves the pool");
  }
  void copy(GpuStream stream, std::span<std::byte> to, std::span<const std::byte> from) const override;
  void fill(GpuStream /*stream*/, std::span<std::byte> memory, std::byte value) const override {
    std::ranges::fill(memory, value);
  }
  void write(GpuStream /*stream*/, std::span<std::byte> to, std::int64_t value) const override {
    std::memcpy(to.data(), &value, sizeof value);
  }

 private:
  struct AlignedDelete {
    void operator()(std::byte* memory) const { ::operator delete[](memory, kAlignment); }
  };
  RankId rank_;
  std::vector<std::unique_ptr<std::byte[], AlignedDelete>> memory_;
};

std::span<std::byte> HostDevice::allocate(Bytes bytes, const char* what) {
  const auto size = static_cast<std::size_t>(bytes);
  auto* memory = static_cast<std::byte*>(::operator new[](size, kAlignment, std::nothrow));
  if (memory == nullptr) {
    throw BackendError(ErrorCode::io,
                       "cannot allocate " + std::to_string(bytes) + " bytes of host memory for " + what);
  }
  memory_.emplace_back(memory);
  return {memory, size};
}

void HostDevice::copy(GpuStream /*stream*/, std::span<std::byte> to, std::span<const std::byte> from) const {
  if (to.size() != from.size()) {
    throw BackendError(ErrorCode::bad_argument, "a copy of " + std::to_string(from.size()) + " bytes into " +
                                                    std::to_string(to.size()) + " bytes");
  }
  std::ranges::copy(from, to.begin());
}

/// A model's arithmetic on the calling thread.
class CpuStages final : public Stages {
 public:
  CpuStages(const Pipeline& pipeline, const CpuStageModel& model) : pipeline_(pipeline), model_(model) {}

  void initialize(GpuStream /*stream*/, BlockId block, std::span<std::byte> parameters,
                  std::span<std::byte> optimizer_state) override {
    model_.initialize(pipeline_, block, parameters, optimizer_state);
  }
  void load(GpuStream /*stream*/, MicrobatchId mb, const ActionBuffers& buffers) override {
    model_.load(pipeline_, mb, buffers);
  }
  void compute(GpuStream /*stream*/, const Action& action, const ActionBuffers& buffers) override {
    model_.compute(pipeline_, action, buffers);
  }
  void update(GpuStream /*stream*/, const UpdateBuffers& b) override {
    const double scale = b.squared_norm == nullptr ? 1.0 : clip_scale(*b.squared_norm, b.largest_norm);
    model_.update(b.parameters, b.gradients, b.optimizer_state, scale);
  }
  void add_squared_norm(GpuStream /*stream*/, std::span<const std::byte> gradients, double* sum) override {
    *sum += model_.squared_norm(gradients);
  }

 private:
  const Pipeline& pipeline_;
  const CpuStageModel& model_;
};

/// The ranks of this process, each on host memory of its own; threads call it for what they run.
class CpuWorker final : public Worker {
 public:
  /// Requires: references that outlive it.
  CpuWorker(const RunInput& input, const MemoryPlan& memory)
      : options_(input.options),
        here_(input.here),
        memory_(memory),
        sizes_(input.model.sizes(input.program.pipeline())),
        tensors_(input.program, memory, sizes_, make_pools()),
        stages_(input.program.pipeline(), input.model) {
    for (HostDevice& device : devices_)
      ranks_.emplace_back(ActionInput{input.program, input.model, input.options, tensors_}, device, stages_);
  }

  void begin_step(int step) override {
    last_ = step + 1 == options_.steps;
    for (RankActions& rank : ranks_) {
      rank.begin_step(step, nullptr, memory_.table);
      rank.begin_pass(last_);
    }
  }
  void run(ActionPlace place) override { of(place.rank).run(place.instruction, nullptr); }
  [[nodiscard]] std::vector<Transfer> transfers(ActionPlace place) override {
    return of(place.rank).transfers(place.instruction);
  }
  [[nodiscard]] CollectiveCall collective(ActionPlace place) override {
    return of(place.rank).collective(place.instruction, nullptr);
  }
  /// Overwrites the tensor where the run poisons.
  void freed(std::uint32_t tensor) override {
    const RankId rank = memory_.table.tensors[tensor].rank;
    if (options_.poison) devices_[number(rank)].fill(nullptr, tensors_.memory(tensor), kPoison);
  }
  double end_step() override {
    for (RankActions& rank : ranks_) {
      rank.end_step(nullptr);
      if (last_) rank.end_run(nullptr);
    }
    return sum_of_losses(ranks_);
  }
  [[nodiscard]] std::vector<BlockGradients> gradients() const override { return all_gradients(ranks_); }

 private:
  /// One pool for each rank of the Program, empty for those of other processes. Filling it also makes the
  /// system provide its pages before the first step.
  std::vector<std::span<std::byte>> make_pools() {
    std::vector<std::span<std::byte>> pools(memory_.slots.pool_bytes.size());
    for (int r = here_.begin; r < here_.end; ++r) {
      HostDevice& device = devices_.emplace_back(RankId(r));
      pools[device.rank().index()] = device.allocate(memory_.slots.pool_bytes[device.rank()], "a pool");
      device.fill(nullptr, pools[device.rank().index()], options_.poison ? kPoison : std::byte{0});
    }
    return pools;
  }
  [[nodiscard]] std::size_t number(RankId rank) const {
    return static_cast<std::size_t>(rank.value() - here_.begin);
  }
  [[nodiscard]] RankActions& of(RankId rank) { return ranks_[number(rank)]; }

  const RunOptions& options_;
  LocalRanks here_;
  const MemoryPlan& memory_;
  SizeTable sizes_;
  std::deque<HostDevice> devices_;
  TensorMap tensors_;
  CpuStages stages_;
  std::deque<RankActions> ranks_;
  bool last_ = false;  ///< the step is the last of the run
};

}  // namespace

std::unique_ptr<Worker> CpuBackend::make_worker(const RunInput& input, const MemoryPlan& memory) const {
  return std::make_unique<CpuWorker>(input, memory);
}

std::unique_ptr<Transport> CpuBackend::make_transport(const RunInput& input, CompletionSink& sink) const {
  if (input.times.given()) return std::make_unique<EmulatedTransport>(input, sink);
  return std::make_unique<InProcessTransport>(input.program, input.model, input.options.capabilities.credits,
                                              sink);
}

}  // namespace ppsim::gpu_backend
