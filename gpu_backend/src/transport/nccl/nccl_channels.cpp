#include "nccl_channels.hpp"

#include <algorithm>
#include <exception>

#include "ppsim/core/ir/action.hpp"
#include "ppsim/core/ir/op_kind.hpp"
#include "ppsim/gpu_backend/device/device.hpp"

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

std::string rank_text(RankId rank) { return "rank " + std::to_string(rank.value()); }

/// Errors: throws BackendError in `what()`; nothing is put into words for what goes well, as all of a step
/// does.
template <class What>
void must_succeed(const NcclTable& nccl, int result, const What& what) {
  if (result != kNcclSuccess && result != kNcclInProgress) check_nccl(nccl, result, what());
}

/// Calls of one thread that NCCL takes together. None stays open: whatever the thread asks for next, the end
/// of a communicator too, would wait for the end of the group.
class Group {
 public:
  /// `rank`: whose calls they are, if of one.
  Group(const NcclTable& nccl, const char* what, RankId rank = RankId())
      : nccl_(nccl), what_(what), rank_(rank) {
    must_succeed(nccl_, nccl_.group_start(), [this] { return text(); });
    open_ = true;
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    if (open_) nccl_.group_end();
  }
  void end() {
    open_ = false;
    must_succeed(nccl_, nccl_.group_end(), [this] { return text(); });
  }

 private:
  [[nodiscard]] std::string text() const { return (rank_.valid() ? rank_text(rank_) + ": " : "") + what_; }

  const NcclTable& nccl_;
  const char* what_;
  RankId rank_;
  bool open_ = false;
};

/// A communicator for as long as NCCL is called with it; false if it is over.
class Taken {
 public:
  explicit Taken(NcclCommunicator& one) : one_(one), taken_(one.take()) {}
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  ~Taken() {
    if (taken_) one_.give_back();
  }
  explicit operator bool() const { return taken_; }

 private:
  NcclCommunicator& one_;
  bool taken_;
};

/// Before 2.26 NCCL_LAUNCH_ORDER_IMPLICIT means nothing, and several communicators may deadlock.
void check_keeps_order(const NcclTable& nccl) {
  constexpr int kMinVersion = 22600;
  const int version = nccl_version(nccl);
  if (version >= kMinVersion) return;
  throw BackendError(ErrorCode::io, nccl_text(version) +
                                        " is too old: several communicators on a device need 2.26 or later");
}

}  // namespace

NcclChannels::NcclChannels(const NcclSetup& setup)
    : api_(setup.api), program_(setup.program), ranks_(setup.ranks), check_abort_(setup.check_abort) {
  check_keeps_order(api_.nccl);
  constexpr double kNanosecondsPerSecond = 1e9;
  timeout_ = static_cast<Nanoseconds>(setup.timeout_s * kNanosecondsPerSecond);
  reset_deadline();
  config_.blocking = 0;
  config_.max_ctas = setup.max_ctas;
  config_.split_share = 0;
  for (const RankDevice* const rank : ranks_) pending_[rank->rank()] = {};  // each used by a separate thread
  try {
    make_root(setup);
    for (std::size_t c = 0; c < program_.communicators().size(); ++c) {
      split(CommunicatorId(static_cast<std::int32_t>(c)));
    }
    warm_up();
  } catch (...) {
    abort();
    throw;
  }
}

void NcclChannels::make_root(const NcclSetup& setup) {
  const NcclUniqueId id = setup.exchange_id();
  const int size = program_.pipeline().ranks();
  roots_.assign(ranks_.size(), nullptr);
  Group group(api_.nccl, "opening communicators");
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    ranks_[i]->make_current();
    check_nccl(api_.nccl,
               api_.nccl.communicator_init(&roots_[i], size, id, ranks_[i]->rank().value(), &config_),
               rank_text(ranks_[i]->rank()) + ": opening the communicator of all ranks");
  }
  group.end();
  settle_roots("opening the communicator of all ranks");
}

