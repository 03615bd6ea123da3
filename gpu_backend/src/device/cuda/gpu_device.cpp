#include "gpu_device.hpp"

#include <algorithm>
#include <cmath>

#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {
namespace {

/// Groups of multiprocessors come in this size where a driver does not say in which.
constexpr unsigned int kGroup = 8;

std::string rank_text(RankId rank, const std::string& what) {
  return "rank " + std::to_string(rank.value()) + ": " + what;
}

}  // namespace

GpuDevice::GpuDevice(const CudaTable& cuda, int ordinal, int parts) : cuda_(cuda), ordinal_(ordinal) {
  check(cuda.device_get(&device_, ordinal), "opening it");
  CUctx_st* context = nullptr;
  check(cuda.primary_context_retain(&context, device_), "its context");
  context_ = {context, [&cuda, device = device_](CUctx_st*) { cuda.primary_context_release(device); }};
  make_current();
  check(cuda.device_attribute(&multiprocessors_, kCudaAttributeMultiprocessors, device_),
        "its multiprocessors");
  check(cuda.stream_priorities(&lowest_priority_, &highest_priority_), "its priorities");
  if (parts > 1) split(parts);
}

void GpuDevice::make_current() const {
  check(cuda_.context_set_current(context_.get()), "making its context current");
}

void GpuDevice::split(int parts) {
  for (CudaResource& part : equal_parts(parts)) {
    multiprocessors_ = static_cast<int>(part.multiprocessors);
    CUdevResourceDesc_st* description = nullptr;
    check(cuda_.resource_describe(&description, &part, 1), "describing a part of it");
    CUgreenCtx_st* green = nullptr;
    check(cuda_.green_context_create(&green, description, device_, kCudaGreenDefaultStream),
          "a green context");
    parts_.emplace_back(green, [this](CUgreenCtx_st* context) { cuda_.green_context_destroy(context); });
  }
}

/// The driver may round a part up, and has its own idea of which multiprocessors make one: fewer parts than
/// are left by division may come out, and then smaller ones are asked for.
std::vector<CudaResource> GpuDevice::equal_parts(int parts) const {
  CudaResource all;
  check(cuda_.device_resource(device_, &all, kCudaResourceMultiprocessors), "its resources");
  const auto wanted = static_cast<unsigned int>(parts);
  const unsigned int step = all.alignment == 0 ? kGroup : all.alignment;
  const unsigned int smallest = std::max(step, all.smallest_part);
  for (unsigned int each = all.multiprocessors / wanted / step * step; each >= smallest; each -= step) {
    unsigned int groups = wanted;
    std::vector<CudaResource> split(wanted);
    CudaResource rest;
    const int result = cuda_.resource_split(split.data(), &groups, &all, &rest, 0, each);
    if (result == kCudaNoSuchResources) continue;
    check(result, "splitting it");
    if (groups == wanted) return split;
  }
  throw BackendError(ErrorCode::bad_argument, std::to_string(parts) + " ranks do not fit on a device with " +
                                                  std::to_string(all.multiprocessors) + " multiprocessors");
}

StreamHandle GpuDevice::make_stream(int part, StreamPriority priority, const std::string& rank) const {
  CUstream_st* stream = nullptr;
  const int number = priority == StreamPriority::highest ? highest_priority_ : lowest_priority_;
  const int result = parts_.empty()
                         ? cuda_.stream_create(&stream, kCudaStreamNonBlocking, number)
                         : cuda_.green_context_stream(&stream, parts_[static_cast<std::size_t>(part)].get(),
                                                      kCudaStreamNonBlocking, number);
  check_cuda(cuda_, result, rank + ": a stream");
  return {stream, [this](CUstream_st* s) { cuda_.stream_destroy(s); }};
}

void GpuDevice::enable_peer(const GpuDevice& other) const {
  if (other.ordinal_ == ordinal_) return;
  int can = 0;
  check(cuda_.can_access_peer(&can, device_, other.device_), "access to another device");
  if (can == 0) {
    throw BackendError(ErrorCode::io, "device " + std::to_string(ordinal_) + " cannot access device " +
                                          std::to_string(other.ordinal_));
  }
  make_current();
  const int result = cuda_.context_enable_peer(other.context_.get(), 0);
  if (result != kCudaPeerAlreadyEnabled) check(result, "access to another device");
}

void GpuDevice::check(int result, const char* what) const {
  if (result != kCudaSuccess) check_cuda(cuda_, result, "device " + std::to_string(ordinal_) + ": " + what);
}

