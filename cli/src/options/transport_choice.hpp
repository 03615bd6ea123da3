#pragma once

#include <optional>
#include <string>

#include "command.hpp"
#include "ppsim/core/certificate/certificate.hpp"
#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim::cli {

/// --transport, --buffers and, for verify, --resident.
struct TransportChoice {
  std::string name;  ///< empty: any, or under --resident one with independent queues
  std::string buffers = "rendezvous";
  std::optional<int> resident = {};
  std::string target = {};  ///< of --for: its transport, and no other
};
void add_transport_options(Command& command, TransportChoice& choice);

/// The capabilities of the choice. With TP, CP or EP in `parallelism`, NCCL launches computation in the same
/// order. Errors: bad_argument.
[[nodiscard]] Expected<TransportCapabilities> capabilities_of(const TransportChoice& choice,
                                                              const Parallelism& parallelism);
/// The memory of the chosen transport's communicators on each rank; empty where it takes none.
[[nodiscard]] IdVector<RankId, Bytes> communicator_bytes_of(const TransportChoice& choice,
                                                            const Program& program);
/// Takes the transport of --for.
/// Errors: bad_argument where another one was asked for.
[[nodiscard]] Expected<void> choose_target(TransportChoice& choice, const std::string& target);
/// The options again, for the command that comes next; empty where there are none.
[[nodiscard]] std::string options_text(const TransportChoice& choice);

/// The transports that an answer holds for: "transport any: a proof holds on in-process, mpi, copy and nccl,
/// ...".
[[nodiscard]] std::string transport_line(const TransportCapabilities& capabilities);
/// The same of times, which leave out waits that may occur or not.
[[nodiscard]] std::string simulated_line(const TransportCapabilities& capabilities);
/// The name of the transport, buffers and places aside.
[[nodiscard]] std::string transport_name(const TransportCapabilities& capabilities);
/// The one that a certificate names.
[[nodiscard]] std::string transport_name(const Certificate& certificate);
/// report(), of what an answer about a transport refuses: names the transport where the Program is to blame.
int report_on(const TransportCapabilities& capabilities, Error error, const Output& output);

}  // namespace ppsim::cli
