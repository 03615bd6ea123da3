#pragma once

#include <cstdint>
#include <map>
#include <ostream>

#include "ppsim/core/ir/action.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tensor_kind.hpp"
#include "ppsim/core/ir/units.hpp"

namespace ppsim {

/// The key of a duration. -1 in a field of a table's key matches anything.
///
/// `subject` is the stage, block or collective of the action; `peer` the other stage of a transfer (rank for
/// SEND_A and RECV_A) and the backward's stage of an OVERLAP_F_B. A transfer is looked up by its SEND.
struct CostClass {
  OpKind kind = OpKind::forward;
  std::int32_t subject = -1;
  std::int32_t peer = -1;
  std::int32_t slice = -1;
  friend auto operator<=>(const CostClass&, const CostClass&) = default;
};
std::ostream& operator<<(std::ostream& out, const CostClass& cost_class);

/// Durations of actions. The most specific entry wins: all fields, then without slice, then without peer,
/// then the kind alone; what no entry names costs 0.
class CostTable {
 public:
  /// Requires: duration >= 0.
  void set(CostClass key, Nanoseconds duration);
  [[nodiscard]] Nanoseconds operator()(const CostClass& key) const;
  [[nodiscard]] const std::map<CostClass, Nanoseconds>& entries() const { return entries_; }
  friend bool operator==(const CostTable&, const CostTable&) = default;

 private:
  std::map<CostClass, Nanoseconds> entries_;
};

/// Costs of one stage's actions in units of kUnitTime, as `--unit` gives them.
struct UnitCosts {
  double F = 1, B = 2, I = 1, W = 1, R = 1;
  double FB = 3;  ///< OVERLAP_F_B
  double c = 0;   ///< one point-to-point transfer
};
[[nodiscard]] CostTable unit_cost_table(const UnitCosts& costs);

/// The duration class of an instruction: its action's, or the pair's. Groups have none.
[[nodiscard]] CostClass cost_class_of(std::span<const Action> actions, InstructionForm form);
[[nodiscard]] CostClass cost_class_of(const Action& action);

/// The key of a size. `subject` is a stage or a block, as tensor_kind.def says for the kind; `peer` the
/// other stage of an edge (incoming_gradient: the consumer that sends it); `op` the kind of action of a
/// workspace and `forward` elsewhere. -1 in a table's key matches anything.
struct SizeClass {
  TensorKind kind = TensorKind::parameters;
  std::int32_t subject = -1;
  std::int32_t peer = -1;
  std::int32_t slice = -1;
  OpKind op = OpKind::forward;
  friend auto operator<=>(const SizeClass&, const SizeClass&) = default;
};
std::ostream& operator<<(std::ostream& out, const SizeClass& size_class);

/// Sizes of tensors, looked up like CostTable; what no entry names takes 0 bytes. Partial gradients that none
/// names are as large as the gradients of the block.
class SizeTable {
 public:
  /// Requires: size >= 0.
  void set(SizeClass key, Bytes size);
  [[nodiscard]] Bytes operator()(const SizeClass& key) const;
  [[nodiscard]] const std::map<SizeClass, Bytes>& entries() const { return entries_; }
  friend bool operator==(const SizeTable&, const SizeTable&) = default;

 private:
  std::map<SizeClass, Bytes> entries_;
};

/// Bytes of the saved activations of one stage and nothing else, as `--unit A=...` gives them: all of it is
/// needed by W as well as by I.
[[nodiscard]] SizeTable activation_size_table(Bytes activation);

}  // namespace ppsim
