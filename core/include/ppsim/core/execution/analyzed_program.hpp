#pragma once

#include <memory>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/memory/tensors.hpp"

namespace ppsim {

/// A Program and everything that follows from it on one transport, without costs and sizes: what simulator,
/// verifier, slot plan and executors read. Immutable; each part is made on first use, once for all copies and
/// threads. Only the checker of certificates makes its own parts, since it trusts nobody.
class AnalyzedProgram {
 public:
  /// Refers to `program`, which must outlive it and its copies.
  AnalyzedProgram(const Program& program, const TransportCapabilities& capabilities);
  /// Takes `program`.
  AnalyzedProgram(Program&& program, const TransportCapabilities& capabilities);

  [[nodiscard]] const Program& program() const;
  [[nodiscard]] const TransportCapabilities& capabilities() const;

  /// All waits that may occur: what a deadlock is made of.
  [[nodiscard]] const ExecutionGraph& graph() const;
  /// The waits that simulated times count. The same object as graph() where launches are certain.
  [[nodiscard]] const ExecutionGraph& timed_graph() const;
  /// The waits that occur in every run: what bounds on memory rest on. The same object as timed_graph() where
  /// sends are not eager.
  [[nodiscard]] const ExecutionGraph& guaranteed_graph() const;
  /// A run order of graph(), and so of the others.
  [[nodiscard]] const RunOrder& order() const;
  /// A run order of timed_graph() that does not depend on the waits that may occur besides.
  [[nodiscard]] const RunOrder& timed_order() const;
  /// A run order of guaranteed_graph() that does not depend on the waits that may occur besides.
  [[nodiscard]] const RunOrder& guaranteed_order() const;
  [[nodiscard]] const TensorTable& tensors() const;

  /// No message and no collective meets a different thing.
  [[nodiscard]] bool is_matched() const;
  /// Every run completes: matched, and without deadlock. Without a residency limit this is exact.
  [[nodiscard]] bool finishes() const { return is_matched() && order().complete; }

 private:
  struct Parts;
  std::shared_ptr<const Parts> parts_;
};

}  // namespace ppsim
