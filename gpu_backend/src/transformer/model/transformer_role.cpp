#include "transformer_role.hpp"

#include <limits>
#include <sstream>
#include <string_view>
#include <vector>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "transformer_vocabulary.hpp"

namespace ppsim::gpu_backend::transformer {
namespace {

/// One microbatch of the batch per route, in the order of their first microbatches.
std::vector<MicrobatchId> visitors(const Pipeline& pipeline) {
  std::vector<char> seen(pipeline.spec().routes.size(), 0);
  std::vector<MicrobatchId> found;
  for (int m = 0; m < pipeline.microbatches(); ++m) {
    if (is_padding(pipeline, MicrobatchId(m))) continue;
    char& route_seen = seen[pipeline.route_of(MicrobatchId(m)).index()];
    if (route_seen == 0) found.emplace_back(m);
    route_seen = 1;
  }
  return found;
}

/// The stage before another on the path through all stages of a microbatch. Requires: it has producers.
StageId before(const Pipeline& pipeline, StageId stage, MicrobatchId mb) {
  return pipeline.producers(stage, mb).back();
}
/// The stage behind another on that path. Requires: it has consumers.
StageId behind(const Pipeline& pipeline, StageId stage, MicrobatchId mb) {
  return pipeline.consumers(stage, mb).front();
}

/// Whether the edges of ascending stages make a path through all of a route, with others beside it.
Expected<void> check_path(const Pipeline& pipeline, MicrobatchId mb) {
  const RouteId route = pipeline.route_of(mb);
  int first_stages = 0;
  for (const StageId stage : pipeline.spec().routes[route]) {
    if (is_shard(pipeline, stage, mb)) continue;
    if (pipeline.producers(stage, mb).empty() || pipeline.input_sum(stage).valid()) {
      ++first_stages;
      continue;
    }
    const StageId previous = before(pipeline, stage, mb);
    const StageId follower = behind(pipeline, previous, mb);
    if (follower == stage && !pipeline.gradient_sum(previous).valid()) continue;
    return unsupported("on route ", route, " stages ", follower, " and ", stage, " both follow stage ",
                       previous, ", expected a path through all stages, with other edges beside it");
  }
  if (first_stages != 1) {
    return unsupported("route ", route, " is ", first_stages, " chains, expected one");
  }
  return {};
}

Expected<void> check_one_role(const Pipeline& pipeline, int layers,
                              const std::vector<MicrobatchId>& visitors) {
  for (const MicrobatchId mb : visitors) {
    for (const StageId stage : pipeline.spec().routes[pipeline.route_of(mb)]) {
      const Action visit = make_action(OpKind::forward, stage.value(), mb.value());
      if (role_of(pipeline, layers, visit) != role_of(pipeline, layers, stage)) {
        return unsupported("stage ", stage, " would be different pieces of the model on different routes");
      }
    }
  }
  return {};
}

/// The second block of a stage, or an invalid one.
BlockId second_block(const Pipeline& pipeline, StageId stage) {
  const auto blocks = pipeline.blocks_of(stage);
  return blocks.size() < 2 ? BlockId() : blocks.back();
}
/// The second block of the first stage that has one.
BlockId table_of(const Pipeline& pipeline) {
  for (const StageId stage : pipeline.stage_ids()) {
    if (const BlockId second = second_block(pipeline, stage); second.valid()) return second;
  }
  return {};
}

/// Whether all stages with embedding or head own the second block, nobody else does, and both are whole.
Expected<void> check_tied(const Pipeline& pipeline, int layers) {
  const BlockId table = table_of(pipeline);
  for (int s = 0; table.valid() && s < pipeline.stages(); ++s) {
    const StageId stage(s);
    const auto role = role_of(pipeline, layers, stage);
    const bool has_tokens = role->embedding || role->head;
    if (second_block(pipeline, stage) == (has_tokens ? table : BlockId())) {
      if (role->shards == 1) continue;
      return unsupported("stage ", stage, " is a shard of the vocabulary and has two parameter blocks");
    }
    return unsupported("stage ", stage, has_tokens ? " has no" : " has a", " share of block ", table,
                       ", expected one on all stages with embedding or head and on no other");
  }
  return {};
}

Expected<void> check_blocks(const Pipeline& pipeline, int layers) {
  for (const StageId stage : pipeline.stage_ids()) {
    if (!role_of(pipeline, layers, stage))
      return unsupported("stage ", stage, " is visited by no microbatch");
    const std::size_t blocks = pipeline.blocks_of(stage).size();
    if (blocks < 1 || blocks > 2)
      return unsupported("stage ", stage, " has ", blocks, " parameter blocks, expected one or two");
  }
  PPSIM_RETURN_IF_ERROR(check_tied(pipeline, layers));
  for (int b = 0; b < pipeline.blocks(); ++b) {
    if (BlockId(b) == table_of(pipeline)) continue;
    const std::vector<StageId>& owners = pipeline.spec().blocks[BlockId(b)].stages;
    for (const StageId stage : owners) {
      if (role_of(pipeline, layers, stage) != role_of(pipeline, layers, owners.front())) {
        return unsupported("stages ", owners.front(), " and ", stage, " share block ", b,
                           " and are different pieces of the model");
      }
    }
  }
  return {};
}

}  // namespace

StageRole role_of(const Pipeline& pipeline, int layers, Action action) {
  if (const auto shard = shard_of(pipeline, action.stage(), action.mb())) return *shard;
  const MicrobatchId mb = action.mb();
  const auto is_first = [&](StageId at) {
    return pipeline.producers(at, mb).empty() || pipeline.input_sum(at).valid();
  };
  const auto is_last = [&](StageId at) {
    return pipeline.consumers(at, mb).empty() || pipeline.gradient_sum(at).valid();
  };
  std::int64_t earlier = 0;
  std::int64_t later = 0;
  for (StageId at = action.stage(); !is_first(at); ++earlier) at = before(pipeline, at, mb);
  for (StageId at = action.stage(); !is_last(at); ++later) at = behind(pipeline, at, mb);
  const std::int64_t stages = earlier + 1 + later;
  const auto begin = static_cast<int>(earlier * layers / stages);
  const auto end = static_cast<int>((earlier + 1) * layers / stages);
  const bool embeds = earlier == 0 && !pipeline.input_sum(action.stage()).valid();
  const bool has_head = later == 0 && !pipeline.gradient_sum(action.stage()).valid();
  return {.first_layer = begin,
          .layers = end - begin,
          .embedding = embeds,
          .final_norm = later == 0,
          .head = has_head,
          .tied = (embeds || has_head) && pipeline.blocks_of(action.stage()).size() > 1};
}

std::optional<StageRole> role_of(const Pipeline& pipeline, int layers, StageId stage) {
  for (int m = 0; m < pipeline.microbatches(); ++m) {
    if (is_padding(pipeline, MicrobatchId(m)) || !pipeline.on_route(stage, MicrobatchId(m))) continue;
    return role_of(pipeline, layers, make_action(OpKind::forward, stage.value(), m));
  }
  return std::nullopt;
}

StageRole role_of(const Pipeline& pipeline, int layers, BlockId block) {
  if (block == table_of(pipeline)) return {.embedding = true, .table = true};
  const auto role = role_of(pipeline, layers, pipeline.spec().blocks[block].stages.front());
  PPSIM_CHECK(role, "a stage that no microbatch visits");
  return *role;
}

bool is_tied(const Pipeline& pipeline) { return table_of(pipeline).valid(); }

Expected<void> check_roles(const Pipeline& pipeline, int layers) {
  const std::vector<MicrobatchId> representatives = visitors(pipeline);
  for (const MicrobatchId mb : representatives) {
    PPSIM_RETURN_IF_ERROR(check_path(pipeline, mb));
  }
  PPSIM_RETURN_IF_ERROR(check_one_role(pipeline, layers, representatives));
  return check_blocks(pipeline, layers);
}

namespace {

std::string_view word_for(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::float32:
      return "float32";
    case Arithmetic::float64:
      return "float64";
    case Arithmetic::integer_exact:
      return "integer";
    case Arithmetic::bf16:
      return "bf16";
    case Arithmetic::fp8:
      return "fp8";
  }
  return "";
}

std::string_view word_for(AttentionKernels kernels) {
  switch (kernels) {
    case AttentionKernels::automatic:
      return "auto";
    case AttentionKernels::cudnn:
      return "cudnn";
    case AttentionKernels::gemm:
      return "gemm";
  }
  return "";
}

std::string_view word_for(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::momentum:
      return "momentum";
    case Optimizer::adamw:
      return "adamw";
  }
  return "";
}

}  // namespace

std::string identity_of(const TransformerConfig& config) {
  std::ostringstream text;
  text.precision(std::numeric_limits<double>::max_digits10);
  text << "transformer of " << config.layers << " layers, hidden " << config.hidden << ", " << config.heads
       << " heads, ffn " << config.ffn << ", vocabulary " << config.vocab << ", " << config.microbatch_size
       << " x " << config.sequence << " tokens, arithmetic " << word_for(config.arithmetic) << ", attention "
       << word_for(config.attention) << ", seed " << config.seed << ", optimizer "
       << word_for(config.optimizer) << ", learning rate " << config.learning_rate << ", momentum "
       << config.momentum << ", second beta " << config.second_beta << ", weight decay "
       << config.weight_decay;
  return text.str();
}

}  // namespace ppsim::gpu_backend::transformer