/// Every rank takes part in every split, in one order.
void NcclChannels::split(CommunicatorId id) {
  const auto& members = program_.communicator(id).members;
  if (members.size() < 2) return;
  Group group(api_.nccl, "splitting communicators");
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const RankId rank = ranks_[i]->rank();
    const bool member = std::find(members.begin(), members.end(), rank) != members.end();
    ranks_[i]->make_current();
    check_nccl(api_.nccl,
               api_.nccl.communicator_split(roots_[i], member ? 0 : kNcclNoColor, rank.value(),
                                            &communicators_[{id, rank}].handle, &config_),
               rank_text(rank) + ": opening " + name(id));
  }
  group.end();
  settle_roots("opening " + name(id));
  std::erase_if(communicators_, [](const auto& one) { return one.second.handle == nullptr; });
  for (const auto& [key, one] : communicators_) {
    if (key.first == id) settle(one.handle, rank_text(key.second) + ": opening " + name(id));
  }
}

void NcclChannels::warm_up() {
  for (RankDevice* const rank : ranks_) {
    streams_.emplace(rank->rank(), rank->make_stream());
    bytes_[rank->rank()] = rank->allocate(sizeof(double), "its first messages");
    rank->fill(streams_.at(rank->rank()).get(), bytes_[rank->rank()], std::byte{0});
  }
  for (const Channel& channel : channels()) warm_channel(channel);
  for (std::size_t c = 0; c < program_.communicators().size(); ++c) {
    warm_collective(CommunicatorId(static_cast<std::int32_t>(c)));
  }
  streams_.clear();
}

std::set<Channel> NcclChannels::channels() const {
  std::set<Channel> found;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(program_.size()); ++i) {
    const InstructionId id(i);
    const auto actions = program_.actions(id);
    for (std::size_t a = 0; a < actions.size(); ++a) {
      if (!is_send(actions[a].kind)) continue;
      const RankId from = program_.rank_of(id);
      const RankId to = peer_rank(program_.pipeline(), actions[a]);
      if (from != to) found.insert({program_.communicators_of(id)[a], from, to});
    }
  }
  return found;
}

void NcclChannels::warm_channel(const Channel& channel) {
  Group group(api_.nccl, "connecting peers");
  for (const RankId end : {channel.source, channel.destination}) {
    RankDevice* const rank = local(end);
    if (rank == nullptr) continue;
    rank->make_current();
    const bool sends = end == channel.source;
    Transfer byte{.channel = channel, .direction = sends ? Direction::send : Direction::receive};
    transfer(byte, bytes_.at(end).first(1), streams_.at(end).get());
  }
  group.end();
  finish("connecting rank " + std::to_string(channel.source.value()) + " to rank " +
         std::to_string(channel.destination.value()) + " in " + name(channel.communicator));
}

void NcclChannels::warm_collective(CommunicatorId id) {
  const auto& members = program_.communicator(id).members;
  if (members.size() < 2) return;
  Group group(api_.nccl, "connecting a collective");
  for (const RankId member : members) {
    if (local(member) == nullptr) continue;
    local(member)->make_current();
    post(StreamCollective{.communicator = id,
                          .rank = member,
                          .payload = bytes_.at(member),
                          .stream = streams_.at(member).get()});
  }
  group.end();
  finish("connecting the members of " + name(id));
}

/// Waits until all that the warm-up enqueued is done.
void NcclChannels::finish(const std::string& what) {
  for (RankDevice* const rank : ranks_) {
    while (busy(rank->rank())) wait(what);
  }
  for (RankDevice* const rank : ranks_) {
    rank->make_current();
    for (int result = kCudaNotReady; result == kCudaNotReady;) {
      result = rank->cuda().stream_query(streams_.at(rank->rank()).get());
      if (result == kCudaNotReady) {
        wait(what);
      } else {
        rank->check(result, what.c_str());
      }
    }
  }
  reset_deadline();
}

