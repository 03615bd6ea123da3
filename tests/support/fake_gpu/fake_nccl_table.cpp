#include "support/fake_gpu/fake_gpu.hpp"

namespace ppsim::test {
namespace {

FakeNccl::Communicator* of(ncclComm* handle) { return reinterpret_cast<FakeNccl::Communicator*>(handle); }

}  // namespace

void FakeGpu::fill_communicators(NcclTable& nccl) {
  nccl.version = [](int* version) {
    *version = 22809;
    return kNcclSuccess;
  };
  nccl.error_text = [](int) { return "refused by the fake"; };
  nccl.last_error = [](ncclComm*) { return ""; };
  nccl.unique_id = [this](NcclUniqueId* id) {
    const Lock lock(mutex_);
    id->internal[0] = static_cast<char>(++ids_);
    return kNcclSuccess;
  };
  nccl.communicator_init = [this](ncclComm** out, int size, NcclUniqueId id, int rank, NcclConfig*) {
    const Lock lock(mutex_);
    creating("a communicator");
    FakeNccl::Communicator* made = nullptr;
    const int result = nccl_.init(&made, size, std::string(id.internal, 1), rank);
    *out = reinterpret_cast<ncclComm*>(made);
    return result;
  };
  nccl.communicator_split = [this](ncclComm* parent, int color, int key, ncclComm** child, NcclConfig*) {
    const Lock lock(mutex_);
    creating("a communicator");
    FakeNccl::Communicator* made = nullptr;
    const int result = nccl_.split(of(parent), color, key, &made);
    *child = reinterpret_cast<ncclComm*>(made);
    return result;
  };
  nccl.communicator_abort = [this](ncclComm* one) {
    const Lock lock(mutex_);
    return nccl_.abort(of(one));
  };
  nccl.async_error = [this](ncclComm* one, int* error) {
    const Lock lock(mutex_);
    return nccl_.state(of(one), error);
  };
  nccl.group_start = [this] {
    const Lock lock(mutex_);
    nccl_.group_start();
    return kNcclSuccess;
  };
  nccl.group_end = [this] {
    const Lock lock(mutex_);
    return nccl_.group_end();
  };
}

void FakeGpu::fill_operations(NcclTable& nccl) {
  using Kind = FakeNccl::Operation::Kind;
  const auto add = [this](FakeNccl::Operation operation, CUstream_st* handle) {
    const Lock lock(mutex_);
    operation.stream = stream(handle, "an operation of NCCL");
    if (operation.stream == nullptr) return kNcclInvalidUsage;
    operation.mark = mark();
    return nccl_.add(std::move(operation));
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
