// How the channels come to be: communicators, and the first contact of all that a step connects.

#include <algorithm>
#include <exception>
#include <tuple>
#include <vector>

#include "nccl_calls.hpp"
#include "nccl_channels.hpp"
#include "ppsim/core/ir/action.hpp"
#include "ppsim/core/ir/op_kind.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {
namespace {

std::vector<CommunicatorId> by_members(const Program& program) {
  std::vector<CommunicatorId> result;
  for (std::size_t c = 0; c < program.communicators().size(); ++c) {
    const CommunicatorId id(static_cast<std::int32_t>(c));
    if (program.communicator(id).members.size() > 1) result.push_back(id);
  }
  std::ranges::sort(result, [&](CommunicatorId a, CommunicatorId b) {
    return std::tie(program.communicator(a).members, a) < std::tie(program.communicator(b).members, b);
  });
  return result;
}

/// The communicators of a Program with several members in rounds: those of one share no rank, so that a
/// single split of all ranks makes them. A chain of ranks with a communicator for each direction of each edge
/// takes four. Order: the same on every rank; within a round by members.
std::vector<std::vector<CommunicatorId>> split_rounds(const Program& program) {
  std::vector<std::vector<CommunicatorId>> rounds;
  std::vector<std::vector<bool>> taken;  // per round and rank
  for (const CommunicatorId id : by_members(program)) {
    const auto& members = program.communicator(id).members;
    const auto has_room = [&](const std::vector<bool>& ranks) {
      return std::ranges::none_of(members, [&](RankId rank) { return ranks[rank.index()]; });
    };
    const auto round = as_size(std::ranges::find_if(taken, has_room) - taken.begin());
    if (round == rounds.size()) {
      rounds.emplace_back();
      taken.emplace_back(as_size(program.pipeline().ranks()), false);
    }
    rounds[round].push_back(id);
    for (const RankId rank : members) taken[round][rank.index()] = true;
  }
  return rounds;
}

/// Communicators that some instruction sums over.
std::set<CommunicatorId> communicators_of_sums(const Program& program) {
  std::set<CommunicatorId> found;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(program.size()); ++i) {
    const InstructionId id(i);
    if (is_collective(program.actions(id).front().kind)) found.insert(program.communicators_of(id).front());
  }
  return found;
}

/// Of a sum in a graph, at most.
constexpr int kMaxSumCtas = 32;

/// Variables that have NCCL launch other numbers of blocks than it is asked for.
void check_blocks_are_ours(const EnvironmentTable& environment) {
  for (const char* const name : {"NCCL_MIN_CTAS", "NCCL_MAX_CTAS"}) {
    const std::string found = environment.get(name);
    if (found.empty()) continue;
    throw BackendError(ErrorCode::bad_argument,
                       std::string("in a graph the kernels of all communicators need room at once (found ") +
                           name + "=" + found + ", expected " + name + " unset, or a run without graphs)");
  }
}

/// Multiprocessors of the smallest device here.
int smallest_device(const std::vector<RankDevice*>& ranks) {
  const auto smallest = std::ranges::min_element(ranks, [](const auto* a, const auto* b) {
    return a->place().multiprocessors < b->place().multiprocessors;
  });
  return (*smallest)->place().multiprocessors;
}

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
    : api_(setup.api),
      program_(setup.program),
      ranks_(setup.ranks),
      check_abort_(setup.check_abort),
      max_ctas_(setup.max_ctas),
      graphs_(setup.graphs),
      of_sums_(communicators_of_sums(setup.program)),
      watch_({setup.api.clock, setup.check_abort, [this] { release(); }}) {
  check_keeps_order(api_.nccl);
  order_launches(api_.environment, graphs_);
  if (graphs_) check_blocks_are_ours(api_.environment);
  if (graphs_) sum_ctas_ = sum_ctas(setup.smallest_of_all(smallest_device(ranks_)));
  constexpr double kNanosecondsPerSecond = 1e9;
  timeout_ = static_cast<Nanoseconds>(setup.timeout_s * kNanosecondsPerSecond);
  reset_deadline();
  try {
    make_root(setup);
    for (const auto& round : split_rounds(program_)) split(round);
    warm_up(setup.sums);
  } catch (...) {
    abort();
    throw;
  }
}

