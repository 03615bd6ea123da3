#include "gpu/device_model.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "support/parts_in_one.hpp"
#include "transformer/gpu/gpu_transformer.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

/// The primary context of device 0, current in the thread that made it.
class Device {
 public:
  Device() : cuda(load_cuda()) {
    check_cuda(cuda, cuda.init(0), "starting the driver");
    check_cuda(cuda, cuda.device_get(&device_, 0), "asking for device 0");
    CUctx_st* context = nullptr;
    check_cuda(cuda, cuda.primary_context_retain(&context, device_), "opening device 0");
    check_cuda(cuda, cuda.context_set_current(context), "entering device 0");
    check_cuda(cuda, cuda.stream_create(&stream, kCudaStreamNonBlocking, 0), "making a stream");
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() {
    for (const std::span<std::byte> chunk : pinned_) cuda.host_free(chunk.data());
    cuda.stream_destroy(stream);
    cuda.primary_context_release(device_);
  }
  void wait() const {
    int state = kCudaNotReady;
    while (state == kCudaNotReady) state = cuda.stream_query(stream);
    check_cuda(cuda, state, "running kernels");
  }
  /// Pinned memory, which the program on the strict fake copies from, too, until it is given back.
  [[nodiscard]] std::span<std::byte> pinned(std::size_t bytes) {
    const auto room = [&] { return chunk_ < pinned_.size() ? pinned_[chunk_].size() - taken_ : 0; };
    for (; chunk_ < pinned_.size() && room() < bytes; taken_ = 0) ++chunk_;
    if (chunk_ == pinned_.size()) {
      constexpr std::size_t kChunk = std::size_t{16} << 20;
      void* made = nullptr;
      const std::size_t size = std::max(bytes, kChunk);
      check_cuda(cuda, cuda.host_allocate(&made, size, 0), "allocating pinned memory");
      pinned_.emplace_back(static_cast<std::byte*>(made), size);
    }
    const std::span<std::byte> taken = pinned_[chunk_].subspan(taken_, bytes);
    taken_ += bytes;
    return taken;
  }
  void give_back() { chunk_ = taken_ = 0; }

  CudaTable cuda;
  GpuStream stream = nullptr;

 private:
  int device_ = 0;
  std::vector<std::span<std::byte>> pinned_;
  std::size_t chunk_ = 0, taken_ = 0;  ///< where free memory begins
};

/// Copies of host memory on the device, for the time of one call.
class Copies {
 public:
  explicit Copies(Device& device) : device_(device) {}
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;
  ~Copies() {
    for (const Copy& copy : copies_) device_.cuda.memory_free(copy.address);
    device_.give_back();
  }

  /// Two tensors that are one in the host's memory are one on the device.
  std::span<std::byte> of(std::span<std::byte> host) {
    if (host.empty()) return {};
    for (const Copy& copy : copies_) {
      if (copy.host.data() == host.data()) return on_device(copy);
    }
    Copy copy{host, device_.pinned(host.size()), 0};
    std::copy(host.begin(), host.end(), copy.pinned.begin());
    const CudaTable& cuda = device_.cuda;
    check_cuda(cuda, cuda.memory_allocate(&copy.address, host.size()), "allocating");
    copies_.push_back(copy);
    move(copy.address, address(copy.pinned.data()), host.size());
    return on_device(copy);
  }
  void bring_back() {
    for (const Copy& copy : copies_) move(address(copy.pinned.data()), copy.address, copy.host.size());
    device_.wait();
    for (const Copy& copy : copies_) std::copy(copy.pinned.begin(), copy.pinned.end(), copy.host.begin());
  }

 private:
  struct Copy {
    std::span<std::byte> host, pinned;
    CudaAddress address;
  };
  static CudaAddress address(const void* memory) { return reinterpret_cast<CudaAddress>(memory); }
  static std::span<std::byte> on_device(const Copy& copy) {
    return {reinterpret_cast<std::byte*>(copy.address), copy.host.size()};
  }
  void move(CudaAddress to, CudaAddress from, std::size_t bytes) {
    check_cuda(device_.cuda, device_.cuda.copy_async(to, from, bytes, device_.stream), "copying");
  }

  Device& device_;
  std::vector<Copy> copies_;
};

class DeviceModel final : public CpuStageModel {
 public:
  explicit DeviceModel(const TransformerConfig& config)
      : cpu_(make_transformer(config).value()), gpu_(make_gpu_transformer(config, machine_libraries())) {}

