#include <algorithm>
#include <map>
#include <set>

#include "parts.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/padding.hpp"

namespace ppsim {
namespace {

/// Calls visit(instruction, action) for the actions of a rank in issue order until one is refused.
template <class Visit>
Expected<void> for_each_action(const Program& program, RankId rank, Visit visit) {
  for (const InstructionId id : program.ids_of(rank)) {
    for (const Action& action : program.actions(id)) {
      PPSIM_RETURN_IF_ERROR(visit(id, action));
    }
  }
  return {};
}

template <class Check>
Expected<void> for_each_rank(const Program& program, Check check) {
  for (const RankId rank : program.pipeline().rank_ids()) {
    PPSIM_RETURN_IF_ERROR(check(rank));
  }
  return {};
}

/// In a well-formed Program every F stands after the OPT whose version it reads, and every OPT after the one
/// before it and after all gradients of its update. So when OPT has made version n, only microbatches of
/// updates from n on are still to come, and of older versions only those that they read are kept. It remains
/// that the copies of a block on several ranks are one block: each is updated from the sum of all gradients.
Expected<void> check_updates(const Program& program, RankId rank) {
  const Pipeline& pipeline = program.pipeline();
  const auto is_shared = [&](BlockId block) {
    const std::vector<StageId>& stages = pipeline.spec().blocks[block].stages;
    return std::ranges::any_of(stages, [&](StageId stage) { return pipeline.rank_of(stage) != rank; });
  };
  std::set<std::pair<BlockId, int>> reduced;  // by the number of the REDUCE_GRAD
  const auto is_reduced = [&](const Action& a) {
    if (!pipeline.spec().blocks[a.block()].reduced_each_microbatch)
      return reduced.contains({a.block(), a.update()});
    const auto microbatches = pipeline.microbatches_of_update(a.update());
    return std::ranges::all_of(microbatches, [&](MicrobatchId mb) {
      return reduced.contains({a.block(), mb.value()});
    });
  };
  return for_each_action(program, rank, [&](InstructionId, const Action& a) {
    if (a.kind == OpKind::reduce_grad) reduced.emplace(a.block(), a.microbatch);
    if (a.kind != OpKind::optimizer || !is_shared(a.block()) || is_reduced(a)) return Expected<void>{};
    return Expected<void>(refuse("rank ", rank, ": ", action_text(pipeline, a),
                                 " updates a copy of a block without the sum of all gradients"));
  });
}

Expected<void> check_accumulation(const Program& program, RankId rank) {
  const Pipeline& pipeline = program.pipeline();
  std::map<std::pair<StageId, int>, MicrobatchId> last;  // added by a stage to an update
  return for_each_action(program, rank, [&](InstructionId, const Action& a) {
    if (!gives_weight_gradient(a.kind) || is_padding(pipeline, a.mb())) return Expected<void>{};
    const auto [entry, first] = last.try_emplace({a.stage(), pipeline.spec().update[a.mb()]}, a.mb());
    if (!first && a.mb() < entry->second) {
      return Expected<void>(
          refuse("rank ", rank, ": ", action_text(pipeline, a), " is not in ascending order"));
    }
    entry->second = a.mb();
    return Expected<void>{};
  });
}

/// Ranks as queues of matches: one takes place when it is the next one for all of its members.
class MatchQueues {
 public:
  MatchQueues(const Program& program, const ExecutionGraph& graph)
      : program_(program), graph_(graph), waiting_(graph.matches.size(), 0) {
    for (const RankId rank : program.pipeline().rank_ids()) next_.push_back(program.first(rank));
  }

  /// Returns: how many matches never take place.
  std::size_t left() {
    for (const RankId r : program_.pipeline().rank_ids()) come_to_next(r);
    std::size_t held = 0;
    for (; held < ready_.size(); ++held) {
      for (const InstructionId member : graph_.members_of(graph_.matches[ready_[held]])) {
        const RankId rank = program_.rank_of(member);
        next_[rank] = InstructionId(member.value() + 1);
        come_to_next(rank);
      }
    }
    return graph_.matches.size() - held;
  }

 private:
  void come_to_next(RankId rank) {
    InstructionId& at = next_[rank];
    while (at < program_.last(rank) && graph_.match_of[at.index()] < 0) at = InstructionId(at.value() + 1);
    if (at == program_.last(rank)) return;
    const auto match = as_size(graph_.match_of[at.index()]);
    if (++waiting_[match] == graph_.matches[match].member_count) ready_.push_back(match);
  }

  const Program& program_;
  const ExecutionGraph& graph_;
  IdVector<RankId, InstructionId> next_;
  std::vector<std::uint32_t> waiting_;  ///< per match, the members that have come to it
  std::vector<std::size_t> ready_;
};

}  // namespace

Expected<void> check_certificate_versions(const Program& program) {
  return for_each_rank(program, [&](RankId rank) { return check_updates(program, rank); });
}

Expected<void> check_certificate_accumulation(const Program& program) {
  return for_each_rank(program, [&](RankId rank) { return check_accumulation(program, rank); });
}

Expected<void> check_certificate_collectives(const Program& program, const ExecutionGraph& graph) {
  const std::size_t left = MatchQueues(program, graph).left();
  if (left == 0) return {};
  return refuse(left, " collectives have no place in a common order");
}

}  // namespace ppsim
