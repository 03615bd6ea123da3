#include "support/fake_gpu/fake_gpu.hpp"

#include <algorithm>
#include <cstring>

#include "support/fake_gpu/answers.hpp"

namespace ppsim::test {
namespace {

/// The driver's texts for the errors that tests cause.
struct KnownError {
  int number;
  const char* name;
  const char* text;
};
constexpr KnownError kKnownErrors[] = {
    {kCudaOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}};
KnownError error_of(int error) {
  for (const KnownError& one : kKnownErrors) {
    if (one.number == error) return one;
  }
  return {error, "CUDA_ERROR", "refused by the fake"};
}

/// Contexts are numbers: 1 + ordinal of the device.
CUctx_st* context_of(int device) {
  return reinterpret_cast<CUctx_st*>(static_cast<std::uintptr_t>(device + 1));
}
int device_of(CUctx_st* context) { return static_cast<int>(reinterpret_cast<std::uintptr_t>(context)) - 1; }

void fill_errors(CudaTable& cuda) {
  cuda.error_name = [](int error, const char** name) {
    *name = error_of(error).name;
    return kCudaSuccess;
  };
  cuda.error_text = [](int error, const char** text) {
    *text = error_of(error).text;
    return kCudaSuccess;
  };
}

}  // namespace

FakeGpu::FakeGpu(const FakeGpuOptions& options)
    : options_(options),
      memory_(faults_, options.pinned_folder),
      machine_(faults_, memory_, options.one_queue),
      nccl_({faults_, machine_, ends_, options.transfer_ns,
             [this](int process, auto what) { count(process, what); },
             [this](int process, const std::string& what) { creating(process, what); },
             [this](int process) { return in_step(process); },
             [this] { return environment_["NCCL_LAUNCH_ORDER_IMPLICIT"] == "1"; }}) {
  if (options.one_queue) environment_["CUDA_DEVICE_MAX_CONNECTIONS"] = "1";
}

GpuApi FakeGpu::api(int host, const std::string& machine) {
  GpuApi api;
  const int first = host * options_.devices;
  const int process = [&] {
    const Lock lock(mutex_);
    hosts_.push_back(host);
    contexts_.resize(std::max(contexts_.size(), static_cast<std::size_t>(first + options_.devices)), 0);
    return static_cast<int>(hosts_.size()) - 1;
  }();
  fill_devices(api.cuda, first);
  fill_memory(api.cuda, process);
  fill_streams(api.cuda, process);
  fill_events(api.cuda, process);
  fill_ipc(api.cuda, process);
  fill_values(api.cuda);
  fill_graphs(api.cuda, process);
  fill_green(api.cuda, process);
  fill_communicators(api.nccl, process, machine);
  fill_operations(api.nccl);
  fill_host(api, process);
  return api;
}

FakeStream* FakeGpu::stream(CUstream_st* handle, const char* call) {
  needs_context(call);
  auto* const found = reinterpret_cast<FakeStream*>(handle);
  if (found != nullptr && found->alive) return found;
  faults_.add(FaultKind::use_after_free, std::string(call) + " on a stream that is gone, by " + mark());
  return nullptr;
}

std::string FakeGpu::mark() {
  const std::vector<std::string>& own = marks_[std::this_thread::get_id()].open;
  return own.empty() ? "the host" : own.back();
}

/// Whether a process is in a step: inside the mark of that name, on any thread of its host.
bool FakeGpu::in_step(int process) const {
  return std::any_of(marks_.begin(), marks_.end(), [process](const auto& thread) {
    const auto& [owner, open] = thread.second;
    return owner == process && std::find(open.begin(), open.end(), "PP:step") != open.end();
  });
}

void FakeGpu::count(int process, std::size_t FakeCounts::*what) {
  ++(books_.all.*what);
  if (!in_step(process)) return;
  ++(books_.in_steps.*what);
  ++(books_.of_actions[mark()].*what);
}

void FakeGpu::creating(int process, const std::string& what) {
  if (in_step(process)) faults_.add(FaultKind::lazy_creation, what + " is made inside a step, by " + mark());
}

/// A thread has none until it makes one current.
void FakeGpu::needs_context(const char* call) {
  if (current_[std::this_thread::get_id()] != nullptr) return;
  faults_.add(FaultKind::bad_call, std::string(call) + " without a current context, by " + mark());
}

/// Refuses calls that a thread must not make while it captures.
void FakeGpu::frees_or_asks(const char* call) {
  if (!capturing_.contains(std::this_thread::get_id())) return;
  faults_.add(FaultKind::bad_capture, std::string(call) + " by a thread that captures, by " + mark());
}

int FakeGpu::allocate(std::size_t bytes, const FakeMemory::Wanted& wanted, std::byte** out) {
  creating(wanted.process, wanted.what);
  needs_context("an allocation");
  frees_or_asks("an allocation");
  count(wanted.process, &FakeCounts::allocations);
  if (allocated_ + bytes > options_.memory) return kCudaOutOfMemory;
  allocated_ += bytes;
  *out = memory_.allocate(bytes, wanted);
  return kCudaSuccess;
}

void FakeGpu::know(const Pipeline& pipeline) {
  const Lock lock(mutex_);
  ends_.know(pipeline);
}

void FakeGpu::launch(CUstream_st* handle, TaskDraft kernel) {
  const Lock lock(mutex_);
  FakeStream* const on = stream(handle, "a kernel");
  if (on == nullptr) return;
  const bool loads = !kernel.kernel.empty() && loaded_.emplace(on->process, kernel.kernel).second;
  if (loads) creating(on->process, "the kernel " + kernel.kernel);
  kernel.name = mark() + " on " + on->name;
  count(on->process, &FakeCounts::launches);
  machine_.enqueue(*on, std::move(kernel));
}

void FakeGpu::check_teardown() {
  const Lock lock(mutex_);
  memory_.report_leaks();
  machine_.report_leaks();
  nccl_.report_leaks();
  for (const Executable& one : executables_) {
    if (one.alive) faults_.add(FaultKind::leak, "an executable graph");
  }
  for (const auto& [context, alive] : green_) {
    if (alive) faults_.add(FaultKind::leak, "a green context");
  }
  for (const int retained : contexts_) {
    if (retained != 0) faults_.add(FaultKind::leak, "a primary context");
  }
}

void FakeGpu::fill_devices(CudaTable& cuda, int first) {
  fill_errors(cuda);
  fill_contexts(cuda, first);
  cuda.init = [](unsigned int) { return kCudaSuccess; };
  cuda.driver_version = [](int* version) {
    *version = 13000;
    return kCudaSuccess;
  };
  cuda.device_count = [this](int* count) {
    *count = options_.devices;
    return kCudaSuccess;
  };
  cuda.device_get = [this](int* device, int ordinal) {
    *device = ordinal;
    return ordinal < options_.devices ? kCudaSuccess : kInvalidValue;
  };
  cuda.device_name = [](char* name, int length, int) {
    std::strncpy(name, "strict fake", static_cast<std::size_t>(length));
    return kCudaSuccess;
  };
  cuda.device_attribute = [this](int* value, int attribute, int) {
    *value = attribute == kCudaAttributeMultiprocessors ? options_.multiprocessors
             : attribute == kCudaAttributeMajor         ? 9
                                                        : 0;
    return kCudaSuccess;
  };
  cuda.device_memory = [this](std::size_t* bytes, int) {
    *bytes = options_.memory;
    return kCudaSuccess;
  };
}

/// `first` is the number of the first device of the host.
void FakeGpu::fill_contexts(CudaTable& cuda, int first) {
  cuda.primary_context_retain = [this, first](CUctx_st** context, int device) {
    const Lock lock(mutex_);
    ++contexts_[static_cast<std::size_t>(first + device)];
    *context = context_of(first + device);
    return kCudaSuccess;
  };
  cuda.primary_context_release = [this, first](int device) {
    const Lock lock(mutex_);
    if (--contexts_[static_cast<std::size_t>(first + device)] < 0)
      faults_.add(FaultKind::double_free, "a context");
    return kCudaSuccess;
  };
  cuda.context_set_current = [this](CUctx_st* context) {
    const Lock lock(mutex_);
    const auto number = reinterpret_cast<std::uintptr_t>(context);
    if (number > contexts_.size() || (number > 0 && contexts_[number - 1] == 0)) {
      faults_.add(FaultKind::use_after_free, "cuCtxSetCurrent of a context that nobody holds");
      return kInvalidContext;
    }
    current_[std::this_thread::get_id()] = context;
    return kCudaSuccess;
  };
  cuda.context_enable_peer = [](CUctx_st*, unsigned int) { return kCudaSuccess; };
  cuda.can_access_peer = [](int* can, int, int) {
    *can = 1;
    return kCudaSuccess;
  };
}

void FakeGpu::fill_memory(CudaTable& cuda, int process) {
  cuda.memory_allocate = [this, process](CudaAddress* address, std::size_t bytes) {
    const Lock lock(mutex_);
    std::byte* memory = nullptr;
    const int result = allocate(bytes, {"device memory", process}, &memory);
    *address = reinterpret_cast<CudaAddress>(memory);
    return result;
  };
  cuda.memory_info = [this](std::size_t* free, std::size_t* total) {
    const Lock lock(mutex_);
    *total = options_.memory;
    *free = options_.memory - allocated_;
    return kCudaSuccess;
  };
  cuda.memory_free = [this](CudaAddress address) {
    const Lock lock(mutex_);
    frees_or_asks("cuMemFree");
    memory_.free(memory_at(address));
    return kCudaSuccess;
  };
  cuda.host_allocate = [this, process](void** memory, std::size_t bytes, unsigned int) {
    const Lock lock(mutex_);
    std::byte* made = nullptr;
    const int result = allocate(bytes, {"pinned memory", process, false}, &made);
    *memory = made;
    return result;
  };
  cuda.host_free = [this](void* memory) {
    const Lock lock(mutex_);
    frees_or_asks("cuMemFreeHost");
    memory_.free(static_cast<std::byte*>(memory));
    return kCudaSuccess;
  };
  cuda.copy_async = [this](CudaAddress to, CudaAddress from, std::size_t bytes, CUstream_st* handle) {
    const Lock lock(mutex_);
    FakeStream* const on = stream(handle, "a copy");
    if (on == nullptr) return kInvalidHandle;
    count(on->process, &FakeCounts::launches);
    TaskDraft copy{.name = "the copy of " + mark() + " on " + on->name, .duration = options_.copy_ns};
    copy.reads.emplace_back(memory_at(from), bytes);
    copy.writes.emplace_back(memory_at(to), bytes);
    copy.work = [=] { std::memcpy(memory_at(to), memory_at(from), bytes); };
    machine_.enqueue(*on, std::move(copy));
    return kCudaSuccess;
  };
  cuda.fill_async = [this](CudaAddress to, unsigned char value, std::size_t bytes, CUstream_st* handle) {
    const Lock lock(mutex_);
    FakeStream* const on = stream(handle, "a fill");
    if (on == nullptr) return kInvalidHandle;
    count(on->process, &FakeCounts::launches);
    TaskDraft fill{.name = "the fill of " + mark() + " on " + on->name};
    fill.writes.emplace_back(memory_at(to), bytes);
    fill.work = [=] { std::memset(memory_at(to), value, bytes); };
    machine_.enqueue(*on, std::move(fill));
    return kCudaSuccess;
  };
}

void FakeGpu::fill_streams(CudaTable& cuda, int process) {
  cuda.stream_priorities = [this](int* lowest, int* highest) {
    const Lock lock(mutex_);
    needs_context("cuCtxGetStreamPriorityRange");
    *lowest = 0;
    *highest = kHighestPriority;
    return kCudaSuccess;
  };
  cuda.stream_create = [this, process](CUstream_st** out, unsigned int, int) {
    const Lock lock(mutex_);
    creating(process, "a stream");
    needs_context("cuStreamCreate");
    const int device = current_device();
    *out = reinterpret_cast<CUstream_st*>(machine_.make_stream(
        {.name = "stream " + std::to_string(streams_++), .device = device, .process = process}));
    return kCudaSuccess;
  };
  cuda.stream_destroy = [this](CUstream_st* handle) {
    const Lock lock(mutex_);
    auto* const one = reinterpret_cast<FakeStream*>(handle);
    if (one == nullptr || !one->alive) {
      faults_.add(FaultKind::double_free, "a stream");
      return kInvalidHandle;
    }
    one->alive = false;
    return kCudaSuccess;
  };
  cuda.stream_query = [this](CUstream_st* handle) {
    const Lock lock(mutex_);
    frees_or_asks("cuStreamQuery");
    FakeStream* const one = stream(handle, "cuStreamQuery");
    if (one == nullptr) return kInvalidHandle;
    return machine_.complete(*one) ? kCudaSuccess : kCudaNotReady;
  };
  cuda.stream_wait_event = [this, process](CUstream_st* handle, CUevent_st* awaited, unsigned int) {
    const Lock lock(mutex_);
    FakeStream* const one = stream(handle, "cuStreamWaitEvent");
    FakeEvent* const other = event(awaited, "cuStreamWaitEvent", process);
    if (one == nullptr || other == nullptr) return kInvalidHandle;
    if (other->lender != nullptr && one->capture != nullptr)
      faults_.add(FaultKind::bad_capture, one->name + " waits in a capture for another process");
    machine_.wait(*one, other->lender == nullptr ? *other : *other->lender);
    return kCudaSuccess;
  };
}

std::vector<Fault> FakeGpu::faults_so_far() {
  const Lock lock(mutex_);
  return faults_.all();
}

bool FakeGpu::advance() {
  const Lock lock(mutex_);
  return machine_.advance();
}

void FakeGpu::forget_thread() {
  const Lock lock(mutex_);
  marks_.erase(std::this_thread::get_id());
  current_.erase(std::this_thread::get_id());
  capturing_.erase(std::this_thread::get_id());
}

/// The device of the thread's context.
int FakeGpu::current_device() { return device_of(current_[std::this_thread::get_id()]); }

void FakeGpu::fill_host(GpuApi& api, int process) {
  api.marks.push = [this, process](const char* name) {
    const Lock lock(mutex_);
    Marks& own = marks_[std::this_thread::get_id()];
    own.process = process;
    own.open.emplace_back(name);
  };
  api.marks.pop = [this] {
    const Lock lock(mutex_);
    marks_[std::this_thread::get_id()].open.pop_back();
  };
  api.environment.get = [this](const std::string& name) {
    const Lock lock(mutex_);
    const auto at = environment_.find(name);
    return at == environment_.end() ? std::string() : at->second;
  };
  api.environment.set = [this](const std::string& name, const std::string& value) {
    const Lock lock(mutex_);
    environment_[name] = value;
  };
  api.clock.now = [this] {
    const Lock lock(mutex_);
    return machine_.now();
  };
  api.clock.pause = [this] {
    // Other threads have the fake while one yields.
    if (!options_.jumps) std::this_thread::yield();
    const Lock lock(mutex_);
    constexpr int kTimeout = 1000;
    if (machine_.advance()) {
      idle_pauses_ = 0;
      return;
    }
    if (nccl_.enqueuing() && ++idle_pauses_ < kTimeout) return;
    if (!options_.jumps) return;
    stuck_at_jump_ = machine_.stuck();
    if (!stuck_at_jump_.empty()) machine_.stop_judging();
    machine_.skip(kJump);
  };
}

}  // namespace ppsim::test