void NcclChannels::make_root(const NcclSetup& setup) {
  const NcclUniqueId id = setup.exchange_id();
  const int size = program_.pipeline().ranks();
  NcclConfig config;
  config.blocking = 0;
  roots_.assign(ranks_.size(), nullptr);
  NcclGroup group(api_.nccl, "opening communicators");
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    ranks_[i]->make_current();
    check_nccl(api_.nccl,
               api_.nccl.communicator_init(&roots_[i], size, id, ranks_[i]->rank().value(), &config),
               named(ranks_[i]->rank()) + ": opening the communicator of all ranks");
  }
  group.end();
  settle_roots("opening the communicator of all ranks");
}

/// More blocks than a message needs take multiprocessors from products; a sum has what NCCL gives it, but in
/// a graph its share of the room.
NcclConfig NcclChannels::config_of(CommunicatorId id) const {
  NcclConfig config;
  config.blocking = 1;
  config.split_share = 0;
  if (!of_sums_.contains(id)) {
    config.max_ctas = max_ctas_;
  } else if (graphs_) {
    config.max_ctas = sum_ctas_;
  }
  return config;
}

/// In a graph kernels of several communicators start in any order. A communicator has one kernel at a time;
/// where those of all have room, none waits for another one's end. `room`: multiprocessors of the smallest
/// device of the job, so that all ranks find the same, which NCCL needs.
int NcclChannels::sum_ctas(int room) const {
  int ctas = kMaxSumCtas;
  for (RankId rank(0); rank.value() < program_.pipeline().ranks(); rank = next(rank)) {
    int messages = 0;
    int sums = 0;
    for (CommunicatorId id(0); id.index() < program_.communicators().size(); id = next(id)) {
      const auto& members = program_.communicator(id).members;
      if (members.size() < 2 || !std::ranges::binary_search(members, rank)) continue;
      of_sums_.contains(id) ? ++sums : messages += max_ctas_;
    }
    if (room < messages + sums) {
      throw BackendError(ErrorCode::bad_argument,
                         named(rank) +
                             ": in a graph the kernels of all its communicators need room at once (found " +
                             std::to_string(room) + " multiprocessors, expected at least " +
                             std::to_string(messages + sums) + ", or a run without graphs)");
    }
    if (sums > 0) ctas = std::min(ctas, (room - messages) / sums);
  }
  return ctas;
}

/// Every rank takes part in every split, in one order; the communicators of a round are its colours.
void NcclChannels::split(const std::vector<CommunicatorId>& round) {
  NcclGroup group(api_.nccl, "splitting communicators");
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const RankId rank = ranks_[i]->rank();
    const auto own = std::ranges::find_if(round, [&](CommunicatorId id) {
      const auto& members = program_.communicator(id).members;
      return std::ranges::find(members, rank) != members.end();
    });
    const bool member = own != round.end();
    NcclConfig config = config_of(member ? *own : round.front());
    ranks_[i]->make_current();
    check_nccl(api_.nccl,
               api_.nccl.communicator_split(
                   roots_[i], member ? static_cast<int>(own - round.begin()) : kNcclNoColor, rank.value(),
                   member ? &communicators_[{*own, rank}].handle : &nobody_, &config),
               named(rank) + ": opening " + (member ? name(*own) : "the communicators of others"));
  }
  group.end();
  settle_roots("opening " + name(round.front()));
}

