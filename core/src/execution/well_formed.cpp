#include "ppsim/core/execution/well_formed.hpp"
#include "ppsim/core/ir/concatenated.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <span>

#include "ir/completeness.hpp"
#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/execution/facts.hpp"
#include "ppsim/core/execution/rank_ranges.hpp"
#include "ppsim/core/ir/sequences.hpp"

namespace ppsim {
namespace {

/// The kind that undoes a removal, which must follow it.
std::optional<OpKind> return_of(OpKind kind) {
  if (kind == OpKind::offload) return OpKind::reload;
  if (kind == OpKind::send_activation) return OpKind::recv_activation;
  if (kind == OpKind::recv_activation) return OpKind::send_activation;
  return std::nullopt;
}

/// The arrivals and departures of the cells of a rank: a bit for each kind.
class CellTraffic {
 public:
  explicit CellTraffic(const Pipeline& pipeline)
      : pipeline_(pipeline), row_of_(as_size(pipeline.stages()), 0) {
    std::size_t rows = 0;
    for (RankId rank(0); rank.value() < pipeline.ranks(); rank = next(rank)) {
      const std::span<const StageId> stages = pipeline.stages_of(rank);
      for (std::size_t i = 0; i < stages.size(); ++i) row_of_[stages[i]] = i;
      rows = std::max(rows, stages.size());
    }
    kinds_.resize(rows * as_size(pipeline.microbatches()) * as_size(pipeline.slices()));
  }

  /// Loads, and transfers between stages.
  [[nodiscard]] static bool is_arrival_or_departure(OpKind kind) {
    return kind == OpKind::load || names_peer_stage(kind);
  }

  /// For the next rank.
  void clear() { std::ranges::fill(kinds_, 0U); }

  /// False where the cell has had an action of this kind already, with the same neighbour or another.
  /// Requires: is_arrival_or_departure, of a stage of the rank.
  [[nodiscard]] bool add(const Action& action) {
    static_assert(kOpKindCount <= 32);
    const std::size_t cell =
        (row_of_[action.stage()] * as_size(pipeline_.microbatches()) + action.mb().index()) *
            as_size(pipeline_.slices()) +
        action.slice;
    const std::uint32_t kind = 1U << static_cast<unsigned>(action.kind);
    const bool fresh = (kinds_[cell] & kind) == 0;
    kinds_[cell] |= kind;
    return fresh;
  }

 private:
  const Pipeline& pipeline_;
  IdVector<StageId, std::size_t> row_of_;  ///< among the stages of its rank
  std::vector<std::uint32_t> kinds_;
};

/// The violations of the rules that look at one rank after another, each in the order of the ranks.
struct RankViolations {
  std::vector<Violation> order;         ///< waits for later instructions
  std::vector<Violation> participants;  ///< collectives on a communicator of others
  std::vector<Violation> counts;        ///< actions that occur twice, or are not undone
};

Violation violation(const Program& program, InstructionId id, const std::string& why) {
  return {id, concatenated("rank ", program.rank_of(id), ": ", why)};
}

/// Checks some ranks, one after another. Several may check other ranks at the same time.
class RankChecker {
 public:
  RankChecker(const Program& program, const ExecutionGraph& graph, Completeness& cells)
      : program_(program), pipeline_(program.pipeline()), graph_(graph), cells_(cells), traffic_(pipeline_) {}

  void check(RankId rank) {
    check_list_order(rank);
    check_participants(rank);
    check_counts(rank);
  }

  [[nodiscard]] RankViolations take_found() { return std::move(found_); }

 private:
  void check_list_order(RankId rank) {
    for (const InstructionId id : program_.ids_of(rank)) {
      const std::span<const InstructionId> predecessors = graph_.predecessors_of(id);
      for (std::size_t k = 0; k < predecessors.size(); ++k) {
        const InstructionId on = predecessors[k];
        if (on < id || graph_.reasons_of(id)[k] == WaitReason::launch) continue;
        found_.order.push_back(
            violation(program_, id,
                      concatenated(program_.actions(id).front(), " waits for ", program_.actions(on).front(),
                                   ", which stands later in the list")));
      }
    }
  }

  /// The ranks that must take part in a collective.
  [[nodiscard]] std::vector<RankId> participants(const Action& action, RankId rank) const {
    if (action.kind == OpKind::collective) return pipeline_.spec().collectives[action.collective()].members;
    std::vector<RankId> ranks = {rank};
    if (action.kind != OpKind::reduce_grad) return ranks;
    for (const StageId stage : pipeline_.spec().blocks[action.block()].stages) {
      ranks.push_back(pipeline_.rank_of(stage));
    }
    sort_unique(ranks);
    return ranks;
  }

