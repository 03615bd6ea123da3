#include "nccl_channels.hpp"

#include <algorithm>
#include <exception>

#include "nccl_calls.hpp"

namespace ppsim::gpu_backend {
namespace {

int nccl_type(ElementType type) {
  switch (type) {
    case ElementType::float32:
      return kNcclFloat32;
    case ElementType::float64:
      return kNcclFloat64;
    case ElementType::bfloat16:
      return kNcclBfloat16;
    case ElementType::uint64:
      return kNcclUint64;
  }
  return -1;
}

std::size_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::float32:
      return 4;
    case ElementType::float64:
    case ElementType::uint64:
      return 8;
    case ElementType::bfloat16:
      return 2;
  }
  return 1;
}

/// A communicator for as long as NCCL is called with it; false if it is over.
class CommunicatorLease {
 public:
  explicit CommunicatorLease(NcclCommunicator& one) : one_(one), held_(one.take()) {}
  CommunicatorLease(const CommunicatorLease&) = delete;
  CommunicatorLease& operator=(const CommunicatorLease&) = delete;
  ~CommunicatorLease() {
    if (held_) one_.give_back();
  }
  explicit operator bool() const { return held_; }

 private:
  NcclCommunicator& one_;
  bool held_;
};

}  // namespace

RankDevice* NcclChannels::local(RankId rank) const {
  const auto at = std::ranges::find_if(ranks_, [&](const RankDevice* r) { return r->rank() == rank; });
  return at == ranks_.end() ? nullptr : *at;
}

NcclCommunicator& NcclChannels::communicator(CommunicatorId id, RankId rank) {
  return communicators_.at({id, rank});
}

NcclCommunicator& NcclChannels::communicator_of(const Transfer& transfer) {
  const auto& [id, source, destination] = transfer.channel;
  return communicator(id, transfer.direction == Direction::send ? source : destination);
}

/// Takes the communicators of a group: all of them or, where one is over, none.
bool NcclChannels::take(std::span<const StreamTransfer> ends) {
  for (const StreamTransfer& end : ends) {
    if (communicator_of(end.transfer).take()) continue;
    give_back(ends);
    return false;
  }
  return true;
}

void NcclChannels::give_back(std::span<const StreamTransfer> ends) {
  for (const StreamTransfer& end : ends) communicator_of(end.transfer).give_back();
}

int NcclChannels::peer_number(CommunicatorId id, RankId rank) const {
  const auto& members = program_.communicator(id).members;
  return static_cast<int>(std::ranges::lower_bound(members, rank) - members.begin());
}

std::string NcclChannels::name(CommunicatorId id) const {
  return "communicator " + program_.communicator(id).name;
}

void NcclChannels::transfer(const Transfer& transfer, std::span<std::byte> piece, GpuStream stream) {
  if (piece.empty()) return;
  const auto& [communicator_id, source, destination] = transfer.channel;
  const bool sends = transfer.direction == Direction::send;
  const RankId own = sends ? source : destination;
  const int peer = peer_number(communicator_id, sends ? destination : source);
  NcclCommunicator& one = communicator(communicator_id, own);
  const int result =
      sends ? api_.nccl.send(piece.data(), piece.size(), kNcclUint8, peer, one.handle, stream)
            : api_.nccl.receive(piece.data(), piece.size(), kNcclUint8, peer, one.handle, stream);
  const CommunicatorId id = communicator_id;
  must_succeed(api_.nccl, result, [&] { return named(own) + ": a transfer in " + name(id); });
}

void NcclChannels::post(RankId rank, std::span<const StreamTransfer> ends) {
  if (!take(ends)) return;  // nothing but the end follows
  try {
    post_taken(rank, ends);
  } catch (...) {
    if (is_over(ends)) return;  // whoever ended it says why
    give_back(ends);
    throw;
  }
  give_back(ends);
}

bool NcclChannels::is_over(std::span<const StreamTransfer> ends) {
  return std::ranges::any_of(ends, [&](const StreamTransfer& end) {
    return communicator_of(end.transfer).state == NcclCommunicator::State::over;
  });
}

void NcclChannels::post_taken(RankId rank, std::span<const StreamTransfer> ends) {
  NcclGroup group(api_.nccl, "a group", rank);
  for (const StreamTransfer& end : ends) {
    for (const std::span<std::byte> piece : end.transfer.payload) transfer(end.transfer, piece, end.stream);
  }
  group.end();
}

void NcclChannels::post(const StreamCollective& call) {
  if (program_.communicator(call.communicator).members.size() < 2) return;
  NcclCommunicator& one = communicator(call.communicator, call.rank);
  const CommunicatorLease lease(one);
  if (!lease) return;
  const int result = api_.nccl.all_reduce(call.payload.data(), call.payload.data(),
                                          call.payload.size() / element_bytes(call.type),
                                          nccl_type(call.type), kNcclSum, one.handle, call.stream);
  if (one.state == NcclCommunicator::State::over) return;  // whoever ended it says why
  must_succeed(api_.nccl, result,
               [&] { return named(call.rank) + ": a collective in " + name(call.communicator); });
}

void NcclChannels::check() {
  for (auto& [key, one] : communicators_) {
    const CommunicatorLease lease(one);
    if (!lease) continue;
    static_cast<void>(in_progress(
        one.handle, [&place = key, this] { return named(place.second) + ": " + name(place.first); }));
  }
}

/// Each by a separate thread: the end of one may wait for the work of its device, and so for the end of
/// others, and for graphs that hold it.
void NcclChannels::release() noexcept {
  for (auto& [key, one] : communicators_) {
    if (one.handle == nullptr || !one.end()) continue;
    const auto end = [this, handle = one.handle] { api_.nccl.communicator_abort(handle); };
    try {
      enders_.emplace_back(end);
    } catch (const std::exception&) {
      end();  // no more threads to be had
    }
  }
}

void NcclChannels::abort() noexcept {
  release();
  enders_.clear();
  for (ncclComm* const root : roots_) {
    if (root != nullptr) api_.nccl.communicator_abort(root);
  }
  communicators_.clear();
  roots_.clear();
}

}  // namespace ppsim::gpu_backend
