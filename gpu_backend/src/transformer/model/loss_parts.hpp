#pragma once

namespace ppsim::gpu_backend::transformer {

/// The statistics for the loss of a position, over the logits of a part of the vocabulary or of all.
template <class T>
struct LossParts {
  T top;     ///< largest logit
  T sum;     ///< of exp(logit - top)
  T picked;  ///< logit of the target, 0 where it is not among them; in the ring: the loss itself
};

}  // namespace ppsim::gpu_backend::transformer
