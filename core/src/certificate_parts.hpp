#pragma once

#include <sstream>

#include "ppsim/core/certificate.hpp"
#include "ppsim/core/execution_graph.hpp"

namespace ppsim {

/// Errors: refused, when the items are not starts and completions of all instructions in an order that the
/// graph allows.
/// Requires: no unsatisfiable instruction, every message and meeting complete.
[[nodiscard]] Expected<void> check_certificate_order(const Program& program, const ExecutionGraph& graph,
                                                     const std::vector<std::uint32_t>& items);

/// Errors: refused, when some rank's bound does not follow from its reuses.
/// Requires: the certificate's order holds.
[[nodiscard]] Expected<void> check_certificate_memory(const Certificate& certificate, const Program& program,
                                                      const ExecutionGraph& graph, const SizeTable& sizes);

/// The error of a claim that does not hold.
template <class... Parts>
[[nodiscard]] tl::unexpected<Error> refuse(const Parts&... parts) {
  std::ostringstream text;
  text << "certificate: ";
  (text << ... << parts);
  return make_error(ErrorCode::refused, text.str());
}

}  // namespace ppsim
