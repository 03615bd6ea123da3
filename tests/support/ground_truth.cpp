#include "support/ground_truth.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "ppsim/core/execution/facts.hpp"
#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "support/reachable_states.hpp"

namespace ppsim::test {
namespace {

/// The actions of a rank that are its own, in issue order.
std::vector<Action> list_of(const Program& program, RankId rank) {
  std::vector<Action> list;
  for (int i = program.first(rank).value(); i < program.last(rank).value(); ++i) {
    for (const Action& action : program.actions(InstructionId(i))) {
      if (belongs_on(program.pipeline(), action, rank)) list.push_back(action);
    }
  }
  return list;
}

/// Everything that stands on a rank, collectives with their members.
using Content = std::vector<std::pair<Action, std::vector<RankId>>>;

Content content_of(const Program& program, RankId rank) {
  Content content;
  for (int i = program.first(rank).value(); i < program.last(rank).value(); ++i) {
    const InstructionId id(i);
    for (const Action& action : program.actions(id)) {
      content.emplace_back(action, std::vector<RankId>());
      if (is_collective(action.kind))
        content.back().second = program.communicator(program.communicators_of(id).front()).members;
    }
  }
  std::ranges::sort(content);
  return content;
}

/// Takes collectives off the heads of the ranks' lists where all members have the same at their head.
bool have_common_order(const Program& program) {
  std::map<RankId, std::vector<std::pair<CommunicatorId, Action>>> lists;
  for (int r = 0; r < program.pipeline().ranks(); ++r) {
    for (int i = program.last(RankId(r)).value(); i-- > program.first(RankId(r)).value();) {
      const InstructionId id(i);
      const Action& action = program.actions(id).front();
      if (is_collective(action.kind))
        lists[RankId(r)].emplace_back(program.communicators_of(id).front(), action);
    }
  }
  std::erase_if(lists, [](const auto& entry) { return entry.second.empty(); });
  while (!lists.empty()) {
    const auto common = std::ranges::find_if(lists, [&](const auto& entry) {
      return std::ranges::all_of(program.communicator(entry.second.back().first).members, [&](RankId member) {
        return lists.contains(member) && lists.at(member).back() == entry.second.back();
      });
    });
    if (common == lists.end()) return false;
    for (const RankId member : program.communicator(common->second.back().first).members) {
      lists.at(member).pop_back();
    }
    std::erase_if(lists, [](const auto& entry) { return entry.second.empty(); });
  }
  return true;
}

bool ascends(const Program& program) {
  std::map<std::pair<StageId, int>, int> last;
  for (int r = 0; r < program.pipeline().ranks(); ++r) {
    for (int i = program.first(RankId(r)).value(); i < program.last(RankId(r)).value(); ++i) {
      for (const Action& a : program.actions(InstructionId(i))) {
        if (!gives_weight_gradient(a.kind) || is_padding(program.pipeline(), a)) continue;
        int& before =
            last.try_emplace({a.stage(), program.pipeline().spec().update[a.mb()]}, -1).first->second;
        if (a.microbatch < before) return false;
        before = a.microbatch;
      }
    }
  }
  return true;
}

/// The versions of one block, by one rank's list.
class BlockVersions {
 public:
  BlockVersions(const Pipeline& pipeline, const std::vector<Action>& list, BlockId block)
      : pipeline_(pipeline), list_(list), block_(block) {}

  [[nodiscard]] bool hold(RankId rank) const {
    for (std::size_t at = 0; at < list_.size(); ++at) {
      const Action& a = list_[at];
      if (a.kind == OpKind::optimizer && a.block() == block_) {
        if (updates_before(at) != a.update() || !is_reduced(rank, a.update())) return false;
      } else if (info(a.kind).subject == Subject::stage && touches(a)) {
        if (reads(a) && updates_before(at) < pipeline_.version(a.stage(), a.mb())) return false;
        if (gives_weight_gradient(a.kind) && !is_padding(pipeline_, a) &&
            updates_before(at) > pipeline_.spec().update[a.mb()])
          return false;
      }
    }
    return few_enough();
  }

