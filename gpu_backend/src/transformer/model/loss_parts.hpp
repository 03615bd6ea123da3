#pragma once

namespace ppsim::gpu_backend::transformer {

/// What the loss of a position takes from the logits of a part of the vocabulary, or from all.
template <class T>
struct LossParts {
  T top;     ///< largest logit
  T sum;     ///< of exp(logit - top)
  T picked;  ///< logit of the target, 0 where it is not among them; in the ring: the loss itself
};

}  // namespace ppsim::gpu_backend::transformer
