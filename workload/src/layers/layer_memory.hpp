#pragma once

#include "analytic_work.hpp"
#include "ppsim/workload/analytic.hpp"

namespace ppsim::workload {

/// The memory of layers: what they keep of a microbatch, and their parameters.
class LayerMemory {
 public:
  /// Keeps a reference to the workload; `tokens` of a microbatch on one context-parallel rank.
  LayerMemory(const Workload& workload, double tokens);

  [[nodiscard]] LayerWork layer(std::int64_t layer) const;
  /// A multi-token prediction layer: one of the last layers behind the product that takes it two hidden
  /// states.
  [[nodiscard]] LayerWork prediction_layer() const;
  /// Parameters of one GPU's part of the embedding or of the head.
  [[nodiscard]] double vocabulary() const;
  /// Elements of one GPU's part of the logits.
  [[nodiscard]] double logits() const;
  /// One hidden state of a microbatch, as it travels between stages.
  [[nodiscard]] double boundary() const;

 private:
  [[nodiscard]] bool is_mixture(std::int64_t layer) const;
  [[nodiscard]] double active_channels(std::int64_t layer) const;
  [[nodiscard]] double quantised_copies() const;
  void add_parameters(std::int64_t layer, LayerWork& work) const;

  ModelDescription model_;  ///< with whole heads
  const Parallelism& parallelism_;
  const SoftwareStack& stack_;
  double tokens_ = 0;
};

}  // namespace ppsim::workload
