#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/units.hpp"

namespace ppsim {

/// Memory of a device that a transport takes for each pair of ranks, in each direction, that a communicator
/// carries messages between.
struct EdgeMemory {
  Bytes at_sender = 0;
  Bytes at_receiver = 0;
  friend bool operator==(const EdgeMemory&, const EdgeMemory&) = default;
};

/// A transport that has a name.
struct Transport {
  std::string_view name;
  std::string_view description;  ///< one line
  TransportCapabilities capabilities;
  EdgeMemory edge_memory = {};
};

/// any, in-process, mpi, copy, nccl, nccl-one-queue.
[[nodiscard]] std::span<const Transport> transports();

/// The capabilities of a named transport. `compute_launches`: computation itself launches collectives
/// (tensor, context or expert parallelism, FSDP).
/// Errors: bad_argument with the names that exist.
[[nodiscard]] Expected<TransportCapabilities> transport(std::string_view name, bool compute_launches = false);

/// Whether a transport of that name launches in these orders and is as eager, with or without computation
/// that launches collectives; buffers and places aside.
[[nodiscard]] bool launches_like(std::string_view name, const TransportCapabilities& capabilities);
/// The first named transport that launches in these orders, and is as eager; empty where none does.
[[nodiscard]] std::string_view name_of(const TransportCapabilities& capabilities);

/// The memory of the transport of that name; empty if no transport has it.
[[nodiscard]] EdgeMemory edge_memory(std::string_view transport);

/// Every wait of all named transports but nccl-one-queue, and the guarantees of none: a proof for it holds on
/// each of them.
[[nodiscard]] constexpr TransportCapabilities any_transport() {
  return {.eager = true, .launches = {LaunchOrder::start, true, false}};
}

/// The name of the named transport that launches so, with what it buffers; else the capabilities as text.
[[nodiscard]] std::string transport_text(const TransportCapabilities& capabilities);

}  // namespace ppsim
