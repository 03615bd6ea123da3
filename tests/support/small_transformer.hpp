#pragma once

#include <memory>

#include "ppsim/gpu_backend/transformer/transformer.hpp"

namespace ppsim::test {

/// A transformer that takes next to no time.
[[nodiscard]] inline TransformerConfig small_transformer(int layers, Arithmetic arithmetic) {
  return {.layers = layers,
          .hidden = 8,
          .heads = 2,
          .ffn = 12,
          .vocab = 11,
          .sequence = 4,
          .arithmetic = arithmetic};
}

/// The same as a model in exact integers, whose gradients are equal in every schedule.
[[nodiscard]] inline std::unique_ptr<CpuStageModel> exact_transformer(int layers) {
  return make_transformer(small_transformer(layers, Arithmetic::integer_exact)).value();
}

}  // namespace ppsim::test
