#pragma once

#include <string>
#include <vector>

#include "ppsim/gpu_backend/executor/execute.hpp"

namespace ppsim::gpu_backend {

/// The steps of the unpipelined reference, and its work between them.
struct ReferenceOptions {
  int steps = 1;
  bool update = false;   ///< an OPT of every block after every step but the last, where they are synchronous
  double clip_norm = 0;  ///< largest norm of the gradients that an OPT sees; 0: any
  friend bool operator==(const ReferenceOptions&, const ReferenceOptions&) = default;
};

/// The reference that a run of `program` is to be compared with: updates and clips where the Program does.
[[nodiscard]] ReferenceOptions reference_options(const Program& program, const RunOptions& options);

/// Gradients of the last step without any pipelining: on one thread, every microbatch in ascending order runs
/// F through all stages of its route, then B, each stage on the version of its weights that the pipeline
/// says, on whole sequences where the pipeline has slices. Order: one entry per block and update, ascending;
/// `rank` is the lowest that owns the block. Errors: bad_argument when the model refuses the pipeline, a
/// stage has more than two blocks, or updates do not come one after another.
[[nodiscard]] Expected<std::vector<BlockGradients>> reference_gradients(const Pipeline& pipeline,
                                                                        const CpuStageModel& model,
                                                                        const ReferenceOptions& options = {});

/// Largest absolute difference between the gradients of a run and of the reference; 0 only if all are equal
/// bit by bit. The shares of several ranks are summed first where the run did not reduce them; a block that
/// the run has no gradients of counts as zero. Requires: both of one pipeline and model.
[[nodiscard]] double max_gradient_difference(const CpuStageModel& model,
                                             const std::vector<BlockGradients>& run,
                                             const std::vector<BlockGradients>& reference);

/// Hash of the gradients of a run, in their order. Lines of 64 bytes that are all zero do not count, so that
/// of a model that lays its tensors out in such lines it does not depend on how many stages the model is cut
/// into, as long as each gradient is on one rank.
[[nodiscard]] std::string gradients_hash(const std::vector<BlockGradients>& run);

}  // namespace ppsim::gpu_backend

namespace ppsim {
using gpu_backend::gradients_hash;
using gpu_backend::max_gradient_difference;
using gpu_backend::reference_gradients;
using gpu_backend::reference_options;
using gpu_backend::ReferenceOptions;
}  // namespace ppsim
