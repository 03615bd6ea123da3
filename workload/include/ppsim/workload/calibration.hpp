#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/op_kind.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "ppsim/core/ir/units.hpp"
#include "ppsim/workload/constants.hpp"

namespace ppsim::workload {

/// Communication that nccl-tests measures and a training step has.
enum class MeasuredOperation : std::uint8_t {
  all_gather,
  all_reduce,
  all_to_all,
  reduce_scatter,
  send_receive,  ///< every GPU to the next one
};
/// As nccl-tests spells it: "all_reduce", "alltoall", "sendrecv".
[[nodiscard]] std::string_view operation_name(MeasuredOperation operation);
[[nodiscard]] std::optional<MeasuredOperation> operation_from_name(std::string_view name);

/// GPUs that communicate, and how many of them each node has.
struct GpuGroup {
  int gpus = 2;
  int gpus_per_node = 2;
  friend auto operator<=>(const GpuGroup&, const GpuGroup&) = default;
};

/// One measured time. `bytes` of the whole buffer, as nccl-tests counts them.
struct MeasuredTime {
  Bytes bytes = 0;
  Nanoseconds time = 0;
  friend bool operator==(const MeasuredTime&, const MeasuredTime&) = default;
};

/// The times of one operation over one group.
struct MeasuredCollective {
  MeasuredOperation operation = MeasuredOperation::all_reduce;
  GpuGroup group;
  std::vector<MeasuredTime> times;  ///< ascending in bytes, not empty
  friend bool operator==(const MeasuredCollective&, const MeasuredCollective&) = default;
};

/// Measurements of a user's own cluster, which the costs of a Workload follow.
struct Calibration {
  /// Of what the model says that actions of a kind take. One that is not here has that of its next relative,
  /// I and W that of B, R that of F, or of its parts: B takes as much longer as its I and W do together, an
  /// overlapped pair as its F and B, and no less than either.
  std::map<OpKind, double> factors;
  std::vector<MeasuredCollective> collectives;
  std::optional<FittedConstants> constants;
  std::vector<std::string> sources;  ///< files that it was made of; for the reader

  [[nodiscard]] bool empty() const { return factors.empty() && collectives.empty() && !constants; }
  /// Of an action whose parts take what a model without factors says.
  [[nodiscard]] double factor(const CostTable& model, const CostClass& action) const;
  /// What an action takes, times its factor. Errors: throws Overflow where that does not fit in 64 bits.
  [[nodiscard]] Nanoseconds scaled(Nanoseconds cost, const CostTable& model, const CostClass& action) const;
  [[nodiscard]] CostTable scaled(const CostTable& costs, const CostTable& model) const;
  friend bool operator==(const Calibration&, const Calibration&) = default;
};

/// The factors that a calibration may have: beyond them the model is not one of what was measured.
inline constexpr double kMinFactor = 0.1;
inline constexpr double kMaxFactor = 10;

/// The file of --calibration. Order: of the schema, so the same calibration gives the same text.
[[nodiscard]] std::string to_json(const Calibration& calibration);
/// Errors: bad_file with the place for what the schema "calibration" does not allow, a kind or an operation
/// that is given twice, and sizes that do not ascend.
[[nodiscard]] Expected<Calibration> calibration_from_json(std::string_view text, const std::string& file);
/// Names a calibration in results, without its sources.
[[nodiscard]] std::string calibration_hash(const Calibration& calibration);

/// Seconds that an operation on `bytes` takes over a group, by what was measured of the most similar group:
/// within a node, or over nodes with as many GPUs each. Between sizes times are interpolated in the
/// logarithms of both; below the smallest size its time holds, above the largest one its rate. A group of
/// another size moves another share of the buffer. Nothing where no such group was measured.
[[nodiscard]] std::optional<double> measured_seconds(std::span<const MeasuredCollective> measured,
                                                     MeasuredOperation operation, const GpuGroup& group,
                                                     double bytes);

}  // namespace ppsim::workload

namespace ppsim {
using workload::Calibration;
using workload::calibration_from_json;
using workload::calibration_hash;
using workload::GpuGroup;
using workload::MeasuredCollective;
using workload::MeasuredOperation;
using workload::MeasuredTime;
}  // namespace ppsim
