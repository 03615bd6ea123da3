#include "lowering/insert_updates.hpp"

#include <algorithm>

#include "ppsim/core/check.hpp"

namespace ppsim::lowering {
namespace {

constexpr const char* kNorm = "norm";

std::optional<CollectiveId> norm_of(const Pipeline& pipeline) {
  const auto& collectives = pipeline.spec().collectives.items();
  for (std::size_t c = 0; c < collectives.size(); ++c) {
    if (collectives[c].name == kNorm) return CollectiveId(static_cast<std::int32_t>(c));
  }
  return std::nullopt;
}

/// The end of a block's gradients for one update on a rank.
struct GradientEnd {
  std::size_t position;
  int update;
  BlockId block;
  friend auto operator<=>(const GradientEnd&, const GradientEnd&) = default;
};

/// Ascending by position, update, block.
std::vector<GradientEnd> gradient_ends(const Pipeline& pipeline, std::span<const Step> row) {
  const auto updates = static_cast<std::size_t>(pipeline.updates());
  std::vector<std::size_t> last(static_cast<std::size_t>(pipeline.blocks()) * updates, row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    for (const Action& a : row[i].actions()) {
      if (!gives_weight_gradient(a.kind)) continue;
      const auto update = static_cast<std::size_t>(pipeline.spec().update[a.mb()]);
      for (const BlockId block : pipeline.blocks_of(a.stage())) last[block.index() * updates + update] = i;
    }
  }
  std::vector<GradientEnd> ends;
  for (std::size_t i = 0; i < last.size(); ++i) {
    if (last[i] == row.size()) continue;
    ends.push_back({last[i], static_cast<int>(i % updates), BlockId(static_cast<std::int32_t>(i / updates))});
  }
  std::sort(ends.begin(), ends.end());
  return ends;
}

class RowUpdater {
 public:
  RowUpdater(const Pipeline& pipeline, const LoweringOptions& options, std::span<const Step> row)
      : pipeline_(pipeline),
        options_(options),
        row_(row),
        ends_(gradient_ends(pipeline, row)),
        open_blocks_(static_cast<std::size_t>(pipeline.updates()), 0) {
    for (const GradientEnd& end : ends_) ++open_blocks_[static_cast<std::size_t>(end.update)];
  }

  std::vector<Step> run() {
    std::size_t next = 0;
    for (std::size_t i = 0; i < row_.size(); ++i) {
      steps_.push_back(row_[i]);
      for (; next < ends_.size() && ends_[next].position == i; ++next) finish(ends_[next]);
    }
    if (options_.clip) join_other_norms();
    return std::move(steps_);
  }

 private:
  void finish(const GradientEnd& end) {
    if (options_.reduce_grad) add(OpKind::reduce_grad, end.block, end.update);
    if (options_.optimizer && !options_.clip) add(OpKind::optimizer, end.block, end.update);
    if (--open_blocks_[static_cast<std::size_t>(end.update)] == 0 && options_.clip) clip(end.update);
  }

  void clip(int update) {
    add_norm(update);
    std::vector<BlockId> blocks;
    for (const GradientEnd& end : ends_) {
      if (end.update == update) blocks.push_back(end.block);
    }
    std::sort(blocks.begin(), blocks.end());
    for (const BlockId block : blocks) add(OpKind::optimizer, block, update);
  }

  /// Every rank takes part in every norm, also one without gradients of its own.
  void join_other_norms() {
    for (int update = 0; update < pipeline_.updates(); ++update) {
      const bool own = std::any_of(ends_.begin(), ends_.end(),
                                   [&](const GradientEnd& end) { return end.update == update; });
      if (!own) add_norm(update);
    }
  }

  void add_norm(int update) {
    const std::optional<CollectiveId> norm = norm_of(pipeline_);
    PPSIM_CHECK(norm.has_value(), "clipping needs a norm");
    steps_.emplace_back(
        make_action(OpKind::collective, norm->value(), pipeline_.updates() == 1 ? -1 : update));
  }
  void add(OpKind kind, BlockId block, int update) {
    steps_.emplace_back(make_action(kind, block.value(), update));
  }

  const Pipeline& pipeline_;
  const LoweringOptions& options_;
  std::span<const Step> row_;
  std::vector<GradientEnd> ends_;
  std::vector<int> open_blocks_;
  std::vector<Step> steps_;
};

}  // namespace

void insert_updates(const Pipeline& pipeline, const LoweringOptions& options, StepRows& rows) {
  for (int r = 0; r < rows.ranks(); ++r) {
    rows.replace(RankId(r), RowUpdater(pipeline, options, rows[RankId(r)]).run());
  }
}

Expected<Pipeline> with_norm(const Pipeline& pipeline) {
  if (norm_of(pipeline)) return pipeline;
  PipelineSpec spec = pipeline.spec();
  Collective norm{kNorm, {}};
  for (int r = 0; r < spec.ranks; ++r) norm.members.emplace_back(r);
  spec.collectives.push_back(std::move(norm));
  return Pipeline::make(std::move(spec));
}

}  // namespace ppsim::lowering
