#include "transformer_role.hpp"

#include <limits>
#include <sstream>
#include <string_view>
#include <vector>

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

Expected<void> check_chain(const Pipeline& pipeline, MicrobatchId mb) {
  const RouteId route = pipeline.route_of(mb);
  int first_stages = 0;
  for (const StageId stage : pipeline.spec().routes[route]) {
    const std::size_t before = pipeline.producers(stage, mb).size();
    const std::size_t after = pipeline.consumers(stage, mb).size();
    const bool sums_input = pipeline.input_sum(stage).valid();
    const bool sums_gradient = pipeline.gradient_sum(stage).valid();
    if ((before > 1 && !sums_input) || (after > 1 && !sums_gradient)) {
      return unsupported("on route ", route, " stage ", stage, " has ", before, " producers and ", after,
                         " consumers, expected a chain");
    }
    if (!is_shard(pipeline, stage, mb) && (before == 0 || sums_input)) ++first_stages;
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

Expected<void> check_blocks(const Pipeline& pipeline, int layers) {
  for (int s = 0; s < pipeline.stages(); ++s) {
    const StageId stage(s);
    if (!role_of(pipeline, layers, stage))
      return unsupported("stage ", stage, " is visited by no microbatch");
    if (pipeline.blocks_of(stage).size() != 1) {
      return unsupported("stage ", stage, " has ", pipeline.blocks_of(stage).size(),
                         " parameter blocks, expected one");
    }
  }
  for (int b = 0; b < pipeline.blocks(); ++b) {
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
  std::int64_t before = 0;
  std::int64_t after = 0;
  for (StageId at = action.stage(); !is_first(at); ++before) at = pipeline.producers(at, mb).front();
  for (StageId at = action.stage(); !is_last(at); ++after) at = pipeline.consumers(at, mb).front();
  const std::int64_t stages = before + 1 + after;
  const auto begin = static_cast<int>(before * layers / stages);
  const auto end = static_cast<int>((before + 1) * layers / stages);
  return {.first_layer = begin,
          .layers = end - begin,
          .embedding = before == 0 && !pipeline.input_sum(action.stage()).valid(),
          .final_norm = after == 0,
          .head = after == 0 && !pipeline.gradient_sum(action.stage()).valid()};
}

std::optional<StageRole> role_of(const Pipeline& pipeline, int layers, StageId stage) {
  for (int m = 0; m < pipeline.microbatches(); ++m) {
    if (is_padding(pipeline, MicrobatchId(m)) || !pipeline.on_route(stage, MicrobatchId(m))) continue;
    return role_of(pipeline, layers, make_action(OpKind::forward, stage.value(), m));
  }
  return std::nullopt;
}

Expected<void> check_roles(const Pipeline& pipeline, int layers) {
  const std::vector<MicrobatchId> representatives = visitors(pipeline);
  for (const MicrobatchId mb : representatives) {
    if (Expected<void> chain = check_chain(pipeline, mb); !chain) return chain;
  }
  if (Expected<void> roles = check_one_role(pipeline, layers, representatives); !roles) return roles;
  return check_blocks(pipeline, layers);
}

namespace {

std::string_view name_of(Arithmetic arithmetic) {
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

std::string_view name_of(AttentionKernels kernels) {
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

std::string_view name_of(Optimizer optimizer) {
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
       << " x " << config.sequence << " tokens, arithmetic " << name_of(config.arithmetic) << ", attention "
       << name_of(config.attention) << ", seed " << config.seed << ", optimizer " << name_of(config.optimizer)
       << ", learning rate " << config.learning_rate << ", momentum " << config.momentum << ", second beta "
       << config.second_beta << ", weight decay " << config.weight_decay;
  return text.str();
}

}  // namespace ppsim::gpu_backend::transformer
