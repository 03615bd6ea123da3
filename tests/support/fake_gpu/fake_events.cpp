#include "support/fake_gpu/answers.hpp"
#include "support/fake_gpu/fake_gpu.hpp"

namespace ppsim::test {
namespace {

/// Null where the stream may record the event.
const char* why_not_recorded(const FakeEvent& event, const FakeStream& stream) {
  if (event.lender != nullptr) return "cuEventRecord of an event that another process records";
  if (event.device != stream.device) return "cuEventRecord of an event of another context than its stream's";
  return nullptr;
}

}  // namespace

FakeEvent* FakeGpu::event(CUevent_st* handle, const char* call, int process) {
  auto* const found = reinterpret_cast<FakeEvent*>(handle);
  if (found != nullptr && found->alive && found->process != process)
    faults_.add(FaultKind::bad_call, std::string(call) + " on an event of another process, by " + mark());
  if (found != nullptr && found->alive) return found;
  faults_.add(FaultKind::use_after_free, std::string(call) + " on an event that is gone, by " + mark());
  return nullptr;
}

void FakeGpu::fill_events(CudaTable& cuda, int process) {
  cuda.event_create = [this, process](CUevent_st** out, unsigned int flags) {
    const Lock lock(mutex_);
    creating(process, "an event");
    needs_context("cuEventCreate");
    const bool timing = (flags & kCudaEventDisableTiming) == 0;
    const bool shared = (flags & kCudaEventInterprocess) != 0;
    if (shared && timing) return kInvalidValue;
    *out = reinterpret_cast<CUevent_st*>(machine_.make_event(
        {.device = current_device(), .process = process, .timing = timing, .shared = shared}));
    return kCudaSuccess;
  };
  cuda.event_destroy = [this](CUevent_st* handle) {
    const Lock lock(mutex_);
    auto* const one = reinterpret_cast<FakeEvent*>(handle);
    if (one == nullptr || !one->alive) {
      faults_.add(FaultKind::double_free, "an event");
      return kInvalidHandle;
    }
    if (one->borrowers > 0)
      faults_.add(FaultKind::use_after_free, "an event is destroyed while another process has it open");
    if (one->lender != nullptr) --one->lender->borrowers;
    one->alive = false;
    return kCudaSuccess;
  };
  cuda.event_record = [this, process](CUevent_st* handle, CUstream_st* on, unsigned int flags) {
    const Lock lock(mutex_);
    FakeEvent* const one = event(handle, "cuEventRecord", process);
    FakeStream* const where = stream(on, "cuEventRecord");
    if (one == nullptr || where == nullptr) return kInvalidHandle;
    if (const char* const fault = why_not_recorded(*one, *where)) {
      faults_.add(FaultKind::bad_call, fault);
      return kInvalidHandle;
    }
    if (one->shared && where->capture != nullptr)
      faults_.add(FaultKind::bad_capture,
                  where->name + " records in a capture what other processes wait for");
    machine_.record(*one, *where, flags == kCudaEventRecordExternal);
    return kCudaSuccess;
  };
  cuda.event_query = [this, process](CUevent_st* handle) {
    const Lock lock(mutex_);
    frees_or_asks("cuEventQuery");
    FakeEvent* const one = event(handle, "cuEventQuery", process);
    if (one == nullptr) return kInvalidHandle;
    return machine_.complete(*one) ? kCudaSuccess : kCudaNotReady;
  };
  cuda.event_elapsed = [this, process](float* milliseconds, CUevent_st* from, CUevent_st* to) {
    const Lock lock(mutex_);
    FakeEvent* const start = event(from, "cuEventElapsedTime", process);
    FakeEvent* const end = event(to, "cuEventElapsedTime", process);
    if (start == nullptr || end == nullptr || !start->timing || !end->timing) return kInvalidHandle;
    if (!machine_.complete(*start) || !machine_.complete(*end)) return kCudaNotReady;
    *milliseconds = static_cast<float>(machine_.time_of(*end) - machine_.time_of(*start)) / 1e6F;
    return kCudaSuccess;
  };
}

}  // namespace ppsim::test
