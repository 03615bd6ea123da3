#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/workload/parallelism.hpp"

namespace ppsim::workload {

/// A training run that somebody published: a model on GPUs, and how it is spread over them.
struct TrainingJob {
  std::string name;
  std::string schedule;  ///< with its chunks, as a command line names it
  std::string model;     ///< of model_presets()
  std::string cluster;   ///< of node_presets()
  int nodes = 1;
  Parallelism parallelism;
  std::string source;
};

/// Published runs. Source: named per entry.
[[nodiscard]] std::span<const TrainingJob> job_presets();

/// Errors: bad_argument naming the jobs there are.
[[nodiscard]] Expected<TrainingJob> job_from_name(std::string_view name);

}  // namespace ppsim::workload

namespace ppsim {
using workload::job_from_name;
using workload::job_presets;
using workload::TrainingJob;
}  // namespace ppsim
