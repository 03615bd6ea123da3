#pragma once

#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim::schedules {

/// How the vocabulary layers are sharded over p ranks: stage r < p, shard p + r of the output layer, and
/// perhaps shard 2 p + r of the input layer, on rank r.
struct VocabularyLayout {
  CollectiveId softmax = CollectiveId(0);   ///< between S and T of all shards
  CollectiveId gradient = CollectiveId(0);  ///< B of the last stage waits for it
  CollectiveId embedding = {};              ///< F of the first stage waits for it where the input is sharded
  int extra = 1;  ///< live activations of a rank beyond the p - r of 1F1B, one per barrier
  [[nodiscard]] bool two_barriers() const { return gradient != softmax; }
  [[nodiscard]] bool shards_input() const { return embedding.valid(); }
};

/// Appends the rows of all ranks, in the order in which a rank that is free starts what is ready under the
/// costs: T and the S of the next microbatch directly after it, else the passes of the input layer, forwards
/// at most two microbatches ahead, else F while there are no more than p - r + extra live activations, else
/// B. F and B of a shard are its S and T; each is followed by its collective. Requires: ranks p, stages 2 p,
/// or 3 p where the input is sharded.
void add_vocabulary_rows(ScheduleBuilder& builder, const Pipeline& pipeline, const VocabularyLayout& layout,
                         const CostTable& costs);

}  // namespace ppsim::schedules
