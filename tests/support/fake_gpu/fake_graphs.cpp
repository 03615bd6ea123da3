#include <algorithm>

#include "support/fake_gpu/answers.hpp"
#include "support/fake_gpu/fake_gpu.hpp"

namespace ppsim::test {
namespace {

constexpr unsigned int kGroupSize = 8;

}  // namespace

void FakeGpu::fill_graphs(CudaTable& cuda, int process) {
  cuda.capture_begin = [this](CUstream_st* handle, int) {
    const Lock lock(mutex_);
    FakeStream* const on = stream(handle, "cuStreamBeginCapture");
    if (on == nullptr) return kInvalidHandle;
    capturing_.insert(std::this_thread::get_id());
    machine_.begin_capture(*on);
    return kCudaSuccess;
  };
  cuda.capture_end = [this](CUstream_st* handle, CUgraph_st** graph) {
    const Lock lock(mutex_);
    FakeStream* const on = stream(handle, "cuStreamEndCapture");
    if (const auto own = capturing_.find(std::this_thread::get_id()); own != capturing_.end())
      capturing_.erase(own);
    FakeGraph* const made = on == nullptr ? nullptr : machine_.end_capture(*on);
    *graph = reinterpret_cast<CUgraph_st*>(made);
    return made == nullptr ? kInvalidValue : kCudaSuccess;
  };
  cuda.graph_instantiate = [this, process](CUgraphExec_st** out, CUgraph_st* graph, CudaFlags) {
    const Lock lock(mutex_);
    creating(process, "a graph");
    for (const std::string& task : reinterpret_cast<FakeGraph*>(graph)->unjoined) {
      faults_.add(FaultKind::bad_capture, task + " is not joined before its capture ends");
    }
    executables_.push_back({reinterpret_cast<FakeGraph*>(graph)});
    *out = reinterpret_cast<CUgraphExec_st*>(&executables_.back());
    return kCudaSuccess;
  };
  cuda.graph_upload = [](CUgraphExec_st*, CUstream_st*) { return kCudaSuccess; };
  cuda.graph_launch = [this](CUgraphExec_st* handle, CUstream_st* where) {
    const Lock lock(mutex_);
    auto* const one = reinterpret_cast<Executable*>(handle);
    FakeStream* const on = stream(where, "cuGraphLaunch");
    if (on == nullptr) return kInvalidHandle;
    if (!one->alive) {
      faults_.add(FaultKind::use_after_free, "cuGraphLaunch of a graph that is gone");
      return kInvalidHandle;
    }
    machine_.launch(*one->graph, *on);
    return kCudaSuccess;
  };
  cuda.graph_executable_destroy = [this](CUgraphExec_st* handle) {
    const Lock lock(mutex_);
    bool& alive = reinterpret_cast<Executable*>(handle)->alive;
    if (!alive) faults_.add(FaultKind::double_free, "an executable graph");
    alive = false;
    return kCudaSuccess;
  };
  cuda.graph_destroy = [this](CUgraph_st* handle) {
    const Lock lock(mutex_);
    bool& alive = reinterpret_cast<FakeGraph*>(handle)->alive;
    if (!alive) faults_.add(FaultKind::double_free, "a graph");
    alive = false;
    return kCudaSuccess;
  };
}

/// As on compute capability 9.0: multiprocessors come in groups of eight, some belong to none, and parts are
/// made of whole groups.
void FakeGpu::fill_green(CudaTable& cuda, int process) {
  cuda.device_resource = [this](int, CudaResource* resource, int type) {
    resource->type = type;
    resource->multiprocessors = static_cast<unsigned int>(options_.multiprocessors);
    resource->smallest_part = resource->alignment = kGroupSize;
    return type == kCudaResourceMultiprocessors ? kCudaSuccess : kInvalidValue;
  };
  cuda.resource_split = [this](CudaResource* result, unsigned int* groups, const CudaResource* input,
                               CudaResource*, unsigned int, unsigned int minimum) {
    if (input->type != kCudaResourceMultiprocessors || minimum > input->multiprocessors) return kInvalidValue;
    const unsigned int each = (minimum + kGroupSize - 1) / kGroupSize;
    *groups = std::min(*groups, static_cast<unsigned int>(options_.groups) / each);
    for (unsigned int i = 0; i < *groups; ++i) {
      result[i].type = kCudaResourceMultiprocessors;
      result[i].multiprocessors = each * kGroupSize;
    }
    return kCudaSuccess;
  };
  cuda.resource_describe = [](CUdevResourceDesc_st** description, CudaResource* parts, unsigned int count) {
    if (count != 1 || parts->type != kCudaResourceMultiprocessors) return kInvalidValue;
    *description = reinterpret_cast<CUdevResourceDesc_st*>(std::uintptr_t{parts->multiprocessors});
    return kCudaSuccess;
  };
  cuda.green_context_create = [this](CUgreenCtx_st** context, CUdevResourceDesc_st* description, int,
                                     unsigned int flags) {
    const Lock lock(mutex_);
    if (description == nullptr || flags != kCudaGreenDefaultStream) return kInvalidValue;
    *context = reinterpret_cast<CUgreenCtx_st*>(green_.size() + 1);
    green_[*context] = true;
    return kCudaSuccess;
  };
  cuda.green_context_destroy = [this](CUgreenCtx_st* context) {
    const Lock lock(mutex_);
    if (!green_[context]) faults_.add(FaultKind::double_free, "a green context");
    if (machine_.streams_of(context) > 0)
      faults_.add(FaultKind::leak, "streams of a green context that goes before them");
    green_[context] = false;
    return kCudaSuccess;
  };
  cuda.green_context_stream = [this, process](CUstream_st** out, CUgreenCtx_st* context, unsigned int flags,
                                              int) {
    const Lock lock(mutex_);
    creating(process, "a stream");
    if (!green_[context]) return kInvalidHandle;
    if (flags != kCudaStreamNonBlocking) return kInvalidValue;
    const int device = current_device();
    *out =
        reinterpret_cast<CUstream_st*>(machine_.make_stream({.name = "stream " + std::to_string(streams_++),
                                                             .device = device,
                                                             .process = process,
                                                             .green = context}));
    return kCudaSuccess;
  };
}

}  // namespace ppsim::test