  void check_participants(RankId rank) {
    if (graph_.matches.empty()) return;
    for (const InstructionId id : program_.ids_of(rank)) {
      const Action& action = program_.actions(id).front();
      if (!is_collective(action.kind)) continue;
      const Communicator& communicator = program_.communicator(program_.communicators_of(id).front());
      if (communicator.members == participants(action, rank)) continue;
      found_.participants.push_back(
          violation(program_, id,
                    concatenated(action, " is on communicator ", communicator.name,
                                 ", whose members are not the ranks that take part in it")));
    }
  }

  using Counted = std::pair<Action, InstructionId>;

  /// Actions that may occur only once, and removals that must be undone. Requires: of one rank, in issue
  /// order.
  void check_unique(std::vector<Counted>& once) {
    std::ranges::stable_sort(once, {}, &Counted::first);
    for (std::size_t i = 0; i < once.size(); ++i) {
      const auto& [action, id] = once[i];
      if (i > 0 && once[i - 1].first == action) {
        found_.counts.push_back(violation(program_, id, concatenated(action, " is there twice")));
        continue;
      }
      const std::optional<OpKind> kind = return_of(action.kind);
      if (!kind) continue;
      Action back = action;
      back.kind = *kind;
      if (!std::ranges::binary_search(once, back, {}, &Counted::first))
        found_.counts.push_back(
            violation(program_, id, concatenated(action, " has no ", back, " on its rank")));
    }
  }

  /// Calls visit(action, id) for the actions of a rank that belong there. One that does not is unsatisfiable.
  template <class Visit>
  void for_each_action(RankId rank, Visit&& visit) {
    const bool all_belong = graph_.unsatisfiable.empty();
    for (const InstructionId id : program_.ids_of(rank)) {
      for (const Action& action : program_.actions(id)) {
        if (all_belong || belongs_on(pipeline_, action, rank)) visit(action, id);
      }
    }
  }

  /// Transfers are by far the most actions that may occur only once: they are sorted only where two of a kind
  /// meet in a cell.
  void check_counts(RankId rank) {
    std::vector<Counted> once;
    traffic_.clear();
    bool twice = false;
    for_each_action(rank, [&](const Action& action, InstructionId id) {
      cells_.count(action);
      if (info(action.kind).occurrence != Occurrence::once) return;
      if (CellTraffic::is_arrival_or_departure(action.kind)) {
        twice = !traffic_.add(action) || twice;
      } else {
        once.emplace_back(action, id);
      }
    });
    if (twice) sort_out(rank, once);
    check_unique(once);
  }

  /// All actions of a rank that may occur only once.
  void sort_out(RankId rank, std::vector<Counted>& once) {
    once.clear();
    for_each_action(rank, [&](const Action& action, InstructionId id) {
      if (info(action.kind).occurrence == Occurrence::once) once.emplace_back(action, id);
    });
  }

  const Program& program_;
  const Pipeline& pipeline_;
  const ExecutionGraph& graph_;
  Completeness& cells_;
  CellTraffic traffic_;
  RankViolations found_;
};

/// Checks that every SEND, RECV and collective meets all its counterparts.
class CounterpartChecker {
 public:
  CounterpartChecker(const Program& program, const ExecutionGraph& graph)
      : program_(program), graph_(graph) {}

  std::vector<Violation> run() {
    std::size_t begin = 0;
    for (std::size_t m = 0; m < graph_.messages.size(); ++m) {
      if (m + 1 < graph_.messages.size() && graph_.messages[m + 1].previous >= 0) continue;
      // Only the last messages of a channel lack an end, whichever action is absent.
      if (!graph_.messages[m].complete())
        report_unmet({graph_.messages.data() + begin, graph_.messages.data() + m + 1});
      begin = m + 1;
    }
    std::map<CommunicatorId, bool> seen;
    for (const CollectiveMatch& match : graph_.matches) {
      if (!match.complete && seen.emplace(match.communicator, true).second)
        report_partial(match.communicator);
    }
    return std::move(found_);
  }

 private:
  /// An end of a channel under the name of the RECV that belongs to it.
  struct End {
    Action receive;
    InstructionId instruction;
    Action action;
    static bool before(const End& a, const End& b) { return a.receive < b.receive; }
  };

