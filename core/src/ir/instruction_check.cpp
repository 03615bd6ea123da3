#include "instruction_check.hpp"

#include <algorithm>
#include <limits>

namespace ppsim {

std::ostream& operator<<(std::ostream& out, const InstructionPlace& place) {
  return out << "rank " << place.rank << ", instruction " << place.position;
}

namespace {

constexpr int kMaxQueues = 1 << 20;

class InstructionChecker {
 public:
  InstructionChecker(const InstructionContext& context, const InstructionPlace& place, Rules& rules)
      : pipeline_(context.pipeline), communicators_(context.communicators), place_(place), rules_(rules) {}

  void check(const InstructionView& instruction) {
    check_form(instruction);
    const auto& communicators = instruction.communicators;
    if (!communicators.empty() && communicators.size() != instruction.actions.size()) {
      rules_.broken(place_, ": ", communicators.size(), " communicators for ", instruction.actions.size(),
                    " actions");
      return;
    }
    for (std::size_t a = 0; a < instruction.actions.size(); ++a) {
      const CommunicatorId communicator = communicators.empty() ? CommunicatorId() : communicators[a];
      if (check_ids(instruction.actions[a])) check_communicator(instruction.actions[a], communicator);
    }
    for (const int after : instruction.after) {
      if (after < 0 || as_size(after) >= place_.row_size) {
        rules_.broken(place_, ": after ", after, " is outside [0, ", place_.row_size, ")");
      }
    }
    if (instruction.after.size() > std::numeric_limits<std::uint16_t>::max()) {
      rules_.broken(place_, ": more than 65535 after");
    }
  }

 private:
  void check_form(const InstructionView& instruction) {
    const std::span<const Action> actions = instruction.actions;
    switch (instruction.form) {
      case InstructionForm::single:
        if (actions.size() != 1) rules_.broken(place_, ": ", actions.size(), " actions, expected one");
        if (actions.size() == 1 && actions[0].kind == OpKind::overlap) {
          rules_.broken(place_, ": OVERLAP_F_B is a pair of actions, never a single one");
        }
        return;
      case InstructionForm::overlap:
        if (actions.size() != 2 || actions[0].kind != OpKind::forward ||
            !gives_input_gradient(actions[1].kind)) {
          rules_.broken(place_, ": OVERLAP_F_B needs an F and a B or I");
        }
        return;
      case InstructionForm::group:
        if (actions.empty() || actions.size() > kMaxGroup) {
          rules_.broken(place_, ": a group of ", actions.size(), " members, expected 1 to ", kMaxGroup);
        }
        for (const Action& action : actions) {
          if (!is_transfer(action.kind)) {
            rules_.broken(place_, ": ", action, " in a group, expected sends and receives");
          }
        }
        return;
    }
  }

  bool check_range(const Action& action, const char* what, int found, int limit) {
    if (found >= 0 && found < limit) return true;
    rules_.broken(place_, ": ", action, " names ", what, ' ', found, ", expected [0, ", limit, ")");
    return false;
  }

  bool check_subject(const Action& action) {
    const Subject subject = info(action.kind).subject;
    return check_range(action, subject_name(subject), action.subject, pipeline_.count(subject));
  }

  bool check_microbatch(const Action& action) {
    switch (info(action.kind).microbatch) {
      case MicrobatchUse::none:
        return true;
      case MicrobatchUse::optional:
        if (action.microbatch == -1) return true;
        break;
      case MicrobatchUse::required:
      case MicrobatchUse::update:
        break;
    }
    return pipeline_.counts_updates(action.kind, action.subject)
               ? check_range(action, "update", action.microbatch, pipeline_.updates())
               : check_range(action, "microbatch", action.microbatch, pipeline_.microbatches());
  }

  /// Fields that the kind does not have must be empty, or two Programs would read the same and differ.
  bool check_unused(const Action& action) {
    const MicrobatchUse use = info(action.kind).microbatch;
    const bool peer = action.peer != -1 && !is_transfer(action.kind);
    const bool microbatch = action.microbatch != -1 && use == MicrobatchUse::none;
    const bool slice = action.slice != 0 && use != MicrobatchUse::required;
    if (!peer && !microbatch && !slice) return true;
    rules_.broken(place_, ": ", action, " has a ",
                  peer         ? "peer"
                  : microbatch ? "microbatch"
                               : "slice",
                  ", which its kind does not have");
    return false;
  }

  bool check_ids(const Action& action) {
    bool good = check_subject(action) && check_microbatch(action);
    good = check_range(action, "slice", action.slice, pipeline_.slices()) && good;
    good = check_unused(action) && good;
    if (!is_transfer(action.kind)) return good;
    const bool to_rank = names_peer_rank(action.kind);
    return check_range(action, to_rank ? "peer rank" : "peer stage", action.peer,
                       to_rank ? pipeline_.ranks() : pipeline_.stages()) &&
           good;
  }

  void check_communicator(const Action& action, CommunicatorId id) {
    if (!is_communication(action.kind)) {
      if (id.valid()) rules_.broken(place_, ": ", action, " is no communication but has a communicator");
      return;
    }
    if (!id.valid() || id.index() >= communicators_.size()) {
      rules_.broken(place_, ": ", action, " has communicator ", id, ", expected [0, ", communicators_.size(),
                    ")");
      return;
    }
    const Communicator& communicator = communicators_[id.index()];
    const auto has = [&](RankId rank) { return std::ranges::binary_search(communicator.members, rank); };
    if (!has(place_.rank)) {
      rules_.broken(place_, ": ", action, ": rank ", place_.rank, " is no member of communicator ",
                    communicator.name);
    }
    if (is_transfer(action.kind) && !has(peer_rank(pipeline_, action))) {
      rules_.broken(place_, ": ", action, ": its peer, rank ", peer_rank(pipeline_, action),
                    ", is no member of communicator ", communicator.name);
    }
  }

  const Pipeline& pipeline_;
  const std::vector<Communicator>& communicators_;
  const InstructionPlace& place_;
  Rules& rules_;
};

}  // namespace

void check_communicators(const InstructionContext& context, Rules& rules) {
  const int ranks = context.pipeline.ranks();
  for (const Communicator& communicator : context.communicators) {
    std::vector<RankId> members = communicator.members;
    std::ranges::sort(members);
    const bool twice = std::ranges::adjacent_find(members) != members.end();
    const bool outside = !members.empty() && (!members.front().valid() || members.back().value() >= ranks);
    if (members.empty() || twice || outside || members != communicator.members) {
      rules.broken("communicator ", communicator.name,
                   " must list at least one rank, ascending, each once, within [0, ", ranks, ")");
    }
    if (communicator.queue < -1 || communicator.queue >= kMaxQueues) {
      rules.broken("communicator ", communicator.name, " names queue ", communicator.queue, ", expected [0, ",
                   kMaxQueues, ")");
    }
  }
}

void check_instruction(const InstructionContext& context, const InstructionPlace& place,
                       const InstructionView& instruction, Rules& rules) {
  if (instruction.form == InstructionForm::single && instruction.actions.size() == 1 &&
      instruction.communicators.size() <= 1 && instruction.after.empty()) {
    const CommunicatorId communicator =
        instruction.communicators.empty() ? CommunicatorId() : instruction.communicators[0];
    if (is_plainly_good(context, place.rank, instruction.actions[0], communicator)) return;
  }
  InstructionChecker(context, place, rules).check(instruction);
}

}  // namespace ppsim
