#pragma once

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ppsim/core/ir/action.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/ids.hpp"

namespace ppsim {

/// The output of stage `from` is an input of stage `to`.
struct StageEdge {
  StageId from;
  StageId to;
  friend auto operator<=>(const StageEdge&, const StageEdge&) = default;
};

/// The stages that own one parameter block. Of more than one stage it is a shared block: their gradients are
/// summed across ranks.
struct ParameterBlock {
  std::vector<StageId> stages;
  /// REDUCE_GRAD sums across ranks for every microbatch as it comes, and not once per update over all of
  /// them.
  bool reduced_each_microbatch = false;
  friend bool operator==(const ParameterBlock&, const ParameterBlock&) = default;
};

/// The forwards of some stages, or their backwards.
struct StagePasses {
  OpKind kind = OpKind::forward;  ///< forward, or backward for B and I
  std::vector<StageId> stages;
  friend bool operator==(const StagePasses&, const StagePasses&) = default;
};

enum class CollectivePurpose : std::uint8_t {
  exchange,       ///< of activations or gradients between the parts of sharded stages
  gradient_norm,  ///< the global norm of the gradients, which clipping needs: once per update
};

/// The name of the collective with CollectivePurpose::gradient_norm.
inline constexpr std::string_view kGradientNormName = "norm";

/// A named collective and the ranks that take part in it. One that stands between passes, or sums what a
/// stage reads, exists once per microbatch.
struct Collective {
  std::string name;
  std::vector<RankId> members;
  StagePasses after = {};    ///< passes of its microbatch that it waits for, each on the rank of its stage
  StagePasses before = {};   ///< passes of its microbatch that wait for it
  StageId gradient_of = {};  ///< sums the gradient of this stage's output over the consumers: no SEND_B
  StageId input_of = {};     ///< sums the input of this stage over the producers: no SEND_F
  CollectivePurpose purpose = CollectivePurpose::exchange;  ///< Pipeline::make sets it by the name
  [[nodiscard]] bool per_update() const { return purpose == CollectivePurpose::gradient_norm; }
  [[nodiscard]] bool per_microbatch() const {
    return !after.stages.empty() || !before.stages.empty() || gradient_of.valid() || input_of.valid();
  }
  friend bool operator==(const Collective&, const Collective&) = default;
};

/// Stages, their placement and their edges as plain data. Empty members take the defaults that Pipeline::make
/// documents. A part of the model sharded over several ranks is one stage per shard, tied together by
/// collectives.
struct PipelineSpec {
  int ranks = 1;
  int stages = 1;
  int microbatches = 1;
  int slices = 1;                                  ///< K, pieces of a microbatch along the sequence
  IdVector<StageId, RankId> placement;             ///< default: stage s on rank s mod ranks
  std::vector<StageEdge> edges;                    ///< default: the chain 0 -> 1 -> ... (per route)
  std::vector<StageEdge> side_edges;               ///< of outputs without gradient; default: none
  IdVector<RouteId, std::vector<StageId>> routes;  ///< default: one route with every stage
  IdVector<MicrobatchId, RouteId> route;           ///< default: route 0
  IdVector<BlockId, ParameterBlock> blocks;        ///< default: block b owned by stage b alone
  IdVector<MicrobatchId, int> update;              ///< default: 0, one synchronous update; -1: padding
  IdVector<MicrobatchId, int> version;             ///< default: 0, weights of the step's start
  IdVector<StageId, int> lag;                      ///< versions that a stage is behind `version`; default: 0
  IdVector<CollectiveId, Collective> collectives;  ///< default: none

  friend bool operator==(const PipelineSpec&, const PipelineSpec&) = default;
};

/// A validated PipelineSpec with its defaults filled in and its adjacency in flat arrays.
class Pipeline {
 public:
  /// Errors: bad_argument naming every broken rule: counts out of [1, limit], ids out of range, edges that
  /// form a cycle or repeat, a route that is empty or holds no first stage, tables of the wrong length, a
  /// collective that stands between passes of ranks that are no members of it.
  [[nodiscard]] static Expected<Pipeline> make(PipelineSpec spec);

  [[nodiscard]] const PipelineSpec& spec() const { return spec_; }
  [[nodiscard]] int ranks() const { return spec_.ranks; }
  [[nodiscard]] int stages() const { return spec_.stages; }
  [[nodiscard]] int microbatches() const { return spec_.microbatches; }
  [[nodiscard]] int slices() const { return spec_.slices; }
  [[nodiscard]] int blocks() const { return static_cast<int>(spec_.blocks.size()); }
  [[nodiscard]] int count(Subject subject) const {
    switch (subject) {
      case Subject::stage:
        return stages();
      case Subject::block:
        return blocks();
      case Subject::collective:
        return static_cast<int>(spec_.collectives.size());
    }
    return 0;
  }
  [[nodiscard]] IdRange<RankId> rank_ids() const { return {RankId(0), RankId(ranks())}; }
  [[nodiscard]] IdRange<StageId> stage_ids() const { return {StageId(0), StageId(stages())}; }
  [[nodiscard]] IdRange<MicrobatchId> microbatch_ids() const {
    return {MicrobatchId(0), MicrobatchId(microbatches())};
  }
  [[nodiscard]] IdRange<BlockId> block_ids() const { return spec_.blocks.ids(); }
  /// Number of optimizer updates that the microbatches feed.
  [[nodiscard]] int updates() const { return updates_; }
  /// Whether `microbatch` of an action of `kind` holds the number of an update. Requires `subject` in range.
  [[nodiscard]] bool counts_updates(OpKind kind, std::int32_t subject) const {
    if (kind == OpKind::reduce_grad) return !spec_.blocks[BlockId(subject)].reduced_each_microbatch;
    return info(kind).microbatch == MicrobatchUse::update ||
           (kind == OpKind::collective && spec_.collectives[CollectiveId(subject)].per_update());
  }
  /// The update whose gradients a REDUCE_GRAD sums, or that an OPT makes; -1 for padding.
  [[nodiscard]] int update_of(const Action& action) const {
    return counts_updates(action.kind, action.subject) ? action.update() : spec_.update[action.mb()];
  }
  /// The version of its weights that a stage reads for a microbatch: version n is what OPT of update n - 1
  /// makes, version 0 what the step starts with.
  [[nodiscard]] int version(StageId stage, MicrobatchId mb) const {
    return std::max(0, spec_.version[mb] - spec_.lag[stage]);
  }
  /// Whether a step makes versions: several updates, or a microbatch that reads a later version than 0.
  [[nodiscard]] bool asynchronous() const { return asynchronous_; }