 private:
  /// Whether what the action computes of the weights is ever used.
  [[nodiscard]] bool reads(const Action& a) const {
    return !is_padding(pipeline_, a) &&
           (a.kind == OpKind::forward || a.kind == OpKind::recompute || gives_input_gradient(a.kind));
  }
  [[nodiscard]] bool touches(const Action& a) const {
    return std::ranges::count(pipeline_.blocks_of(a.stage()), block_) > 0;
  }
  [[nodiscard]] int updates_before(std::size_t at) const {
    int newest = 0;
    for (std::size_t i = 0; i < at; ++i) {
      if (list_[i].kind == OpKind::optimizer && list_[i].block() == block_)
        newest = std::max(newest, list_[i].update() + 1);
    }
    return newest;
  }
  [[nodiscard]] bool is_reduced(RankId rank, int update) const {
    const auto& stages = pipeline_.spec().blocks[block_].stages;
    const bool shared =
        std::ranges::any_of(stages, [&](StageId stage) { return pipeline_.rank_of(stage) != rank; });
    if (!shared) return true;
    const auto has_sum = [&](int number) {
      return std::ranges::any_of(list_, [&](const Action& a) {
        return a.kind == OpKind::reduce_grad && a.block() == block_ && a.microbatch == number;
      });
    };
    if (!pipeline_.spec().blocks[block_].reduced_each_microbatch) return has_sum(update);
    return std::ranges::all_of(pipeline_.microbatches_of_update(update),
                               [&](MicrobatchId mb) { return has_sum(mb.value()); });
  }

  /// Versions that somebody is still to read and the newest, after each update: no more than lie between what
  /// a microbatch reads and what it feeds.
  [[nodiscard]] bool few_enough() const {
    int allowed = 1;
    for (const Action& a : list_) {
      if (info(a.kind).subject == Subject::stage && reads(a) && touches(a))
        allowed =
            std::max(allowed, 1 + pipeline_.spec().update[a.mb()] - pipeline_.version(a.stage(), a.mb()));
    }
    for (std::size_t at = 0; at < list_.size(); ++at) {
      if (list_[at].kind != OpKind::optimizer || list_[at].block() != block_) continue;
      const int newest = updates_before(at + 1);
      std::set<int> kept{newest};
      for (std::size_t i = at + 1; i < list_.size(); ++i) {
        const Action& a = list_[i];
        if (info(a.kind).subject != Subject::stage || !reads(a) || !touches(a)) continue;
        kept.insert(std::min(newest, pipeline_.version(a.stage(), a.mb())));
      }
      if (static_cast<int>(kept.size()) > allowed) return false;
    }
    return true;
  }

  const Pipeline& pipeline_;
  const std::vector<Action>& list_;
  BlockId block_;
};

bool have_versions(const Program& program) {
  const Pipeline& pipeline = program.pipeline();
  for (int r = 0; r < pipeline.ranks(); ++r) {
    const std::vector<Action> list = list_of(program, RankId(r));
    for (int b = 0; b < pipeline.blocks(); ++b) {
      if (!BlockVersions(pipeline, list, BlockId(b)).hold(RankId(r))) return false;
    }
  }
  return true;
}

}  // namespace

std::set<Property> broken_properties(const Program& program, const Program& complete,
                                     const TransportCapabilities& capabilities) {
  std::set<Property> broken;
  const ListRules lists = read_lists(program);
  bool whole = lists.ordered && lists.paired;
  for (int r = 0; r < program.pipeline().ranks(); ++r)
    whole = whole && content_of(program, RankId(r)) == content_of(complete, RankId(r));
  if (!whole) broken.insert(Property::well_formed);
  if (!lists.matched) broken.insert(Property::matched);
  const NaiveRun run = run_naively(program, capabilities, CostTable());
  if (run.outcome == NaiveRun::Outcome::deadlock) broken.insert(Property::deadlock_free);
  if (!have_common_order(program)) broken.insert(Property::collective_order);
  if (!ascends(program)) broken.insert(Property::ascending_accumulation);
  if (!have_versions(program)) broken.insert(Property::weight_versions);
  return broken;
}

}  // namespace ppsim::test
