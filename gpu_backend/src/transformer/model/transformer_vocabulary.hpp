#pragma once

#include <optional>

#include "ppsim/core/ir/concatenated.hpp"
#include "ppsim/core/ir/program.hpp"
#include "transformer_role.hpp"

namespace ppsim::gpu_backend::transformer {

/// Why the transformer has no part for the stages of a pipeline.
template <class... Parts>
[[nodiscard]] tl::unexpected<Error> unsupported(const Parts&... parts) {
  return make_error(ErrorCode::bad_argument,
                    concatenated("the transformer cannot run this pipeline: ", parts...));
}

/// True of a stage that makes a part of a sum that is the input of another, or of the gradient of another's
/// output.
[[nodiscard]] bool is_shard(const Pipeline& pipeline, StageId stage, MicrobatchId mb);

/// The role of a shard of the vocabulary; empty for other stages. Source: Yeung, Qi, Lin, Wan, "Balancing
/// pipeline parallelism with vocabulary parallelism", MLSys 2025, section 4.
[[nodiscard]] std::optional<StageRole> shard_of(const Pipeline& pipeline, StageId stage, MicrobatchId mb);

/// Checks that the collectives within microbatches are those of a vocabulary of so many tokens in shards:
/// sums of what all shards of the embedding make, of the gradients that all shards of the head make, and one
/// between F and B of the latter, for their statistics. Errors: bad_argument naming the first that is
/// something else.
[[nodiscard]] Expected<void> check_vocabulary(const Pipeline& pipeline, int vocab);

/// Checks that what the shards of the head save stays on the device from F to B, between which they share
/// parts of it. Errors: bad_argument naming the first action that takes it away, or an F without backward.
[[nodiscard]] Expected<void> check_kept_statistics(const Program& program);

/// True of a collective that makes statistics the same for all shards of the head.
[[nodiscard]] bool shares_statistics(const Pipeline& pipeline, CollectiveId collective);

}  // namespace ppsim::gpu_backend::transformer