  [[nodiscard]] RankId rank_of(StageId stage) const { return spec_.placement[stage]; }
  [[nodiscard]] RouteId route_of(MicrobatchId mb) const { return spec_.route[mb]; }
  [[nodiscard]] bool on_route(StageId stage, MicrobatchId mb) const {
    return on_route_[route_of(mb).index() * as_size(stages()) + stage.index()] != 0;
  }
  /// Stages that feed `stage` for a microbatch, ascending.
  [[nodiscard]] std::span<const StageId> producers(StageId stage, MicrobatchId mb) const {
    return span_of(producers_, stage, mb);
  }
  /// Stages that `stage` feeds for a microbatch, ascending.
  [[nodiscard]] std::span<const StageId> consumers(StageId stage, MicrobatchId mb) const {
    return span_of(consumers_, stage, mb);
  }
  /// Stages whose side outputs `stage` reads for a microbatch, and those that read its own, ascending.
  [[nodiscard]] std::span<const StageId> side_producers(StageId stage, MicrobatchId mb) const {
    return span_of(side_producers_, stage, mb);
  }
  [[nodiscard]] std::span<const StageId> side_consumers(StageId stage, MicrobatchId mb) const {
    return span_of(side_consumers_, stage, mb);
  }
  /// The stage that receives the output of `producer` for all its consumers on the rank of `consumer`: the
  /// first of them. Requires: an edge between stages of two ranks, whose end gets its input by transfers.
  [[nodiscard]] StageId receiver(StageId producer, StageId consumer, MicrobatchId mb) const {
    for (const StageId other : consumers(producer, mb)) {
      if (rank_of(other) == rank_of(consumer) && !input_sum(other).valid()) return other;
    }
    return consumer;
  }
  [[nodiscard]] std::span<const StageId> stages_of(RankId rank) const { return stages_of_[rank]; }
  /// Blocks that a stage owns a share of, ascending.
  [[nodiscard]] std::span<const BlockId> blocks_of(StageId stage) const { return blocks_of_[stage]; }
  /// Microbatches whose gradients update `update` sums, ascending.
  [[nodiscard]] std::span<const MicrobatchId> microbatches_of_update(int update) const {
    return microbatches_of_update_[as_size(update)];
  }
  /// Collectives that F of a stage waits for (`kind` forward) or B and I (backward), ascending.
  [[nodiscard]] std::span<const CollectiveId> collectives_before(StageId stage, OpKind kind) const {
    return (kind == OpKind::forward ? before_forward_ : before_backward_)[stage];
  }
  /// The collective that brings the input of a stage in place of transfers, or an invalid one.
  [[nodiscard]] CollectiveId input_sum(StageId stage) const { return input_sum_[stage]; }
  /// The collective that brings the gradient of a stage's output in place of transfers, or an invalid one.
  [[nodiscard]] CollectiveId gradient_sum(StageId stage) const { return gradient_sum_[stage]; }
  /// True when every stage has at most one producer and one consumer per route, and no side edges.
  [[nodiscard]] bool is_chain() const { return is_chain_; }

  friend bool operator==(const Pipeline& a, const Pipeline& b) { return a.spec_ == b.spec_; }

 private:
  /// Neighbours of (route, stage), compressed rows.
  struct Adjacency {
    std::vector<std::int32_t> begin;
    std::vector<StageId> items;
  };
  [[nodiscard]] std::span<const StageId> span_of(const Adjacency& adjacency, StageId stage,
                                                 MicrobatchId mb) const {
    const std::size_t row = route_of(mb).index() * as_size(stages()) + stage.index();
    const auto first = as_size(adjacency.begin[row]);
    const auto last = as_size(adjacency.begin[row + 1]);
    return {adjacency.items.data() + first, last - first};
  }
  void build_indexes();
  void build_collective_indexes();

  PipelineSpec spec_;
  std::vector<char> on_route_;
  Adjacency producers_;
  Adjacency consumers_;
  Adjacency side_producers_;
  Adjacency side_consumers_;
  IdVector<RankId, std::vector<StageId>> stages_of_;
  IdVector<StageId, std::vector<BlockId>> blocks_of_;
  std::vector<std::vector<MicrobatchId>> microbatches_of_update_;
  IdVector<StageId, std::vector<CollectiveId>> before_forward_;
  IdVector<StageId, std::vector<CollectiveId>> before_backward_;
  IdVector<StageId, CollectiveId> input_sum_;
  IdVector<StageId, CollectiveId> gradient_sum_;
  int updates_ = 1;
  bool asynchronous_ = false;
  bool is_chain_ = true;
};

std::ostream& operator<<(std::ostream& out, const Pipeline& pipeline);

/// The common case: a chain of `stages` stages with the given placement (empty: s mod ranks).
[[nodiscard]] Expected<Pipeline> make_chain(int ranks, int stages, int microbatches,
                                            std::vector<RankId> placement = {});

}  // namespace ppsim