  Expected<void> check(const Pipeline& pipeline) const override { return gpu_->check(pipeline); }
  Expected<void> check_actions(const Program& program) const override { return gpu_->check_actions(program); }
  SizeTable sizes(const Pipeline& pipeline) const override { return gpu_->sizes(pipeline); }
  void initialize(const Pipeline& pipeline, BlockId block, std::span<std::byte> parameters,
                  std::span<std::byte> optimizer_state) const override {
    blocks_[parameters.data()] = {&pipeline, block};
    Copies copies(device_);
    stages(pipeline).initialize(device_.stream, block, copies.of(parameters), copies.of(optimizer_state));
    copies.bring_back();
  }
  void load(const Pipeline& pipeline, MicrobatchId mb, const ActionBuffers& b) const override {
    Copies copies(device_);
    std::int64_t step = step_of(b);
    ActionBuffers there;
    there.x = copies.of(b.x);
    there.step = number(copies.of(std::as_writable_bytes(std::span(&step, 1))));
    there.slice = b.slice;
    stages(pipeline).load(device_.stream, mb, there);
    copies.bring_back();
  }
  void compute(const Pipeline& pipeline, const Action& action, const ActionBuffers& b) const override {
    Copies copies(device_);
    std::int64_t step = step_of(b);
    ActionBuffers there{copies.of(b.parameters),
                        copies.of(b.gradients),
                        copies.of(b.optimizer_state),
                        copies.of(b.x),
                        copies.of(b.y),
                        copies.of(b.saved_for_input),
                        copies.of(b.saved_for_weight),
                        copies.of(b.dy),
                        copies.of(b.dx),
                        copies.of(b.inner_gradients),
                        copies.of(b.workspace),
                        number(copies.of(std::as_writable_bytes(std::span(&step, 1)))),
                        b.slice,
                        {},
                        copies.of(b.kv_gradient)};
    for (const std::span<std::byte> saved : b.earlier) there.earlier.push_back(copies.of(saved));
    stages(pipeline).compute(device_.stream, action, there);
    copies.bring_back();
  }
  Bytes statistics_bytes(const Pipeline& pipeline, CollectiveId collective) const override {
    return gpu_->statistics_bytes(pipeline, collective);
  }
  void combine(const Pipeline& pipeline, CollectiveId collective,
               std::span<const CollectivePart> parts) const override {
    const PartsInOne in_one(parts);
    Copies copies(device_);
    stages(pipeline).combine(device_.stream, collective, in_one.in(copies.of(in_one.memory())));
    copies.bring_back();
    in_one.bring_back();
  }
  /// `gradient_scale` is brought about by clipping: gradients of norm 1 are scaled down to it.
  void update(std::span<std::byte> parameters, std::span<std::byte> gradients,
              std::span<std::byte> optimizer_state, double gradient_scale) const override {
    Copies copies(device_);
    double one = 1;
    const auto norm = copies.of(std::as_writable_bytes(std::span(&one, 1)));
    const auto [pipeline, block] = blocks_.at(parameters.data());
    stages(*pipeline).update(device_.stream,
                             {block, copies.of(parameters), copies.of(gradients), copies.of(optimizer_state),
                              reinterpret_cast<const double*>(norm.data()), gradient_scale});
    copies.bring_back();
  }
  void accumulate(std::span<std::byte> into, std::span<const std::byte> from) const override {
    std::vector<std::byte> source(from.begin(), from.end());
    Copies copies(device_);
    any_stages().accumulate(device_.stream, copies.of(into), copies.of(source));
    copies.bring_back();
  }
  double squared_norm(std::span<const std::byte> gradients) const override {
    std::vector<std::byte> source(gradients.begin(), gradients.end());
    double sum = 0;
    Copies copies(device_);
    const auto result = copies.of(std::as_writable_bytes(std::span(&sum, 1)));
    any_stages().add_squared_norm(device_.stream, copies.of(source),
                                  reinterpret_cast<double*>(result.data()));
    copies.bring_back();
    return sum;
  }
  double max_abs_difference(std::span<const std::byte> a, std::span<const std::byte> b) const override {
    return cpu_->max_abs_difference(a, b);
  }

 private:
  static std::int64_t step_of(const ActionBuffers& b) { return b.step == nullptr ? 0 : *b.step; }
  static const std::int64_t* number(std::span<const std::byte> bytes) {
    return reinterpret_cast<const std::int64_t*>(bytes.data());
  }
  GpuStages& stages(const Pipeline& pipeline) const {
    auto& opened = stages_[&pipeline];
    if (!opened) opened = gpu_->open(pipeline, {});
    return *opened;
  }
  GpuStages& any_stages() const {
    if (stages_.empty()) throw std::logic_error("no stage was initialized");
    return *stages_.begin()->second;
  }

  mutable Device device_;
  std::unique_ptr<CpuStageModel> cpu_;
  std::unique_ptr<GpuStageModel> gpu_;
  mutable std::map<const Pipeline*, std::unique_ptr<GpuStages>> stages_;
  /// By where their parameters were initialized.
  mutable std::map<const std::byte*, std::pair<const Pipeline*, BlockId>> blocks_;
};

}  // namespace

std::optional<std::string> why_no_gpu() {
  if (!machine_libraries().kernels) return "this build has no kernels";
  try {
    const CudaTable cuda = load_cuda();
    int devices = 0;
    if (cuda.init(0) != kCudaSuccess || cuda.device_count(&devices) != kCudaSuccess || devices == 0) {
      return "the driver finds no device";
    }
    static_cast<void>(load_cublaslt());
  } catch (const BackendError& missing) {
    return missing.what();
  }
  return std::nullopt;
}

std::unique_ptr<CpuStageModel> device_model(const TransformerConfig& config) {
  return std::make_unique<DeviceModel>(config);
}

}  // namespace ppsim::test
