#include "ppsim/core/ir/transports.hpp"

#include <algorithm>
#include <array>

#include "ppsim/core/text/as_text.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/core/text/number_text.hpp"

namespace ppsim {
namespace {

/// Sends are eager: what fits into the buffers of NCCL's protocols leaves before its receiver is there.
constexpr TransportCapabilities nccl(LaunchChain chain) {
  return {.eager = true, .launches = chain, .guaranteed_launches = chain};
}

/// With four channels, as the backend asks for. Source: the sources of NCCL 2.28.9 (buffers of its
/// protocols); not measured.
constexpr EdgeMemory kNcclEdge{.at_sender = Bytes{8} << 20U, .at_receiver = Bytes{40} << 20U};

constexpr auto kTransports = std::to_array<Transport>({
    {"any", "a proof holds on in-process, mpi, copy and nccl", any_transport()},
    {"in-process", "threads of one process; queues are independent", rendezvous()},
    {"mpi", "processes; queues are independent", rendezvous()},
    {"copy", "copy engines of the GPUs of one host; queues are independent", rendezvous()},
    {"nccl", "a rank's transfers and collectives start in host order, over all communicators",
     nccl({LaunchOrder::start, false, false}), kNcclEdge},
    {"nccl-one-queue", "CUDA_DEVICE_MAX_CONNECTIONS=1: everything that a rank runs starts in host order",
     nccl({LaunchOrder::start, false, true}), kNcclEdge},
});

}  // namespace

std::span<const Transport> transports() { return kTransports; }

Expected<TransportCapabilities> transport(std::string_view name, bool compute_launches) {
  const auto* const found = std::ranges::find(kTransports, name, &Transport::name);
  if (found != kTransports.end()) {
    TransportCapabilities capabilities = found->capabilities;
    capabilities.launches.compute |= compute_launches && capabilities.launches.order != LaunchOrder::none;
    capabilities.guaranteed_launches.compute |=
        compute_launches && capabilities.guaranteed_launches.order != LaunchOrder::none;
    return capabilities;
  }
  return make_error(ErrorCode::bad_argument, "unknown transport",
                    {.found = std::string(name), .expected = joined(names_in(kTransports))});
}

bool launches_like(std::string_view name, const TransportCapabilities& capabilities) {
  const auto same = [&](bool compute_launches) {
    const auto named = transport(name, compute_launches);
    return named && named->eager == capabilities.eager && named->launches == capabilities.launches &&
           named->guaranteed_launches == capabilities.guaranteed_launches;
  };
  return same(false) || same(true);
}

std::string_view name_of(const TransportCapabilities& capabilities) {
  const auto* const found = std::ranges::find_if(
      kTransports, [&](const Transport& known) { return launches_like(known.name, capabilities); });
  return found == kTransports.end() ? std::string_view() : found->name;
}

EdgeMemory edge_memory(std::string_view transport) {
  const auto* const found = std::ranges::find(kTransports, transport, &Transport::name);
  return found == kTransports.end() ? EdgeMemory{} : found->edge_memory;
}

std::string transport_text(const TransportCapabilities& capabilities) {
  const bool independent = capabilities.launches == LaunchChain() && capabilities.is_certain();
  std::string text(independent ? "in-process, mpi or copy" : name_of(capabilities));
  if (text.empty()) return as_text(capabilities);
  if (const auto known = transport(text, false);
      known && capabilities.launches.compute && !known->launches.compute)
    text += ", computation included";
  if (capabilities.credits)
    text += ", buffers of " + with_plural(*capabilities.credits, "message") + " a channel";
  if (capabilities.residency) text += ", " + with_plural(*capabilities.residency, "operation") + " in flight";
  return text;
}

}  // namespace ppsim
