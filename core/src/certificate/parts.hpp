#pragma once

#include "ppsim/core/certificate/certificate.hpp"
#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/ir/concatenated.hpp"

namespace ppsim {

inline constexpr std::string_view kCollectiveOrder = "collective_order";
inline constexpr std::string_view kAscendingAccumulation = "ascending_accumulation";
inline constexpr std::string_view kWeightVersions = "weight_versions";
inline constexpr std::string_view kTensorUse = "tensor_use";
inline constexpr std::string_view kMemory = "memory";

/// Errors: refused, when the items are not starts and completions of all instructions in an order that the
/// graph allows.
/// Requires: no unsatisfiable instruction, every message and match complete.
[[nodiscard]] Expected<void> check_certificate_order(const Program& program, const ExecutionGraph& graph,
                                                     const std::vector<std::uint32_t>& items);

/// Errors: refused, when tensor_use or memory is claimed and does not hold.
/// Requires: the certificate's order holds; sizes where memory is claimed.
[[nodiscard]] Expected<void> check_certificate_tensors(const Certificate& certificate, const Program& program,
                                                       const ExecutionGraph& graph, const SizeTable* sizes);

/// Everything that the ranks' lists alone decide.
/// Errors: refused, naming a rank and an action. Requires: a well-formed Program.
[[nodiscard]] Expected<void> check_certificate_collectives(const Program& program,
                                                           const ExecutionGraph& graph);
[[nodiscard]] Expected<void> check_certificate_accumulation(const Program& program);
[[nodiscard]] Expected<void> check_certificate_versions(const Program& program);

/// The error of a claim that does not hold.
template <class... Parts>
[[nodiscard]] tl::unexpected<Error> refuse(const Parts&... parts) {
  return make_error(ErrorCode::refused, concatenated("certificate: ", parts...));
}

}  // namespace ppsim
