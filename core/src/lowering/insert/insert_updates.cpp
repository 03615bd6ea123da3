#include "insert_updates.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "ppsim/core/ir/sequences.hpp"

namespace ppsim::lowering {
namespace {

std::optional<CollectiveId> norm_of(const Pipeline& pipeline) {
  const auto& collectives = pipeline.spec().collectives.items();
  for (std::size_t c = 0; c < collectives.size(); ++c) {
    if (collectives[c].per_update()) return CollectiveId(static_cast<std::int32_t>(c));
  }
  return std::nullopt;
}

/// Dense numbers of (block, update).
std::size_t number_of(const Pipeline& pipeline, BlockId block, int update) {
  return block.index() * as_size(pipeline.updates()) + as_size(update);
}

/// Calls visit(block, update) for every gradient to which a cell adds.
template <class Visit>
void for_each_gradient(const Pipeline& pipeline, const Cell& cell, Visit&& visit) {
  for (const Action& a : cell.actions()) {
    if (!gives_weight_gradient(a.kind) || is_padding(pipeline, a.mb())) continue;
    for (const BlockId block : pipeline.blocks_of(a.stage())) visit(block, pipeline.spec().update[a.mb()]);
  }
}

/// By (block, update): whether any rank has a gradient for it or for a later update, since every version is
/// made from the one before.
std::vector<char> updated_blocks(const Pipeline& pipeline, const CellRows& rows) {
  std::vector<char> updated(as_size(pipeline.blocks() * pipeline.updates()), 0);
  for (const RankId rank : rows.rank_ids()) {
    for (const Cell& cell : rows[rank]) {
      for_each_gradient(pipeline, cell,
                        [&](BlockId block, int update) { updated[number_of(pipeline, block, update)] = 1; });
    }
  }
  for (int b = 0; b < pipeline.blocks(); ++b) {
    for (int update = pipeline.updates() - 1; update > 0; --update) {
      char& before = updated[number_of(pipeline, BlockId(b), update - 1)];
      before = static_cast<char>(before | updated[number_of(pipeline, BlockId(b), update)]);
    }
  }
  return updated;
}

/// Where a rank is done with a block's gradient for one update.
struct GradientEnd {
  std::size_t position;  ///< cells before it
  int update;
  BlockId block;
  friend auto operator<=>(const GradientEnd&, const GradientEnd&) = default;
};

/// Ascending by position, update, block; the updates of a block end in their order. A rank that shares a
/// block but has no gradient for an update takes part in it all the same.
std::vector<GradientEnd> gradient_ends(const Pipeline& pipeline, RankId rank, std::span<const Cell> row,
                                       const std::vector<char>& updated) {
  std::vector<std::size_t> last(updated.size(), 0);
  for (std::size_t i = 0; i < row.size(); ++i) {
    for_each_gradient(pipeline, row[i],
                      [&](BlockId block, int update) { last[number_of(pipeline, block, update)] = i + 1; });
  }
  std::vector<GradientEnd> ends;
  for (const StageId stage : pipeline.stages_of(rank)) {
    for (const BlockId block : pipeline.blocks_of(stage)) {
      std::size_t reached = 0;
      for (int update = 0; update < pipeline.updates(); ++update) {
        const std::size_t number = number_of(pipeline, block, update);
        reached = std::max(reached, last[number]);
        if (updated[number] != 0) ends.push_back({reached, update, block});
      }
    }
  }
  sort_unique(ends);
  return ends;
}

/// Where a rank is done with a microbatch's share of a block's gradient.
struct ShareEnd {
  std::size_t position = 0;  ///< cells before it
  MicrobatchId mb;
  BlockId block;
  friend auto operator<=>(const ShareEnd&, const ShareEnd&) = default;
};

/// Of the blocks that are reduced for each microbatch. Ascending by position, microbatch, block.
std::vector<ShareEnd> share_ends(const Pipeline& pipeline, std::span<const Cell> row) {
  std::map<std::pair<BlockId, MicrobatchId>, std::size_t> last;
  for (std::size_t i = 0; i < row.size(); ++i) {
    for (const Action& a : row[i].actions()) {
      if (!gives_weight_gradient(a.kind) || is_padding(pipeline, a.mb())) continue;
      for (const BlockId block : pipeline.blocks_of(a.stage())) {
        if (pipeline.spec().blocks[block].reduced_each_microbatch) last[{block, a.mb()}] = i + 1;
      }
    }
  }
  std::vector<ShareEnd> ends;
  for (const auto& [share, position] : last) ends.push_back({position, share.second, share.first});
  std::ranges::sort(ends);
  return ends;
}

class RowUpdater {
 public:
  RowUpdater(const Pipeline& pipeline, const LoweringOptions& options, std::vector<GradientEnd> ends)
      : pipeline_(pipeline),
        options_(options),
        ends_(std::move(ends)),
        open_blocks_(as_size(pipeline.updates()), 0) {
    for (const GradientEnd& end : ends_) ++open_blocks_[as_size(end.update)];
  }