void NcclChannels::warm_up(const std::vector<NcclSum>& sums) {
  for (RankDevice* const rank : ranks_) {
    streams_.emplace(rank->rank(), rank->make_stream(StreamPriority::highest));
    bytes_[rank->rank()] = rank->allocate(sizeof(double), "its first messages");
    rank->fill(streams_.at(rank->rank()).get(), bytes_[rank->rank()], std::byte{0});
  }
  for (const Channel& channel : channels()) warm_channel(channel);
  for (const NcclSum& sum : sums) warm_sum(sum);
  streams_.clear();
}

std::set<Channel> NcclChannels::channels() const {
  std::set<Channel> found;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(program_.size()); ++i) {
    const InstructionId id(i);
    const auto actions = program_.actions(id);
    for (std::size_t a = 0; a < actions.size(); ++a) {
      if (!is_transfer(actions[a].kind)) continue;
      const RankId own = program_.rank_of(id);
      const RankId peer = peer_rank(program_.pipeline(), actions[a]);
      const CommunicatorId communicator = program_.communicators_of(id)[a];
      if (own == peer) continue;
      found.insert(is_send(actions[a].kind) ? Channel{communicator, own, peer}
                                            : Channel{communicator, peer, own});
    }
  }
  return found;
}

/// A first contact, for which NCCL waits inside of its calls.
void NcclChannels::contact(const std::string& what, const std::function<void()>& calls) {
  reset_deadline();
  watch_.begin(give_up_);
  std::exception_ptr failure;
  try {
    calls();
  } catch (const BackendError&) {
    failure = std::current_exception();
  }
  const bool returned = watch_.end();
  check_abort_();
  if (failure) std::rethrow_exception(failure);
  if (!returned) throw BackendError(ErrorCode::io, what + ": the other ranks do not come");
  finish(what);
}

/// A call that had to be ended fails for that alone.
void NcclChannels::end_contact(NcclGroup& group, const std::string& what) {
  try {
    group.end();
  } catch (const BackendError&) {
    if (watch_.has_interrupted()) throw BackendError(ErrorCode::io, what + ": the other ranks do not come");
    throw;
  }
}

void NcclChannels::warm_channel(const Channel& channel) {
  const std::string what = "connecting rank " + std::to_string(channel.source.value()) + " to rank " +
                           std::to_string(channel.destination.value()) + " in " + name(channel.communicator);
  contact(what, [&] {
    NcclGroup group(api_.nccl, "connecting peers");
    for (const RankId end : {channel.source, channel.destination}) {
      RankDevice* const rank = local(end);
      if (rank == nullptr) continue;
      rank->make_current();
      const bool sends = end == channel.source;
      Transfer byte{.channel = channel, .direction = sends ? Direction::send : Direction::receive};
      transfer(byte, bytes_.at(end).first(1), streams_.at(end).get());
    }
    end_contact(group, what);
  });
}

void NcclChannels::warm_sum(const NcclSum& sum) {
  const std::string what = "connecting the members of " + name(sum.communicator);
  contact(what, [&] {
    for (const auto& [rank, payload] : sum.payloads) {
      local(rank)->make_current();
      local(rank)->fill(streams_.at(rank).get(), payload, std::byte{0});
    }
    NcclGroup group(api_.nccl, "connecting a collective");
    for (const auto& [rank, payload] : sum.payloads) {
      local(rank)->make_current();
      post(StreamCollective{.communicator = sum.communicator,
                            .rank = rank,
                            .type = sum.type,
                            .payload = payload,
                            .stream = streams_.at(rank).get()});
    }
    end_contact(group, what);
  });
}

/// Waits until all that the warm-up enqueued is done.
void NcclChannels::finish(const std::string& what) {
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

void NcclChannels::settle(ncclComm* communicator, const std::string& what) {
  while (in_progress(communicator, [&] { return what; })) wait(what);
  reset_deadline();
}
void NcclChannels::settle_roots(const std::string& what) {
  for (std::size_t i = 0; i < roots_.size(); ++i) settle(roots_[i], named(ranks_[i]->rank()) + ": " + what);
}

}  // namespace ppsim::gpu_backend
