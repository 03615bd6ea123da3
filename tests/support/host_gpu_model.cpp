#include "support/host_gpu_model.hpp"

#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "support/host_kernels.hpp"
#include "support/parts_in_one.hpp"
#include "transformer/gpu/gpu_transformer.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

constexpr std::align_val_t kAlignment{64};

/// The few calls of the driver that stages make by themselves.
CudaTable host_memory() {
  CudaTable cuda;
  cuda.init = [](unsigned int) { return kCudaSuccess; };
  cuda.device_get = [](int* device, int ordinal) {
    *device = ordinal;
    return kCudaSuccess;
  };
  cuda.device_attribute = [](int* value, int, int) {
    *value = 9;
    return kCudaSuccess;
  };
  cuda.memory_allocate = [](CudaAddress* address, std::size_t bytes) {
    *address = reinterpret_cast<CudaAddress>(::operator new(bytes, kAlignment));
    return kCudaSuccess;
  };
  cuda.memory_free = [](CudaAddress address) {
    ::operator delete(reinterpret_cast<void*>(address), kAlignment);
    return kCudaSuccess;
  };
  cuda.copy_async = [](CudaAddress to, CudaAddress from, std::size_t bytes, CUstream_st*) {
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    return kCudaSuccess;
  };
  cuda.fill_async = [](CudaAddress memory, unsigned char value, std::size_t bytes, CUstream_st*) {
    std::memset(reinterpret_cast<void*>(memory), value, bytes);
    return kCudaSuccess;
  };
  return cuda;
}

class HostGpuModel final : public CpuStageModel {
 public:
  HostGpuModel(const TransformerConfig& config, const std::optional<HostCudnnOptions>& cudnn)
      : cpu_(make_transformer(config).value()),
        gpu_(make_gpu_transformer(
            config, {host_kernels(immediately()), [] { return host_cublaslt(immediately()); }, host_memory,
                     host_cudnn_loader(immediately(), cudnn)})) {}

  Expected<void> check(const Pipeline& pipeline) const override { return gpu_->check(pipeline); }
  Expected<void> check_actions(const Program& program) const override { return gpu_->check_actions(program); }
  SizeTable sizes(const Pipeline& pipeline) const override { return gpu_->sizes(pipeline); }
  void initialize(const Pipeline& pipeline, BlockId block, std::span<std::byte> parameters,
                  std::span<std::byte> optimizer_state) const override {
    {
      const std::scoped_lock lock(mutex_);
      blocks_[parameters.data()] = {&pipeline, block};
    }
    open(pipeline)->initialize(nullptr, block, parameters, optimizer_state);
  }
  void load(const Pipeline& pipeline, MicrobatchId mb, const ActionBuffers& buffers) const override {
    open(pipeline)->load(nullptr, mb, buffers);
  }
  void compute(const Pipeline& pipeline, const Action& action, const ActionBuffers& buffers) const override {
    open(pipeline)->compute(nullptr, action, buffers);
  }
  Bytes statistics_bytes(const Pipeline& pipeline, CollectiveId collective) const override {
    return gpu_->statistics_bytes(pipeline, collective);
  }
  void combine(const Pipeline& pipeline, CollectiveId collective,
               std::span<const CollectivePart> parts) const override {
    const PartsInOne copies(parts);
    open(pipeline)->combine(nullptr, collective, copies.in(copies.memory()));
    copies.bring_back();
  }
  /// `gradient_scale` is brought about by clipping: gradients of norm 1 are scaled down to it.
  void update(std::span<std::byte> parameters, std::span<std::byte> gradients,
              std::span<std::byte> optimizer_state, double gradient_scale) const override {
    const double one = 1;
    const auto [pipeline, block] = block_at(parameters.data());
    open(*pipeline)->update(nullptr, {block, parameters, gradients, optimizer_state, &one, gradient_scale});
  }
  void accumulate(std::span<std::byte> into, std::span<const std::byte> from) const override {
    open_any()->accumulate(nullptr, into, from);
  }
  double squared_norm(std::span<const std::byte> gradients) const override {
    double sum = 0;
    open_any()->add_squared_norm(nullptr, gradients, &sum);
    return sum;
  }
  double max_abs_difference(std::span<const std::byte> a, std::span<const std::byte> b) const override {
    return cpu_->max_abs_difference(a, b);
  }
  const GpuStageModel* on_gpu() const override { return gpu_.get(); }

 private:
  /// A block of a pipeline, as an update for a CPU does not name it.
  using PlacedBlock = std::pair<const Pipeline*, BlockId>;
  [[nodiscard]] PlacedBlock block_at(const std::byte* parameters) const {
    const std::scoped_lock lock(mutex_);
    return blocks_.at(parameters);
  }
  [[nodiscard]] std::unique_ptr<GpuStages> open(const Pipeline& pipeline) const {
    return gpu_->open(pipeline, {});
  }
  [[nodiscard]] std::unique_ptr<GpuStages> open_any() const { return open(make_chain(1, 1, 1).value()); }

  std::unique_ptr<CpuStageModel> cpu_;
  std::unique_ptr<GpuStageModel> gpu_;
  mutable std::mutex mutex_;
  mutable std::map<const std::byte*, PlacedBlock> blocks_;  ///< by where their parameters were initialized
};

}  // namespace

std::unique_ptr<CpuStageModel> host_gpu_model(const TransformerConfig& config,
                                              const std::optional<HostCudnnOptions>& cudnn) {
  return std::make_unique<HostGpuModel>(config, cudnn);
}

std::function<CudnnTable()> host_cudnn_loader(const HostQueue& queue,
                                              const std::optional<HostCudnnOptions>& options,
                                              const std::shared_ptr<HostCudnnBooks>& books) {
  return [=] {
    if (!options) throw BackendError(ErrorCode::io, "this machine has no cuDNN");
    return host_cudnn(queue, *options, books);
  };
}

}  // namespace ppsim::test