  void report_unmet(std::span<const Message> channel) {
    std::vector<End> sends;
    std::vector<End> receives;
    for (const Message& m : channel) {
      if (m.send.valid()) {
        const Action& send = program_.all_actions()[m.send_action];
        sends.push_back({counterpart(send, program_.rank_of(m.send)), m.send, send});
      }
      if (m.receive.valid()) {
        const Action& receive = program_.all_actions()[m.receive_action];
        receives.push_back({receive, m.receive, receive});
      }
    }
    std::ranges::stable_sort(sends, End::before);
    std::ranges::stable_sort(receives, End::before);
    std::vector<End> unmet;
    std::ranges::set_difference(sends, receives, std::back_inserter(unmet), End::before);
    std::ranges::set_difference(receives, sends, std::back_inserter(unmet), End::before);
    for (const End& end : unmet)
      found_.push_back(violation(program_, end.instruction,
                                 concatenated(end.action, " has no counterpart on its channel")));
  }

  /// The collectives of a communicator that some members lack.
  void report_partial(CommunicatorId communicator) {
    std::map<Action, std::map<RankId, std::vector<InstructionId>>> found;
    for (const CollectiveMatch& match : graph_.matches) {
      if (match.communicator != communicator) continue;
      for (const InstructionId id : graph_.members_of(match))
        found[program_.actions(id).front()][program_.rank_of(id)].push_back(id);
    }
    const std::size_t members = program_.communicator(communicator).members.size();
    for (const auto& [action, places] : found) {
      const auto& first = places.begin()->second;
      const bool alike =
          std::ranges::all_of(places, [&](const auto& place) { return place.second.size() == first.size(); });
      if (alike && places.size() == members) continue;
      found_.push_back(violation(program_, first.front(),
                                 concatenated(action, " is missing on other members of communicator ",
                                              program_.communicator(communicator).name)));
    }
  }

  const Program& program_;
  const ExecutionGraph& graph_;
  std::vector<Violation> found_;
};

std::vector<RankViolations> violations_of_ranks(const Program& program, const ExecutionGraph& graph,
                                                Completeness& cells) {
  return by_rank_ranges(program, [&](const RankRange& ranks) {
    RankChecker checker(program, graph, cells);
    for (RankId rank = ranks.first; rank < ranks.last; rank = next(rank)) checker.check(rank);
    return checker.take_found();
  });
}

}  // namespace

std::vector<Violation> well_formed_violations(const Program& program) {
  return well_formed_violations(program, AnalyzedProgram(program, rendezvous()).graph());
}

std::vector<Violation> well_formed_violations(const Program& program, const ExecutionGraph& graph) {
  Completeness cells(program.pipeline());
  const std::vector<RankViolations> of_ranks = violations_of_ranks(program, graph, cells);
  std::vector<Violation> found;
  for (const Unsatisfiable& u : graph.unsatisfiable)
    found.push_back(violation(program, u.instruction, u.why));
  for (const RankViolations& part : of_ranks) append_all(found, part.order);
  append_all(found, CounterpartChecker(program, graph).run());
  for (const RankViolations& part : of_ranks) append_all(found, part.participants);
  for (const RankViolations& part : of_ranks) append_all(found, part.counts);
  cells.check([&](RankId rank, const std::string& text) {
    found.push_back({InstructionId(), concatenated("rank ", rank, ": ", text)});
  });
  std::ranges::stable_sort(found, {}, &Violation::instruction);
  return found;
}

std::vector<Violation> match_violations(const Program& program) {
  return match_violations(program, AnalyzedProgram(program, rendezvous()).graph());
}

std::vector<Violation> match_violations(const Program& program, const ExecutionGraph& graph) {
  std::vector<Violation> found;
  for (const Message& message : graph.messages) {
    if (message.matched) continue;
    const RankId from = program.rank_of(message.send);
    const RankId to = program.rank_of(message.receive);
    found.push_back({message.send,
                     concatenated("rank ", from, ": ", program.all_actions()[message.send_action],
                                  " meets rank ", to, ": ", program.all_actions()[message.receive_action])});
  }
  for (const CollectiveMatch& match : graph.matches) {
    if (match.matched) continue;
    std::string text = "collectives that meet differ:";
    for (const InstructionId id : graph.members_of(match)) {
      text += concatenated(" rank ", program.rank_of(id), ": ", program.actions(id).front());
    }
    found.push_back({graph.members_of(match).front(), text});
  }
  return found;
}

}  // namespace ppsim