  std::vector<Cell> run(std::span<const Cell> row) {
    std::size_t next = 0;
    std::vector<ShareEnd> shares;
    if (options_.reduce_grad) shares = share_ends(pipeline_, row);
    auto share = shares.begin();
    for (std::size_t i = 0; i <= row.size(); ++i) {
      for (; share != shares.end() && share->position == i; ++share)
        add(OpKind::reduce_grad, share->block, share->mb.value());
      for (; next < ends_.size() && ends_[next].position == i; ++next) finish(ends_[next]);
      if (i < row.size()) cells_.push_back(row[i]);
    }
    if (options_.clip) join_norms_before(pipeline_.updates());
    return std::move(cells_);
  }

 private:
  void finish(const GradientEnd& end) {
    const bool once = !pipeline_.spec().blocks[end.block].reduced_each_microbatch;
    if (options_.reduce_grad && once) add(OpKind::reduce_grad, end.block, end.update);
    if (options_.optimizer && !options_.clip) add(OpKind::optimizer, end.block, end.update);
    if (--open_blocks_[as_size(end.update)] == 0 && options_.clip) clip(end.update);
  }

  void clip(int update) {
    join_norms_before(update + 1);
    std::vector<BlockId> blocks;
    for (const GradientEnd& end : ends_) {
      if (end.update == update) blocks.push_back(end.block);
    }
    std::ranges::sort(blocks);
    for (const BlockId block : blocks) add(OpKind::optimizer, block, update);
  }

  /// Every rank takes part in the norm of every update, in their order, also where it has no gradients.
  void join_norms_before(int update) {
    for (; next_norm_ < update; ++next_norm_) {
      const std::optional<CollectiveId> norm = norm_of(pipeline_);
      PPSIM_CHECK(norm.has_value(), "clipping needs a norm");
      const int number = pipeline_.updates() == 1 ? -1 : next_norm_;
      cells_.emplace_back(make_action(OpKind::collective, norm->value(), number));
    }
  }

  /// number: of the update, or of a microbatch.
  void add(OpKind kind, BlockId block, int number) {
    cells_.emplace_back(make_action(kind, block.value(), number));
  }

  const Pipeline& pipeline_;
  const LoweringOptions& options_;
  std::vector<GradientEnd> ends_;
  std::vector<int> open_blocks_;  // by update: blocks whose gradient is still growing
  int next_norm_ = 0;
  std::vector<Cell> cells_;
};

}  // namespace

void insert_updates(const Pipeline& pipeline, const LoweringOptions& options, CellRows& rows) {
  const std::vector<char> updated = updated_blocks(pipeline, rows);
  const bool any = std::ranges::find(updated, 1) != updated.end();
  if (!any) return;  // inference: no norm of nothing
  for (const RankId rank : rows.rank_ids()) {
    RowUpdater updater(pipeline, options, gradient_ends(pipeline, rank, rows[rank], updated));
    rows.replace(rank, updater.run(rows[rank]));
  }
}

Expected<Pipeline> reducing_each_microbatch(const Pipeline& pipeline) {
  PipelineSpec spec = pipeline.spec();
  bool some = false;
  for (ParameterBlock& block : spec.blocks) {
    const RankId first = pipeline.rank_of(block.stages.front());
    block.reduced_each_microbatch =
        std::ranges::any_of(block.stages, [&](StageId s) { return pipeline.rank_of(s) != first; });
    some = some || block.reduced_each_microbatch;
  }
  if (some) return Pipeline::make(std::move(spec));
  return make_error(ErrorCode::bad_argument, "no gradients are summed across ranks for every microbatch",
                    {.found = "parameter blocks of one rank each",
                     .expected = "weights that stages of several ranks share"});
}

Expected<Pipeline> with_norm(const Pipeline& pipeline) {
  if (norm_of(pipeline)) return pipeline;
  PipelineSpec spec = pipeline.spec();
  Collective norm{std::string(kGradientNormName), {}};
  for (int r = 0; r < spec.ranks; ++r) norm.members.emplace_back(r);
  spec.collectives.push_back(std::move(norm));
  return Pipeline::make(std::move(spec));
}

}  // namespace ppsim::lowering
