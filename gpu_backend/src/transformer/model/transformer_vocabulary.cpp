#include "transformer_vocabulary.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <vector>

#include "kept_activations.hpp"

namespace ppsim::gpu_backend::transformer {
namespace {

/// The stage whose gradient the collective of a head's shard sums, or an invalid one.
StageId summed_producer(const Pipeline& pipeline, StageId stage, MicrobatchId mb) {
  const auto producers = pipeline.producers(stage, mb);
  if (producers.empty() || !pipeline.gradient_sum(producers.front()).valid()) return {};
  return producers.front();
}

/// The stage whose input a collective sums from what a shard of the embedding makes, or an invalid one.
StageId summing_consumer(const Pipeline& pipeline, StageId stage, MicrobatchId mb) {
  const auto consumers = pipeline.consumers(stage, mb);
  if (consumers.empty() || !pipeline.input_sum(consumers.front()).valid()) return {};
  return consumers.front();
}

StageRole part_of(std::span<const StageId> shards, StageId stage) {
  StageRole role;
  role.shard = static_cast<int>(std::ranges::find(shards, stage) - shards.begin());
  role.shards = static_cast<int>(shards.size());
  return role;
}

/// The ends of the edges of the pipeline at which a sum stands, on the side of `of`.
std::vector<StageId> shards_at(const Pipeline& pipeline, StageId of, bool inputs) {
  std::vector<StageId> shards;
  for (const StageEdge& edge : pipeline.spec().edges) {
    if ((inputs ? edge.to : edge.from) == of) shards.push_back(inputs ? edge.from : edge.to);
  }
  std::ranges::sort(shards);
  return shards;
}

/// The collectives of a microbatch and what they stand between.
class Checker {
 public:
  Checker(const Pipeline& pipeline, int vocab) : pipeline_(pipeline), vocab_(vocab) {}

  Expected<void> check() const {
    const auto& collectives = pipeline_.spec().collectives;
    for (const CollectiveId id : collectives.ids()) {
      if (!collectives[id].per_microbatch()) continue;
      PPSIM_RETURN_IF_ERROR(check(collectives[id]));
    }
    return {};
  }

 private:
  Expected<void> check(const Collective& one) const {
    const auto refuse = [&](const auto&... parts) {
      return unsupported("collective ", one.name, " computes a part of a microbatch", parts...);
    };
    const bool embeds = one.input_of.valid();
    const bool in_forward = one.after.kind == OpKind::forward;
    const StageId inner = embeds ? one.input_of : head_of(one);
    if (!inner.valid()) return refuse();
    const std::vector<StageId> shards = shards_at(pipeline_, inner, embeds);
    if (one.after.stages != shards || !stand_alone(shards)) return refuse();
    if (embeds ? !in_forward || one.gradient_of.valid() || !one.before.stages.empty()
               : !is_of_head(one, shards))
      return refuse();
    if (pipeline_.slices() > 1) return refuse(", and of slices of it");
    if (static_cast<int>(shards.size()) > vocab_)
      return refuse(" in ", shards.size(), " shards of a vocabulary of ", vocab_, " tokens");
    std::set<RankId> ranks;
    for (const StageId shard : shards) ranks.insert(pipeline_.rank_of(shard));
    const bool one_each = ranks.size() == shards.size() && one.members.size() == shards.size();
    return one_each ? Expected<void>{} : refuse(", expected a shard on each of its ranks");
  }

  /// The stage whose output the shards of the head read.
  StageId head_of(const Collective& one) const {
    if (one.gradient_of.valid()) return one.gradient_of;
    const auto& edges = pipeline_.spec().edges;
    const auto edge = std::ranges::find_if(edges, [&](const StageEdge& e) {
      return !one.after.stages.empty() && e.to == one.after.stages.front();
    });
    return edge == edges.end() || !pipeline_.gradient_sum(edge->from).valid() ? StageId() : edge->from;
  }

  /// Statistics between F and B, a sum of gradients behind B, or both behind F.
  bool is_of_head(const Collective& one, const std::vector<StageId>& shards) const {
    if (one.after.kind == OpKind::backward) {
      const auto first = pipeline_.collectives_before(shards.front(), OpKind::backward);
      return one.gradient_of.valid() && one.before.stages.empty() && first.size() == 1;
    }
    const bool between = one.before.kind == OpKind::backward && one.before.stages == shards;
    return between && pipeline_.collectives_before(shards.front(), OpKind::backward).size() == 1;
  }

  /// Shards have one neighbour, the stage inside.
  bool stand_alone(const std::vector<StageId>& shards) const {
    const auto& edges = pipeline_.spec().edges;
    return !shards.empty() && std::ranges::all_of(shards, [&](StageId shard) {
      return std::ranges::count_if(edges,
                                   [&](const StageEdge& e) { return e.from == shard || e.to == shard; }) == 1;
    });
  }

  const Pipeline& pipeline_;
  int vocab_;
};

/// The stages after the last of a chain, on any route.
std::set<StageId> head_shards(const Pipeline& pipeline) {
  std::set<StageId> shards;
  for (const StageEdge& edge : pipeline.spec().edges) {
    if (pipeline.gradient_sum(edge.from).valid()) shards.insert(edge.to);
  }
  return shards;
}

}  // namespace

bool is_shard(const Pipeline& pipeline, StageId stage, MicrobatchId mb) {
  return summed_producer(pipeline, stage, mb).valid() || summing_consumer(pipeline, stage, mb).valid();
}

std::optional<StageRole> shard_of(const Pipeline& pipeline, StageId stage, MicrobatchId mb) {
  if (const StageId last = summed_producer(pipeline, stage, mb); last.valid()) {
    StageRole role = part_of(pipeline.consumers(last, mb), stage);
    role.head = true;
    const Collective& sum = pipeline.spec().collectives[pipeline.gradient_sum(last)];
    role.gradient_in_forward = sum.after.kind == OpKind::forward;
    return role;
  }
  const StageId first = summing_consumer(pipeline, stage, mb);
  if (!first.valid()) return std::nullopt;
  StageRole role = part_of(pipeline.producers(first, mb), stage);
  role.embedding = true;
  return role;
}

Expected<void> check_vocabulary(const Pipeline& pipeline, int vocab) {
  return Checker(pipeline, vocab).check();
}

Expected<void> check_kept_statistics(const Program& program) {
  const std::set<StageId> shards = head_shards(program.pipeline());
  return check_kept(program, {.concerns =
                                  [&](const Action& action) {
                                    return info(action.kind).subject == Subject::stage &&
                                           shards.count(action.stage()) > 0;
                                  },
                              .why = "shares the statistics of its loss where F of a shard has saved them",
                              .of = "shards of its head"});
}

bool shares_statistics(const Pipeline& pipeline, CollectiveId collective) {
  const Collective& one = pipeline.spec().collectives[collective];
  return one.after.kind == OpKind::forward && !one.before.stages.empty();
}

}  // namespace ppsim::gpu_backend::transformer
