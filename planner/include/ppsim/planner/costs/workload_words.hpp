#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ppsim/workload/analytic.hpp"

namespace ppsim::planner {

/// A Workload as a command line or a script says it.
struct WorkloadWords {
  std::string model;    ///< NAME[:field=value,...], or the path of a Hugging Face config.json
  std::string cluster;  ///< NAME, or the path of a description
  int nodes = 1;
  Parallelism parallelism;  ///< its data type and rank order aside
  std::string dtype = "bf16";
  std::string rank_order = "tp-cp-dp-pp";
  std::string layout = "even";                       ///< even, auto or Megatron's string
  std::string stack = "megatron-core";               ///< NAME, or the path of a description
  std::optional<CheckpointPolicy> checkpoints = {};  ///< of selective recompute; none: the stack's
  bool whole_step = true;
  std::string calibration = {};  ///< path of a file; empty: none
};

/// Recompute of stages, and where a checkpoint policy of JAX says it, that.
struct RecomputeWords {
  StageRecompute stages;
  std::optional<CheckpointPolicy> checkpoints;
};
/// As recompute_from_text; or the name of a checkpoint policy, which every stage then follows.
/// Errors: bad_argument naming what there is.
[[nodiscard]] Expected<RecomputeWords> recompute_from_words(std::string_view text);

/// A stack by name or file. Errors: as below.
[[nodiscard]] Expected<SoftwareStack> stack_from_argument(const std::string& argument);

/// The files that words name, whether or not they are there.
[[nodiscard]] std::vector<std::string> files_named(const WorkloadWords& words);

/// The workload that words describe; one that ends in .json or holds a slash names a file.
/// Errors: bad_argument and bad_file naming what there is; those of check_parallelism.
[[nodiscard]] Expected<Workload> workload_from_words(const WorkloadWords& words);

/// The same where the parallelism is to be searched, and so is not checked.
[[nodiscard]] Expected<Workload> workload_to_search(const WorkloadWords& words);

}  // namespace ppsim::planner

namespace ppsim {
using planner::recompute_from_words;
using planner::RecomputeWords;
using planner::workload_from_words;
using planner::workload_to_search;
using planner::WorkloadWords;
}  // namespace ppsim
