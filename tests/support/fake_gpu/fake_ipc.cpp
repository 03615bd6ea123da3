// The memory and events that processes of a host lend each other.

#include <cstring>

#include "support/fake_gpu/answers.hpp"
#include "support/fake_gpu/fake_gpu.hpp"

namespace ppsim::test {
namespace {

/// A handle is opaque: here the address that the lender has.
template <class T>
CudaIpcHandle handle_of(const T* lent) {
  CudaIpcHandle handle;
  std::memcpy(handle.reserved, &lent, sizeof lent);
  return handle;
}
template <class T>
T* lent_by(const CudaIpcHandle& handle) {
  T* lent = nullptr;
  std::memcpy(&lent, handle.reserved, sizeof lent);
  return lent;
}

}  // namespace

void FakeGpu::fill_ipc(CudaTable& cuda, int process) {
  cuda.memory_range = [this](CudaAddress* begin, std::size_t* bytes, CudaAddress address) {
    const Lock lock(mutex_);
    const auto found = memory_.allocation_at(memory_at(address));
    *begin = reinterpret_cast<CudaAddress>(found.data());
    *bytes = found.size();
    return found.empty() ? kInvalidValue : kCudaSuccess;
  };
  cuda.ipc_memory_handle = [this, process](CudaIpcHandle* handle, CudaAddress address) {
    const Lock lock(mutex_);
    if (!memory_.may_lend(memory_at(address), process)) {
      faults_.add(FaultKind::bad_call, "cuIpcGetMemHandle of what is no allocation of this process");
      return kInvalidValue;
    }
    *handle = handle_of(memory_at(address));
    return kCudaSuccess;
  };
  cuda.ipc_memory_open = [this, process](CudaAddress* address, CudaIpcHandle handle, unsigned int flags) {
    const Lock lock(mutex_);
    creating(process, "a mapping of borrowed memory");
    needs_context("cuIpcOpenMemHandle");
    if (flags != kCudaIpcLazyPeerAccess) return kInvalidValue;
    const auto same_host = [&](int lender) { return host_of(lender) == host_of(process); };
    std::byte* const made = memory_.borrow(lent_by<std::byte>(handle), process, same_host);
    *address = reinterpret_cast<CudaAddress>(made);
    return made == nullptr ? kInvalidContext : kCudaSuccess;
  };
  cuda.ipc_memory_close = [this](CudaAddress address) {
    const Lock lock(mutex_);
    needs_context("cuIpcCloseMemHandle");
    frees_or_asks("cuIpcCloseMemHandle");
    memory_.give_back(memory_at(address));
    return kCudaSuccess;
  };
  cuda.ipc_event_handle = [this, process](CudaIpcHandle* handle, CUevent_st* lent) {
    const Lock lock(mutex_);
    const FakeEvent* const one = event(lent, "cuIpcGetEventHandle", process);
    if (one == nullptr || !one->shared || one->lender != nullptr) {
      faults_.add(FaultKind::bad_call, "cuIpcGetEventHandle of an event that is not for other processes");
      return kInvalidHandle;
    }
    *handle = handle_of(one);
    return kCudaSuccess;
  };
  cuda.ipc_event_open = [this, process](CUevent_st** out, CudaIpcHandle handle) {
    const Lock lock(mutex_);
    creating(process, "a borrowed event");
    needs_context("cuIpcOpenEventHandle");
    auto* const lender = lent_by<FakeEvent>(handle);
    if (!lender->alive || lender->process == process) return kInvalidContext;
    if (host_of(lender->process) != host_of(process)) return kInvalidHandle;
    ++lender->borrowers;
    *out = reinterpret_cast<CUevent_st*>(machine_.make_event(
        {.device = current_device(), .process = process, .shared = true, .lender = lender}));
    return kCudaSuccess;
  };
}

}  // namespace ppsim::test
