#include "ppsim/core/execution/well_formed.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <sstream>

#include "ir/completeness.hpp"
#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/execution/facts.hpp"

namespace ppsim {
namespace {

template <class... Parts>
std::string text_of(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// The kind that undoes a removal, which must follow it.
std::optional<OpKind> return_of(OpKind kind) {
  if (kind == OpKind::offload) return OpKind::reload;
  if (kind == OpKind::send_activation) return OpKind::recv_activation;
  if (kind == OpKind::recv_activation) return OpKind::send_activation;
  return std::nullopt;
}

class ProgramChecker {
 public:
  ProgramChecker(const Program& program, const ExecutionGraph& graph)
      : program_(program), pipeline_(program.pipeline()), graph_(graph) {}

  std::vector<Violation> run() {
    for (const Unsatisfiable& u : graph_.unsatisfiable) report(u.instruction, u.why);
    check_list_order();
    check_counterparts();
    check_participants();
    check_counts();
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Violation& a, const Violation& b) { return a.instruction < b.instruction; });
    return std::move(found_);
  }

 private:
  void report(InstructionId id, const std::string& why) {
    found_.push_back({id, text_of("rank ", program_.rank_of(id), ": ", why)});
  }

  void check_list_order() {
    for (std::size_t i = 0; i < program_.size(); ++i) {
      const InstructionId id(static_cast<std::int32_t>(i));
      for (std::size_t k = 0; k < graph_.predecessors_of(id).size(); ++k) {
        const InstructionId on = graph_.predecessors_of(id)[k];
        if (on < id || graph_.reasons_of(id)[k] == WaitReason::launch) continue;
        report(id, text_of(program_.actions(id).front(), " waits for ", program_.actions(on).front(),
                           ", which stands later in the list"));
      }
    }
  }

  void check_counterparts() {
    std::size_t begin = 0;
    for (std::size_t m = 0; m < graph_.messages.size(); ++m) {
      if (m + 1 < graph_.messages.size() && graph_.messages[m + 1].previous >= 0) continue;
      // Only the last messages of a channel lack an end, whichever action is absent.
      if (!graph_.messages[m].complete())
        report_unmet({graph_.messages.data() + begin, graph_.messages.data() + m + 1});
      begin = m + 1;
    }
    std::map<CommunicatorId, bool> seen;
    for (const CollectiveMatch& meeting : graph_.meetings) {
      if (!meeting.complete && seen.emplace(meeting.communicator, true).second)
        report_partial(meeting.communicator);
    }
  }

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
      report(end.instruction, text_of(end.action, " has no counterpart on its channel"));
  }

  /// The collectives of a communicator that some members lack.
  void report_partial(CommunicatorId communicator) {
    std::map<Action, std::map<RankId, std::vector<InstructionId>>> found;
    for (const CollectiveMatch& meeting : graph_.meetings) {
      if (meeting.communicator != communicator) continue;
      for (const InstructionId id : graph_.members_of(meeting))
        found[program_.actions(id).front()][program_.rank_of(id)].push_back(id);
    }
    const std::size_t members = program_.communicator(communicator).members.size();
    for (const auto& [action, places] : found) {
      const auto& first = places.begin()->second;
      const bool alike =
          std::ranges::all_of(places, [&](const auto& place) { return place.second.size() == first.size(); });
      if (alike && places.size() == members) continue;
      report(first.front(), text_of(action, " is missing on other members of communicator ",
                                    program_.communicator(communicator).name));
    }
  }

  /// Who must take part for the collective to mean what it says.
  [[nodiscard]] std::vector<RankId> participants(const Action& action, RankId rank) const {
    if (action.kind == OpKind::collective) return pipeline_.spec().collectives[action.collective()].members;
    std::vector<RankId> ranks = {rank};
    if (action.kind != OpKind::reduce_grad) return ranks;
    for (const StageId stage : pipeline_.spec().blocks[action.block()].stages) {
      ranks.push_back(pipeline_.rank_of(stage));
    }
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return ranks;
  }

  void check_participants() {
    for (std::size_t i = 0; i < program_.size(); ++i) {
      const InstructionId id(static_cast<std::int32_t>(i));
      const Action& action = program_.actions(id).front();
      if (!is_collective(action.kind)) continue;
      const Communicator& communicator = program_.communicator(program_.communicators_of(id).front());
      if (communicator.members == participants(action, program_.rank_of(id))) continue;
      report(id, text_of(action, " is on communicator ", communicator.name,
                         ", whose members are not the ranks that take part in it"));
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
        report(id, text_of(action, " is there twice"));
        continue;
      }
      const std::optional<OpKind> kind = return_of(action.kind);
      if (!kind) continue;
      Action back = action;
      back.kind = *kind;
      if (!std::ranges::binary_search(once, back, {}, &Counted::first))
        report(id, text_of(action, " has no ", back, " on its rank"));
    }
  }

  void check_counts() {
    Completeness cells(pipeline_);
    std::vector<Counted> once;
    for (int r = 0; r < pipeline_.ranks(); ++r) {
      once.clear();
      for (auto id = program_.first(RankId(r)); id < program_.last(RankId(r));
           id = InstructionId(id.value() + 1)) {
        for (const Action& action : program_.actions(id)) {
          if (!belongs_on(pipeline_, action, RankId(r))) continue;
          cells.count(action);
          if (info(action.kind).occurrence == Occurrence::once) once.emplace_back(action, id);
        }
      }
      check_unique(once);
    }
    cells.check([&](RankId rank, const std::string& text) {
      found_.push_back({InstructionId(), text_of("rank ", rank, ": ", text)});
    });
  }

  const Program& program_;
  const Pipeline& pipeline_;
  const ExecutionGraph& graph_;
  std::vector<Violation> found_;
};

}  // namespace

std::vector<Violation> well_formed_violations(const Program& program) {
  return well_formed_violations(program, AnalyzedProgram(program, rendezvous()).graph());
}

std::vector<Violation> well_formed_violations(const Program& program, const ExecutionGraph& graph) {
  return ProgramChecker(program, graph).run();
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
    found.push_back(
        {message.send, text_of("rank ", from, ": ", program.all_actions()[message.send_action],
                               " meets rank ", to, ": ", program.all_actions()[message.receive_action])});
  }
  for (const CollectiveMatch& meeting : graph.meetings) {
    if (meeting.matched) continue;
    std::string text = "collectives that meet differ:";
    for (const InstructionId id : graph.members_of(meeting)) {
      text += text_of(" rank ", program.rank_of(id), ": ", program.actions(id).front());
    }
    found.push_back({graph.members_of(meeting).front(), text});
  }
  return found;
}

}  // namespace ppsim
