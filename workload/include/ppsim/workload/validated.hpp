#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ppsim/workload/analytic.hpp"

namespace ppsim::workload {

/// Measured runs that are alike, and how far simulations of them are off. Source: `ppsim validate` on
/// studies/accuracy/data; a test compares them.
struct ValidatedClass {
  bool mixture = false;  ///< of experts
  std::string_view gpu;
  DataType dtype = DataType::bf16;
  int runs = 0;
  double mean_percent = 0;  ///< of absolute errors of the step time
};

/// "dense gb200 fp8": architecture, GPU and data type.
[[nodiscard]] std::string class_name(const ValidatedClass& validated);

/// The runs that are most like this one: on the same GPU, dense or not as it is, of its data type if there
/// are any. Nothing where this GPU was not measured.
[[nodiscard]] std::optional<ValidatedClass> nearest_class(const Workload& workload);

/// Model, sequence, parallelism, microbatches, cluster and stack in one line.
[[nodiscard]] std::string summary(const Workload& workload);
/// The effects that its costs leave out.
[[nodiscard]] std::string not_modelled(const Workload& workload);
/// How far simulations of the nearest measured runs are off, or that there are none.
[[nodiscard]] std::string known_error(const Workload& workload);

}  // namespace ppsim::workload

namespace ppsim {
using workload::nearest_class;
using workload::ValidatedClass;
}  // namespace ppsim
