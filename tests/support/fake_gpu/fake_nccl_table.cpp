#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "support/fake_gpu/fake_gpu.hpp"

namespace ppsim::test {
namespace {

constexpr int kInvalidArgument = 4;
constexpr std::chrono::microseconds kNextLook{50};

FakeNccl::Communicator* of(ncclComm* handle) { return reinterpret_cast<FakeNccl::Communicator*>(handle); }

/// A configuration as NCCL_CONFIG_INITIALIZER begins it, of a communicator that blocks or does not.
bool is_good(const NcclConfig* config) {
  constexpr unsigned int kMagic = 0xcafebeef;
  return config != nullptr && config->size == sizeof(NcclConfig) && config->magic == kMagic &&
         config->version > 0 && (config->blocking == 0 || config->blocking == 1);
}

void fill_texts(NcclTable& nccl) {
  nccl.version = [](int* version) {
    *version = 22809;
    return kNcclSuccess;
  };
  nccl.error_text = [](int) { return "refused by the fake"; };
  nccl.last_error = [](ncclComm*) { return ""; };
}

}  // namespace

void FakeGpu::fill_communicators(NcclTable& nccl, int process, const std::string& machine) {
  fill_texts(nccl);
  nccl.unique_id = [this](NcclUniqueId* id) {
    const Lock lock(mutex_);
    std::memcpy(id->internal, &++ids_, sizeof ids_);
    return kNcclSuccess;
  };
  nccl.communicator_init = [this, process, machine](ncclComm** out, int size, NcclUniqueId id, int rank,
                                                    NcclConfig* config) {
    const Lock lock(mutex_);
    if (!is_good(config)) return kInvalidArgument;
    creating(process, "a communicator");
    needs_context("ncclCommInitRankConfig");
    FakeNccl::Communicator* made = nullptr;
    const int result = nccl_.init(&made, size, std::string(id.internal, sizeof(int)),
                                  {.rank = rank,
                                   .blocks = config->blocking == 1,
                                   .device = current_device(),
                                   .machine = machine,
                                   .process = process});
    *out = reinterpret_cast<ncclComm*>(made);
    return result;
  };
  // The child is handed out once it is made, by a thread of NCCL's own.
  nccl.communicator_split = [this, process](ncclComm* parent, int color, int key, ncclComm** child,
                                            NcclConfig* config) {
    const Lock lock(mutex_);
    if (!is_good(config)) return kInvalidArgument;
    creating(process, "a communicator");
    FakeNccl::Communicator* made = nullptr;
    const int result = nccl_.split(of(parent), color, {.rank = key, .blocks = config->blocking == 1}, &made);
    *child = nullptr;
    if (made != nullptr) splitting_[parent].emplace_back(child, reinterpret_cast<ncclComm*>(made));
    return result;
  };
  nccl.communicator_abort = [this](ncclComm* one) { return abort(one); };
  nccl.async_error = [this](ncclComm* one, int* error) {
    const Lock lock(mutex_);
    const int result = nccl_.state(of(one), error);
    if (result != kNcclSuccess || *error != kNcclSuccess) return result;
    for (const auto& [child, made] : std::exchange(splitting_[one], {})) *child = made;
    return result;
  };
  nccl.group_start = [this] {
    const Lock lock(mutex_);
    nccl_.group_start();
    return kNcclSuccess;
  };
  nccl.group_end = [this] { return end_group([this] { return nccl_.group_end(); }); };
}

int FakeGpu::abort(ncclComm* one) {
  const Lock lock(mutex_);
  frees_or_asks("ncclCommAbort");
  if (nccl_.in_group())
    faults_.add(FaultKind::bad_call, "ncclCommAbort in an open group, whose end it waits for");
  for (const FakeGraph* const graph : FakeNccl::graphs_of(*of(one))) {
    const auto holds = [&](const Executable& e) { return e.alive && e.graph == graph; };
    if (std::any_of(executables_.begin(), executables_.end(), holds))
      faults_.add(FaultKind::bad_call, "ncclCommAbort waits for ever for a graph that holds it");
  }
  for (const auto& [child, made] : std::exchange(splitting_[one], {})) nccl_.abort(of(made));
  return nccl_.abort(of(one));
}

/// A call that waits for others holds nobody else up. Where there is nobody else, time passes at once.
int FakeGpu::end_group(const std::function<int()>& end) {
  for (bool first = true;; first = false) {
    {
      const Lock lock(mutex_);
      const int result = first ? end() : nccl_.go_on();
      if (!nccl_.waits()) return result;
      if (first && options_.jumps) machine_.skip(kJump);
    }
    if (options_.jumps)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kNextLook);
  }
}

void FakeGpu::fill_operations(NcclTable& nccl) {
  using Kind = FakeNccl::Operation::Kind;
  const auto add = [this](FakeNccl::Operation operation, CUstream_st* handle) {
    return end_group([&] {
      operation.stream = stream(handle, "an operation of NCCL");
      if (operation.stream == nullptr) return kNcclInvalidUsage;
      operation.mark = mark();
      return nccl_.add(std::move(operation));
    });
  };
  nccl.send = [add](const void* from, std::size_t count, int type, int peer, ncclComm* one, CUstream_st* on) {
    return add({.kind = Kind::send,
                .from = static_cast<const std::byte*>(from),
                .count = count,
                .type = type,
                .peer = peer,
                .communicator = of(one)},
               on);
  };
  nccl.receive = [add](void* to, std::size_t count, int type, int peer, ncclComm* one, CUstream_st* on) {
    return add({.kind = Kind::receive,
                .to = static_cast<std::byte*>(to),
                .count = count,
                .type = type,
                .peer = peer,
                .communicator = of(one)},
               on);
  };
  nccl.all_reduce = [add](const void* from, void* to, std::size_t count, int type, int reduction,
                          ncclComm* one, CUstream_st* on) {
    return add({.kind = Kind::all_reduce,
                .from = static_cast<const std::byte*>(from),
                .to = static_cast<std::byte*>(to),
                .count = count,
                .type = type,
                .reduction = reduction,
                .communicator = of(one)},
               on);
  };
}

}  // namespace ppsim::test
