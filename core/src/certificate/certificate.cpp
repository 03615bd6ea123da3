#include "ppsim/core/certificate/certificate.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "parts.hpp"
#include "ppsim/core/execution/well_formed.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/core/ir/transports.hpp"

namespace ppsim {
namespace {

constexpr std::size_t kOfEveryOne = 3;
constexpr std::array<std::string_view, 8> kProperties = {
    "well_formed",          "matched",       "deadlock_free", kCollectiveOrder,
    kAscendingAccumulation, kWeightVersions, kTensorUse,      kMemory};

Expected<void> check_properties(const Certificate& certificate) {
  std::set<std::string_view> seen;
  for (const std::string& property : certificate.properties) {
    if (std::ranges::find(kProperties, property) == kProperties.end())
      return refuse("it claims ", property, ", which no certificate can be about");
    if (!seen.insert(property).second) return refuse("it claims ", property, " twice");
  }
  for (const std::string_view property : std::span(kProperties).first(kOfEveryOne)) {
    if (!seen.contains(property)) return refuse("it does not claim ", property);
  }
  if (seen.contains(kMemory) && certificate.memory.empty()) return refuse("it claims memory but bounds none");
  if (!seen.contains(kMemory) && !certificate.memory.empty())
    return refuse("it bounds memory but does not claim it");
  return {};
}

Expected<void> check_hash(const std::string& what, const std::string& claimed, const std::string& found) {
  if (claimed == found) return {};
  return refuse("it is about ", what, " ", claimed, ", this is ", found);
}

/// The transport's name is for people; it must be the name of the transport that the proof is about.
Expected<void> check_transport(const Certificate& certificate) {
  if (certificate.transport.empty() || launches_like(certificate.transport, certificate.capabilities))
    return {};
  return refuse("it names transport ", certificate.transport,
                ", and its capabilities are another's: ", certificate.capabilities);
}

Expected<void> check_identity(const Certificate& certificate, const Program& program,
                              const SizeTable* sizes) {
  PPSIM_RETURN_IF_ERROR(check_hash("program", certificate.program_hash, program_hash(program)));
  const std::string capabilities = capabilities_hash(certificate.capabilities);
  PPSIM_RETURN_IF_ERROR(check_hash("capabilities", certificate.capabilities_hash, capabilities));
  PPSIM_RETURN_IF_ERROR(check_transport(certificate));
  if (certificate.memory.empty()) {
    if (certificate.sizes_hash.empty()) return {};
    return refuse("it names sizes ", certificate.sizes_hash, " but bounds no memory");
  }
  if (sizes == nullptr) return refuse("it bounds memory, and no sizes are given");
  return check_hash("sizes", certificate.sizes_hash, sizes_hash(*sizes));
}

Expected<void> check_none(const std::vector<Violation>& violations) {
  if (violations.empty()) return {};
  return refuse(violations.front().message);
}

/// Everything that can make an instruction wait for ever without a cycle; the two lists of violations name
/// most of it, but they are not this checker's word.
Expected<void> check_graph(const ExecutionGraph& graph) {
  if (!graph.unsatisfiable.empty())
    return refuse("an instruction never starts: ", graph.unsatisfiable.front().why);
  for (const Message& message : graph.messages) {
    if (!message.complete()) return refuse("a transfer has no counterpart");
    if (!message.matched) return refuse("the ends of a transfer differ");
  }
  for (const CollectiveMatch& match : graph.matches) {
    if (!match.complete) return refuse("a collective lacks a member");
    if (!match.matched) return refuse("the members of a collective differ");
  }
  return {};
}

Expected<void> check_limits(const TransportCapabilities& capabilities) {
  if (capabilities.credits && *capabilities.credits < 1) return refuse("credits are at least 1");
  if (capabilities.residency && *capabilities.residency < 1) return refuse("a residency limit is at least 1");
  if (capabilities.residency && capabilities.launches.order != LaunchOrder::none)
    return refuse("a residency limit together with ordered launches");
  if (!capabilities.guaranteed_launches.is_within(capabilities.launches))
    return refuse("an order of launches that is guaranteed and never a wait");
  return {};
}

/// One order proves nothing where a limit may bind: then who takes a place decides. At most one operation of
/// each communication queue is in flight, so a limit of as many never binds.
Expected<void> check_residency(const Program& program, const TransportCapabilities& capabilities) {
  if (!capabilities.residency) return {};
  for (const RankId rank : program.pipeline().rank_ids()) {
    std::set<int> queues;
    for (const InstructionId id : program.ids_of(rank)) {
      if (is_communication(program.actions(id).front().kind)) queues.insert(program.queues_of(id).front());
    }
    if (queues.size() > as_size(*capabilities.residency)) {
      return refuse("rank ", rank, " has ", queues.size(), " communication queues and ",
                    *capabilities.residency,
                    " operations may be in flight: a run order proves nothing under such a limit");
    }
  }
  return {};
}

/// Claims beyond those that every certificate makes.
Expected<void> check_claims(const Certificate& certificate, const Program& program,
                            const ExecutionGraph& graph, const SizeTable* sizes) {
  if (certificate.claims(kCollectiveOrder)) {
    PPSIM_RETURN_IF_ERROR(check_certificate_collectives(program, graph));
  }
  if (certificate.claims(kAscendingAccumulation)) {
    PPSIM_RETURN_IF_ERROR(check_certificate_accumulation(program));
  }
  if (certificate.claims(kWeightVersions)) {
    PPSIM_RETURN_IF_ERROR(check_certificate_versions(program));
  }
  if (!certificate.claims(kTensorUse) && !certificate.claims(kMemory)) return {};
  if (certificate.capabilities.is_certain())
    return check_certificate_tensors(certificate, program, graph, sizes);
  const ExecutionGraph kept = build_execution_graph(program, guaranteed(certificate.capabilities));
  return check_certificate_tensors(certificate, program, kept, sizes);
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Certificate& certificate) {
  out << "certificate of program " << certificate.program_hash << " under " << certificate.capabilities;
  for (const MemoryWitness& witness : certificate.memory) {
    out << ", rank " << witness.rank << " at most " << witness.bytes << " bytes";
  }
  return out;
}

std::span<const std::string_view> certifiable_properties() { return kProperties; }

bool Certificate::claims(std::string_view property) const {
  return std::ranges::find(properties, property) != properties.end();
}

Expected<void> check_certificate(const Certificate& certificate, const Program& program,
                                 const SizeTable* sizes) {
  PPSIM_RETURN_IF_ERROR(check_identity(certificate, program, sizes));
  PPSIM_RETURN_IF_ERROR(check_properties(certificate));
  PPSIM_RETURN_IF_ERROR(check_limits(certificate.capabilities));
  const ExecutionGraph graph = build_execution_graph(program, certificate.capabilities);
  PPSIM_RETURN_IF_ERROR(check_none(well_formed_violations(program, graph)));
  PPSIM_RETURN_IF_ERROR(check_none(match_violations(program, graph)));
  PPSIM_RETURN_IF_ERROR(check_graph(graph));
  PPSIM_RETURN_IF_ERROR(check_residency(program, certificate.capabilities));
  PPSIM_RETURN_IF_ERROR(check_certificate_order(program, graph, certificate.order));
  return check_claims(certificate, program, graph, sizes);
}

Expected<void> check_carries_over(const TransportCapabilities& used, const Certificate& certificate,
                                  const Program& program, const SizeTable* sizes) {
  if (holds_under(certificate.capabilities, used, Claim::orders)) return {};
  if (!holds_under(certificate.capabilities, used, Claim::safety))
    return refuse("it is of a transport where other waits occur");
  Certificate there = certificate;
  there.transport.clear();
  there.capabilities = used;
  there.capabilities_hash = capabilities_hash(used);
  return check_certificate(there, program, sizes);
}

Expected<void> check_certificate_on(const TransportCapabilities& used, const Certificate& certificate,
                                    const Program& program, const SizeTable* sizes) {
  PPSIM_RETURN_IF_ERROR(check_certificate(certificate, program, sizes));
  return check_carries_over(used, certificate, program, sizes);
}

}  // namespace ppsim