BackendError error_of(RankId rank, const std::string& what, const BackendError& error) {
  const std::string place = rank_text(rank, "");
  std::string text = error.error().message;
  if (text.starts_with(place)) text.erase(0, place.size());
  return {error.error().code, place + what + ": " + text};
}

RankDevice::RankDevice(const GpuDevice& device, RankId rank, int part)
    : device_(device), rank_(rank), part_(part) {}

void RankDevice::check(int result, const char* what) const {
  if (result != kCudaSuccess) check_cuda(cuda(), result, rank_text(rank_, what));
}

std::span<std::byte> RankDevice::allocate(Bytes bytes, const char* what) {
  if (bytes == 0) return {};
  make_current();
  const auto size = static_cast<std::size_t>(bytes);
  CudaAddress address = 0;
  const int result = cuda().memory_allocate(&address, size);
  if (result != kCudaSuccess) check(result, allocation_text(cuda(), result, size, what).c_str());
  auto* const memory = reinterpret_cast<std::byte*>(address);
  memory_.emplace_back(memory, [this](std::byte* m) { cuda().memory_free(address_of(m)); });
  return {memory, size};
}

std::span<std::byte> RankDevice::allocate_host(Bytes bytes) {
  if (bytes == 0) return {};
  make_current();
  void* memory = nullptr;
  check(cuda().host_allocate(&memory, static_cast<std::size_t>(bytes), 0),
        ("allocating " + std::to_string(bytes) + " bytes of pinned host memory").c_str());
  memory_.emplace_back(static_cast<std::byte*>(memory), [this](std::byte* m) { cuda().host_free(m); });
  return {static_cast<std::byte*>(memory), static_cast<std::size_t>(bytes)};
}

StreamHandle RankDevice::make_stream(StreamPriority priority) const {
  make_current();
  return device_.make_stream(part_, priority, "rank " + std::to_string(rank_.value()));
}

EventHandle RankDevice::make_event(bool timing) const {
  return make_event_of(timing ? kCudaEventDefault : kCudaEventDisableTiming);
}

EventHandle RankDevice::make_shared_event() const {
  return make_event_of(kCudaEventDisableTiming | kCudaEventInterprocess);
}

EventHandle RankDevice::make_event_of(unsigned int flags) const {
  make_current();
  CUevent_st* event = nullptr;
  check(cuda().event_create(&event, flags), "an event");
  return {event, [this](CUevent_st* e) { cuda().event_destroy(e); }};
}

void RankDevice::copy(GpuStream stream, std::span<std::byte> to, std::span<const std::byte> from) const {
  if (to.size() != from.size()) {
    throw BackendError(ErrorCode::bad_argument,
                       rank_text(rank_, "a copy of " + std::to_string(from.size()) + " bytes into " +
                                            std::to_string(to.size()) + " bytes"));
  }
  if (to.empty()) return;
  check(cuda().copy_async(address_of(to.data()), address_of(from.data()), to.size(), stream), "a copy");
}

void RankDevice::fill(GpuStream stream, std::span<std::byte> memory, std::byte value) const {
  if (memory.empty()) return;
  check(
      cuda().fill_async(address_of(memory.data()), static_cast<unsigned char>(value), memory.size(), stream),
      "filling memory");
}

void RankDevice::write(GpuStream stream, std::span<std::byte> to, std::int64_t value) const {
  check(cuda().stream_write_value(stream, address_of(to.data()), static_cast<CudaValue>(value), 0),
        "writing a number");
}

void RankDevice::record(CUevent_st* event, GpuStream stream, unsigned int flags) const {
  check(cuda().event_record(event, stream, flags), "recording an event");
}

void RankDevice::wait(GpuStream stream, CUevent_st* event) const {
  check(cuda().stream_wait_event(stream, event, 0), "waiting for an event");
}

bool RankDevice::complete(CUevent_st* event) const {
  const int result = cuda().event_query(event);
  if (result == kCudaNotReady) return false;
  check(result, "the device");
  return true;
}

Nanoseconds RankDevice::between(CUevent_st* start, CUevent_st* end) const {
  constexpr double kNanosecondsPerMillisecond = 1e6;
  float milliseconds = 0;
  check(cuda().event_elapsed(&milliseconds, start, end), "the time between two events");
  return std::llround(static_cast<double>(milliseconds) * kNanosecondsPerMillisecond);
}

}  // namespace ppsim::gpu_backend
