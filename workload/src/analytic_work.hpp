#pragma once

#include <cstdint>

#include "ppsim/workload/layout.hpp"

namespace ppsim::workload {

/// What a stage holds of its model, and what stands before it.
struct StageShare {
  StageContents contents;
  std::int64_t first_layer = 0;
  std::int64_t mtp_before = 0;
  std::int64_t heads = 0;  ///< passes of the head, if it stands here
};

/// Work of one layer for one microbatch on one GPU.
struct LayerWork {
  double product_flops = 0;    ///< forward; the same again for I and for W
  double attention_flops = 0;  ///< forward
  double traffic_bytes = 0;    ///< element-wise reads and writes, forward
  double exchange_bytes = 0;   ///< one all-gather or reduce-scatter of the tensor-parallel group
  double expert_bytes = 0;     ///< one all-to-all of the expert-parallel group
  double saved_for_input = 0;
  double saved_for_weight = 0;
  double cheap_saved = 0;    ///< of saved_for_weight: norms and activation functions, from what I needs
  double cheap_traffic = 0;  ///< element-wise reads and writes that make it again
  double inner_gradients = 0;
  double parameters = 0;
};

}  // namespace ppsim::workload
