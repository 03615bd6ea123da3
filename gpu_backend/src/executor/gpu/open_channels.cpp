#include "open_channels.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "process_group/bytes.hpp"
#include "transport/copy/copy_channels.hpp"
#include "transport/nccl/nccl_channels.hpp"

namespace ppsim::gpu_backend {
namespace {

/// One id for all: process 0 makes it.
NcclUniqueId exchange_id(const NcclTable& nccl, Peers& peers) {
  NcclUniqueId id;
  if (peers.leads()) check_nccl(nccl, nccl.unique_id(&id), "a new communicator");
  const std::string bytes = peers.from_leader({std::begin(id.internal), std::end(id.internal)});
  std::ranges::copy(bytes, std::begin(id.internal));
  return id;
}

/// Devices of other processes may be smaller.
int smallest_of_all(Peers& peers, int own) {
  int smallest = own;
  for (const std::string& bytes : peers.from_all(ByteWriter().put(own).take()))
    smallest = std::min(smallest, ByteReader(bytes).get<int>());
  return smallest;
}

/// A kind of sum that steps make. NCCL chooses its algorithm by type and size.
using SumKind = std::tuple<CommunicatorId, ElementType, Bytes>;

SumKind kind_of(const ChannelSetup& setup, InstructionId id) {
  const CollectiveMemory memory =
      collective_memory(setup.model, setup.program.pipeline(), setup.program.actions(id).front());
  return {setup.program.communicators_of(id).front(), memory.type, memory.bytes};
}

/// Of the sums of all ranks one of each kind, whoever takes part in it; found alike in every process.
std::set<SumKind> kinds_of_sums(const ChannelSetup& setup) {
  std::set<SumKind> kinds;
  const Program& program = setup.program;
  for (InstructionId id(0); id.index() < program.size(); id = next(id)) {
    if (!is_collective(program.actions(id).front().kind)) continue;
    if (program.communicator(program.communicators_of(id).front()).members.size() > 1)
      kinds.insert(kind_of(setup, id));
  }
  return kinds;
}

/// The memory that a rank sums by its first instruction of a kind; one that has none takes part all the same.
std::span<std::byte> payload_of(const ChannelSetup& setup, std::size_t number, const SumKind& kind) {
  RankDevice& device = *setup.ranks[number];
  const Program& program = setup.program;
  for (const InstructionId id : program.ids_of(device.rank())) {
    if (!is_collective(program.actions(id).front().kind) || kind_of(setup, id) != kind) continue;
    return setup.collectives[number].summed(id);
  }
  return device.allocate(std::get<Bytes>(kind), "a sum that it has no part in");
}

std::vector<NcclSum> sums_of(const ChannelSetup& setup) {
  std::vector<NcclSum> sums;
  for (const SumKind& kind : kinds_of_sums(setup)) {
    const auto& [communicator, type, bytes] = kind;
    NcclSum sum{.communicator = communicator, .type = type};
    const auto& members = setup.program.communicator(communicator).members;
    for (std::size_t r = 0; r < setup.ranks.size(); ++r) {
      const RankId rank = setup.ranks[r]->rank();
      if (std::ranges::find(members, rank) != members.end()) sum.payloads[rank] = payload_of(setup, r, kind);
    }
    sums.push_back(std::move(sum));
  }
  return sums;
}

/// The memory of the transfers of a rank of this process; none where the Program lacks a tensor, which is an
/// error of the step that reaches them.
std::vector<Transfer> transfers_of(const ChannelSetup& setup, InstructionId id) {
  const int own = setup.program.rank_of(id).value() - setup.ranks.front()->rank().value();
  try {
    return setup.actions[as_size(own)].transfers(id);
  } catch (const BackendError&) {
    return {};
  }
}

std::span<std::byte> summed_of(const ChannelSetup& setup, InstructionId id) {
  const int own = setup.program.rank_of(id).value() - setup.ranks.front()->rank().value();
  return setup.collectives[as_size(own)].summed(id);
}

std::unique_ptr<GpuChannels> open_copies(const ChannelSetup& setup) {
  auto channels = std::make_unique<CopyChannels>(
      CopySetup{.program = setup.program,
                .graph = setup.graph,
                .ranks = setup.ranks,
                .transfers = [&](InstructionId id) { return transfers_of(setup, id); },
                .summed = [&](InstructionId id) { return summed_of(setup, id); },
                .peers = setup.peers});
  try {
    channels->lend_and_borrow();
  } catch (const BackendError& failure) {
    setup.peers.stop_unbegun(failure.error());  // else these channels wait for what others have open
    throw;
  }
  return channels;
}

}  // namespace

std::unique_ptr<GpuChannels> open_channels(const ChannelSetup& setup) {
  if (setup.options.transport == CudaTransport::copy) return open_copies(setup);
  return std::make_unique<NcclChannels>(
      NcclSetup{.api = setup.api,
                .program = setup.program,
                .ranks = setup.ranks,
                .exchange_id = [&] { return exchange_id(setup.api.nccl, setup.peers); },
                .sums = sums_of(setup),
                .smallest_of_all = [&](int own) { return smallest_of_all(setup.peers, own); },
                .check_abort = [&peers = setup.peers] { peers.throw_if_stopped(); },
                .max_ctas = setup.options.max_ctas,
                .graphs = setup.options.graphs});
}

}  // namespace ppsim::gpu_backend