/// There are as many contacts as edges, one after another: each of them has the whole timeout.
void NcclChannels::reset_deadline() { give_up_ = api_.clock.now() + timeout_; }

/// A rank that never comes is an error, not a hang.
void NcclChannels::wait(const std::string& what) const {
  check_abort_();
  if (api_.clock.now() >= give_up_) throw BackendError(ErrorCode::io, what + ": the other ranks do not come");
  api_.clock.pause();
}

RankDevice* NcclChannels::local(RankId rank) const {
  const auto at =
      std::find_if(ranks_.begin(), ranks_.end(), [&](const RankDevice* r) { return r->rank() == rank; });
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
  return static_cast<int>(std::lower_bound(members.begin(), members.end(), rank) - members.begin());
}

std::string NcclChannels::name(CommunicatorId id) const {
  return "communicator " + program_.communicator(id).name;
}

template <class What>
bool NcclChannels::in_progress(ncclComm* communicator, const What& what) const {
  int state = kNcclSuccess;
  must_succeed(api_.nccl, api_.nccl.async_error(communicator, &state), what);
  must_succeed(api_.nccl, state, what);
  return state == kNcclInProgress;
}

void NcclChannels::settle(ncclComm* communicator, const std::string& what) {
  while (in_progress(communicator, [&] { return what; })) wait(what);
  reset_deadline();
}
void NcclChannels::settle_roots(const std::string& what) {
  for (std::size_t i = 0; i < roots_.size(); ++i)
    settle(roots_[i], rank_text(ranks_[i]->rank()) + ": " + what);
}

bool NcclChannels::busy(RankId rank) {
  auto& pending = pending_.at(rank);
  const auto what = [&] { return rank_text(rank) + ": a communicator"; };
  std::erase_if(pending, [&](NcclCommunicator* one) {
    const Taken taken(*one);
    return taken &&
           !in_progress(one->handle, what);  // an operation that is over has no end that could be seen
  });
  return !pending.empty();
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
  must_succeed(api_.nccl, result, [&] { return rank_text(own) + ": a transfer in " + name(id); });
  pending_.at(own).push_back(&one);
}

void NcclChannels::post(RankId rank, std::span<const StreamTransfer> ends) {
  if (!take(ends)) return;  // nothing but the end follows
  try {
    post_taken(rank, ends);
  } catch (...) {
    give_back(ends);
    throw;
  }
  give_back(ends);
}

void NcclChannels::post_taken(RankId rank, std::span<const StreamTransfer> ends) {
  Group group(api_.nccl, "a group", rank);
  for (const StreamTransfer& end : ends) {
    for (const std::span<std::byte> piece : end.transfer.payload) transfer(end.transfer, piece, end.stream);
  }
  group.end();
}

void NcclChannels::post(const StreamCollective& call) {
  if (program_.communicator(call.communicator).members.size() < 2) return;
  NcclCommunicator& one = communicator(call.communicator, call.rank);
  const Taken taken(one);
  if (!taken) return;
  const int result = api_.nccl.all_reduce(call.payload.data(), call.payload.data(),
                                          call.payload.size() / element_bytes(call.type),
                                          nccl_type(call.type), kNcclSum, one.handle, call.stream);
  must_succeed(api_.nccl, result,
               [&] { return rank_text(call.rank) + ": a collective in " + name(call.communicator); });
  pending_.at(call.rank).push_back(&one);
}

void NcclChannels::check() {
  for (auto& [key, one] : communicators_) {
    const Taken taken(one);
    if (!taken) continue;
    const auto what = [&place = key, this] { return rank_text(place.second) + ": " + name(place.first); };
    static_cast<void>(in_progress(one.handle, what));
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
  for (auto& [rank, pending] : pending_) pending.clear();
}

}  // namespace ppsim::gpu_backend
