#include "transport_choice.hpp"

#include <algorithm>
#include <iostream>

#include "ppsim/core/ir/transports.hpp"
#include "ppsim/core/text/as_text.hpp"
#include "ppsim/core/text/number_text.hpp"
#include "ppsim/planner/costs/rank_memory.hpp"

namespace ppsim::cli {
namespace {

/// The named transport that it is, buffers, places and what computation launches aside.
struct Named {
  std::string name;
  std::string description;
};

Named named(const TransportCapabilities& capabilities) {
  if (capabilities.launches == LaunchChain() && capabilities.is_certain())
    return {"in-process, mpi or copy", "queues are independent"};
  const std::string_view name = name_of(capabilities);
  if (name.empty()) return {"of its own", as_text(capabilities)};
  const auto known = std::ranges::find(transports(), name, &Transport::name);
  const bool computes = capabilities.launches.compute && !known->capabilities.launches.compute;
  return {std::string(name),
          std::string(known->description) +
              (computes ? ", and so does the computation, which launches collectives" : "")};
}

}  // namespace

void add_transport_options(Command& command, TransportChoice& choice) {
  command.add_option("--transport", choice.name,
                     "what the answer holds for: any (the default), nccl, nccl-one-queue, mpi, copy or "
                     "in-process (ppsim list transports)");
  command.add_option("--buffers", choice.buffers, "rendezvous, or messages that a channel buffers")
      .show_default();
}

Expected<TransportCapabilities> capabilities_of(const TransportChoice& choice,
                                                const Parallelism& parallelism) {
  PPSIM_ASSIGN_OR_RETURN(const auto buffers, buffers_from_text(choice.buffers));
  if (choice.resident && *choice.resident < 1) {
    return make_error(ErrorCode::bad_argument, "--resident out of range",
                      {.found = std::to_string(*choice.resident), .expected = "1 or more"});
  }
  const bool launches =
      parallelism.tensor > 1 || parallelism.context > 1 || parallelism.expert > 1 || !choice.target.empty();
  const char* usual = choice.resident ? "in-process" : "any";
  auto capabilities = transport(choice.name.empty() ? usual : choice.name, launches);
  if (!capabilities) {
    capabilities.error().message = "unknown --transport";
    return capabilities;
  }
  if (choice.resident && capabilities->launches != LaunchChain()) {
    return make_error(ErrorCode::bad_argument,
                      "--resident is for transports with independent queues: where launches are ordered, "
                      "who takes a place is no matter of chance",
                      {.found = "--transport " + choice.name, .expected = "in-process, mpi or copy"});
  }
  capabilities->credits = buffers.credits;
  capabilities->residency = choice.resident;
  return capabilities;
}

IdVector<RankId, Bytes> communicator_bytes_of(const TransportChoice& choice, const Program& program) {
  const EdgeMemory of_edge = edge_memory(choice.name);
  return of_edge == EdgeMemory() ? IdVector<RankId, Bytes>() : communicator_bytes(program, of_edge);
}

Expected<void> choose_target(TransportChoice& choice, const std::string& target) {
  if (target.empty()) return {};
  if ((!choice.name.empty() && choice.name != kTargetTransport) || choice.buffers != "rendezvous" ||
      choice.resident) {
    return make_error(ErrorCode::bad_argument, "--for names a transport: that of the release",
                      {.found = "--transport, --buffers or --resident", .expected = "--for alone"});
  }
  choice.name = kTargetTransport;
  choice.target = target;
  return {};
}

std::string options_text(const TransportChoice& choice) {
  std::string text;
  if (!choice.target.empty()) return " --for " + choice.target;
  if (!choice.name.empty()) text += " --transport " + choice.name;
  if (choice.buffers != "rendezvous") text += " --buffers " + choice.buffers;
  return text;
}

std::string transport_line(const TransportCapabilities& capabilities) {
  const Named found = named(capabilities);
  std::string text = "transport " + found.name + ": " + found.description;
  if (capabilities.credits)
    text += "; buffers of " + with_plural(*capabilities.credits, "message") + " a channel";
  if (capabilities.residency)
    text += "; at most " + with_plural(*capabilities.residency, "operation") + " of a rank in flight";
  return text;
}

std::string transport_name(const Certificate& certificate) {
  return certificate.transport.empty() ? transport_name(certificate.capabilities) : certificate.transport;
}

int report_on(const TransportCapabilities& capabilities, Error error, const Output& output) {
  if (error.code != ErrorCode::deadlock && error.code != ErrorCode::ill_formed) return report(error, output);
  const std::string name = transport_name(capabilities);
  error.message = "transport " + name + ": " + error.message;
  if (!output.silent) std::cerr << "ppsim: " << error << '\n';
  if (output.json) {
    Json object = error_json(error);
    object["transport"] = name;
    output.print({{"error", std::move(object)}});
  }
  return exit_code(error.code);
}

std::string simulated_line(const TransportCapabilities& capabilities) {
  return transport_line(capabilities) +
         (capabilities.has_certain_launches() ? "" : "; times are those of independent queues");
}

std::string transport_name(const TransportCapabilities& capabilities) { return named(capabilities).name; }

}  // namespace ppsim::cli
