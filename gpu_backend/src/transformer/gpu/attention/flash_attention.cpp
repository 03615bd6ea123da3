#include "flash_attention.hpp"

#include <cmath>
#include <limits>

#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend::cuda {
namespace {

constexpr std::int64_t kBytesOfNumber = 2;
// The least float32: an infinity less another one would not be a number.
constexpr float kForbidden = std::numeric_limits<float>::lowest();
constexpr float kOne = 1;

/// "attention of 4 sequences of 1024 tokens, 16 heads of 64 by cuDNN 9.19.0".
std::string text_of(const CudnnTable& cudnn, const AttentionSizes& d) {
  return "attention of " + std::to_string(d.sequences) + " sequences of " + std::to_string(d.sequence) +
         " tokens, " + std::to_string(d.heads) + " heads of " + std::to_string(d.head_size) + " by " +
         cudnn_text(cudnn.version());
}

CudnnArgument argument(AttentionTensor id, const void* memory) {
  return {static_cast<std::int64_t>(id), memory};
}

/// Queries (part 0), keys or values of a matrix that has them side by side.
const void* part(const void* joint, std::int64_t hidden, std::int64_t number) {
  return static_cast<const std::byte*>(joint) + number * hidden * kBytesOfNumber;
}

CudnnObject device_object(const CudnnObjects& objects, const std::string& json) {
  CudnnObject device = objects.make(cudnn_object::kDevice);
  if (json.empty()) {
    constexpr std::int32_t kFirst = 0;
    objects.set(device.get(), cudnn_attribute::kDeviceOrdinal, cudnn_type::kInt32, kFirst);
  } else {
    objects.set(device.get(), cudnn_attribute::kDeviceJson,
                {cudnn_type::kChar, static_cast<std::int64_t>(json.size()), json.data()});
  }
  objects.finish(device.get());
  return device;
}

}  // namespace

FlashAttention::FlashAttention(const CudnnTable& cudnn, const AttentionSizes& d,
                               const AttentionWorkspace& workspace, const AttentionPlans& plans)
    : objects_(cudnn, text_of(cudnn, d)),
      hidden_(d.hidden()),
      scale_(1 / std::sqrt(static_cast<float>(d.head_size))),
      handle_(open()),
      forward_(objects_, attention_forward(objects_, d), {.handle = handle_.get()}, plans.forward),
      backward_(objects_, attention_backward(objects_, d), {.handle = handle_.get()}, plans.backward) {
  if (forward_.workspace_bytes() <= workspace.forward && backward_.workspace_bytes() <= workspace.backward)
    return;
  throw BackendError(ErrorCode::bad_argument, objects_.what() +
                                                  " needs more workspace on this device than on "
                                                  "device 0: the devices differ");
}

FlashAttention::Handle FlashAttention::open() const {
  cudnnContext* handle = nullptr;
  objects_.check(objects_.table().create(&handle));
  return {handle, [destroy = objects_.table().destroy](cudnnContext* one) { destroy(one); }};
}

void FlashAttention::execute(GpuStream stream, const CudnnPlan& plan,
                             std::initializer_list<CudnnArgument> arguments, void* workspace) const {
  objects_.check(objects_.table().set_stream(handle_.get(), stream));
  plan.execute(handle_.get(), arguments, workspace);
}

void FlashAttention::forward(GpuStream stream, const AttentionMemory& m) const {
  execute(
      stream, forward_,
      {argument(AttentionTensor::queries, part(m.joint, hidden_, 0)),
       argument(AttentionTensor::keys, part(m.joint, hidden_, 1)),
       argument(AttentionTensor::values, part(m.joint, hidden_, 2)),
       argument(AttentionTensor::attended, m.attended), argument(AttentionTensor::statistics, m.statistics),
       argument(AttentionTensor::scale, &scale_), argument(AttentionTensor::forbidden, &kForbidden)},
      m.workspace);
}

void FlashAttention::backward(GpuStream stream, const AttentionMemory& m) const {
  execute(
      stream, backward_,
      {argument(AttentionTensor::queries, part(m.joint, hidden_, 0)),
       argument(AttentionTensor::keys, part(m.joint, hidden_, 1)),
       argument(AttentionTensor::values, part(m.joint, hidden_, 2)),
       argument(AttentionTensor::attended, m.attended), argument(AttentionTensor::statistics, m.statistics),
       argument(AttentionTensor::d_attended, m.d_attended), argument(AttentionTensor::sums, m.sums),
       argument(AttentionTensor::d_queries, part(m.d_joint, hidden_, 0)),
       argument(AttentionTensor::d_keys, part(m.d_joint, hidden_, 1)),
       argument(AttentionTensor::d_values, part(m.d_joint, hidden_, 2)),
       argument(AttentionTensor::scale, &scale_), argument(AttentionTensor::forbidden, &kForbidden),
       argument(AttentionTensor::one, &kOne)},
      m.workspace);
}

AttentionWorkspace attention_workspace(const CudnnTable& cudnn, const AttentionSizes& d,
                                       const std::string& device_json, const AttentionPlans& plans) {
  const CudnnObjects objects(cudnn, text_of(cudnn, d));
  const CudnnObject device = device_object(objects, device_json);
  const CudnnTarget target{.device = device.get()};
  return {CudnnPlan(objects, attention_forward(objects, d), target, plans.forward).workspace_bytes(),
          CudnnPlan(objects, attention_backward(objects, d), target, plans.backward).workspace_bytes()};
}

}  // namespace ppsim::gpu_backend::cuda
