#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim {

/// `bytes` of tensor `earlier` are free, in every timing, before tensor `later` is allocated: so the two
/// never need room for these bytes at once. Indexes into tensor_table(program).tensors.
struct Reuse {
  std::uint32_t earlier = 0;
  std::uint32_t later = 0;
  Bytes bytes = 0;
  friend bool operator==(const Reuse&, const Reuse&) = default;
};

/// Proof that a rank never needs more than `bytes`: the sizes of all its tensors, less what `reuse` shares.
/// Each tensor gives and takes at most its own size. By max-flow min-cut duality the best reuse meets the
/// worst case.
struct MemoryWitness {
  RankId rank;
  Bytes bytes = 0;
  std::vector<Reuse> reuse;
  friend bool operator==(const MemoryWitness&, const MemoryWitness&) = default;
};

/// The properties that a certificate can prove, as the command line spells them: those that every one proves,
/// (well_formed, matched, deadlock_free), then the others.
[[nodiscard]] std::span<const std::string_view> certifiable_properties();

/// A proof of properties of one Program under one transport, which is checked without a solver.
struct Certificate {
  std::string transport = {};  ///< the named one that `capabilities` are of; empty: none that has a name
  std::string program_hash;
  std::string sizes_hash;  ///< empty when no memory bound is claimed
  std::string capabilities_hash;
  TransportCapabilities capabilities;
  std::vector<std::string> properties;  ///< the claims, each of certifiable_properties() at most once
  /// Deadlock freedom: starts and completions of all instructions in an order that respects every wait
  /// (RunOrder::items). Of the other properties only memory needs a witness: the checker looks.
  std::vector<std::uint32_t> order;
  std::vector<MemoryWitness> memory;  ///< one per rank where memory is claimed, else none

  [[nodiscard]] bool claims(std::string_view property) const;
  friend bool operator==(const Certificate&, const Certificate&) = default;
};
std::ostream& operator<<(std::ostream& out, const Certificate& certificate);

/// Re-validates every claim from the Program alone. `sizes` may be null when the certificate has no memory.
/// Shares neither the wait analysis nor the clock pass with those who make claims, so that it can contradict
/// them.
/// Errors: refused, naming the first claim that does not hold and why (another Program, a transport that its
/// capabilities are not of, an unknown property,
/// an order that starts an instruction before what it waits for, a tensor that may be used before it is
/// complete, a reuse without happens-before, a bound below the sum).
[[nodiscard]] Expected<void> check_certificate(const Certificate& certificate, const Program& program,
                                               const SizeTable* sizes);

/// Whether all of a certificate holds on a transport of these capabilities, too: every wait that may occur
/// there was considered; and every order that tensor use and the bounds on memory rest on is kept, which is
/// looked up in the Program where holds_under() alone does not say so.
/// Requires: check_certificate accepts it.
/// Errors: refused where it need not hold there.
[[nodiscard]] Expected<void> check_carries_over(const TransportCapabilities& used,
                                                const Certificate& certificate, const Program& program,
                                                const SizeTable* sizes);

/// check_certificate, then check_carries_over.
[[nodiscard]] Expected<void> check_certificate_on(const TransportCapabilities& used,
                                                  const Certificate& certificate, const Program& program,
                                                  const SizeTable* sizes);

}  // namespace ppsim
