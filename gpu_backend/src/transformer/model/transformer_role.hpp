#pragma once

#include <optional>
#include <string>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/pipeline.hpp"
#include "ppsim/gpu_backend/transformer/transformer.hpp"

namespace ppsim::gpu_backend::transformer {

/// The piece of the model that a stage is.
struct StageRole {
  int first_layer = 0;
  int layers = 0;
  bool embedding = false;
  bool final_norm = false;
  bool head = false;
  int shard = 0;   ///< which part of the vocabulary embedding or head is of
  int shards = 1;  ///< into how many it is cut
  bool gradient_in_forward =
      false;           ///< F of a shard of the head makes the parts of the gradient of its input
  bool tied = false;   ///< embedding and head read the tokens' weights of a second block
  bool table = false;  ///< no stage, but that block

  /// True where a norm is part of the stage.
  [[nodiscard]] bool has_norm() const { return layers > 0 || final_norm; }
  /// True of a shard of the head, which takes its part of the loss together with others.
  [[nodiscard]] bool is_head_shard() const { return head && !final_norm; }
  /// True where the loss of a microbatch is added to the gradients of the stage's block.
  [[nodiscard]] bool has_loss() const { return head && shard == 0; }
  [[nodiscard]] bool has_positions() const { return embedding && shard == 0 && !table; }
  [[nodiscard]] bool has_tokens() const { return embedding && !tied; }
  [[nodiscard]] bool has_head_weights() const { return head && !tied; }
  friend bool operator==(const StageRole&, const StageRole&) = default;
};

/// The role of an action's stage on the route of its microbatch, for a model of `layers` layers. In front of
/// a chain whose input is summed, and behind one whose last gradient is, stand the shards of the vocabulary.
/// Requires: check_roles, and the route holds the stage.
[[nodiscard]] StageRole role_of(const Pipeline& pipeline, int layers, Action action);

/// The role of a stage on the first route that holds it; empty when no microbatch visits the stage.
[[nodiscard]] std::optional<StageRole> role_of(const Pipeline& pipeline, int layers, StageId stage);

/// The role of a block: of its stages, or of the second block that embedding and head share.
/// Requires: check_roles.
[[nodiscard]] StageRole role_of(const Pipeline& pipeline, int layers, BlockId block);

/// Whether embedding and head share their weights.
[[nodiscard]] bool is_tied(const Pipeline& pipeline);

/// Whether every route is a path through its stages, with further edges beside it or with shards of the
/// vocabulary at its ends, and every stage one block of one role; those with embedding and head may share a
/// second one.
/// Errors: bad_argument naming the first obstacle.
[[nodiscard]] Expected<void> check_roles(const Pipeline& pipeline, int layers);

/// All of a configuration, for a comparison.
[[nodiscard]] std::string identity_of(const TransformerConfig& config);

}  // namespace ppsim::gpu_backend::transformer
