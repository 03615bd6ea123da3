#pragma once

#include <optional>
#include <string>

#include "ppsim/core/error.hpp"
#include "ppsim/core/pipeline.hpp"
#include "ppsim/gpu_backend/transformer.hpp"

namespace ppsim::transformer {

/// The piece of the model that a stage is.
struct StageRole {
  int first_layer = 0;
  int layers = 0;
  bool embedding = false;
  bool head = false;

  /// Whether any norm is part of the stage.
  [[nodiscard]] bool has_norm() const { return layers > 0 || head; }
  friend bool operator==(const StageRole&, const StageRole&) = default;
};

/// The role of an action's stage on the route of its microbatch, for a model of `layers` layers.
/// Requires: the route is one chain and holds the stage.
[[nodiscard]] StageRole role_of(const Pipeline& pipeline, int layers, Action action);

/// The role of a stage on the first route that holds it; empty when no microbatch visits the stage.
[[nodiscard]] std::optional<StageRole> role_of(const Pipeline& pipeline, int layers, StageId stage);

/// Whether every route is one chain and every stage one block of one role.
/// Errors: bad_argument naming the first obstacle.
[[nodiscard]] Expected<void> check_roles(const Pipeline& pipeline, int layers);

/// All of a configuration, for a comparison.
[[nodiscard]] std::string identity_of(const TransformerConfig& config);

}  // namespace ppsim::transformer
