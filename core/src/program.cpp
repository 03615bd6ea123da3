#include "ppsim/core/program.hpp"

#include <algorithm>
#include <limits>

#include "ppsim/core/check.hpp"
#include "rules.hpp"

namespace ppsim {
namespace {

/// Where an instruction of a draft stands, for messages.
struct Place {
  int rank;
  std::size_t position;
  friend std::ostream& operator<<(std::ostream& out, const Place& place) {
    return out << "rank " << place.rank << ", instruction " << place.position;
  }
};

class DraftChecker {
 public:
  DraftChecker(const Pipeline& pipeline, const ProgramDraft& draft) : pipeline_(pipeline), draft_(draft) {}

  std::string run() {
    if (draft_.rows.size() != static_cast<std::size_t>(pipeline_.ranks())) {
      rules_.broken("a Program of ", pipeline_.ranks(), " ranks has ", draft_.rows.size(), " rows");
      return rules_.text();
    }
    check_communicators();
    for (int r = 0; r < pipeline_.ranks(); ++r) check_row(r);
    return rules_.text();
  }

 private:
  void check_communicators() {
    for (const Communicator& communicator : draft_.communicators) {
      std::vector<RankId> members = communicator.members;
      std::sort(members.begin(), members.end());
      const bool twice = std::adjacent_find(members.begin(), members.end()) != members.end();
      const bool outside =
          !members.empty() && (!members.front().valid() || members.back().value() >= pipeline_.ranks());
      if (members.empty() || twice || outside || members != communicator.members) {
        rules_.broken("communicator ", communicator.name,
                      " must list at least one rank, ascending, each once, within [0, ", pipeline_.ranks(),
                      ")");
      }
      if (communicator.queue < -1 || communicator.queue >= kMaxQueues) {
        rules_.broken("communicator ", communicator.name, " names queue ", communicator.queue,
                      ", expected [0, ", kMaxQueues, ")");
      }
    }
  }

  void check_row(int rank) {
    const std::vector<InstructionDraft>& row = draft_.rows[RankId(rank)];
    for (std::size_t i = 0; i < row.size(); ++i) check_instruction({rank, i}, row[i], row.size());
  }

  void check_instruction(Place place, const InstructionDraft& draft, std::size_t row_size) {
    check_form(place, draft);
    if (!draft.communicators.empty() && draft.communicators.size() != draft.actions.size()) {
      rules_.broken(place, ": ", draft.communicators.size(), " communicators for ", draft.actions.size(),
                    " actions");
      return;
    }
    for (std::size_t a = 0; a < draft.actions.size(); ++a) {
      const CommunicatorId communicator =
          draft.communicators.empty() ? CommunicatorId() : draft.communicators[a];
      if (check_ids(place, draft.actions[a])) check_communicator(place, draft.actions[a], communicator);
    }
    for (const int after : draft.after) {
      if (after < 0 || static_cast<std::size_t>(after) >= row_size) {
        rules_.broken(place, ": after ", after, " is outside [0, ", row_size, ")");
      }
    }
    if (draft.after.size() > std::numeric_limits<std::uint16_t>::max()) {
      rules_.broken(place, ": more than 65535 after");
    }
  }

  void check_form(Place place, const InstructionDraft& draft) {
    const std::vector<Action>& actions = draft.actions;
    switch (draft.form) {
      case InstructionForm::single:
        if (actions.size() != 1) rules_.broken(place, ": ", actions.size(), " actions, expected one");
        if (actions.size() == 1 && actions[0].kind == OpKind::overlap) {
          rules_.broken(place, ": OVERLAP_F_B is a pair of actions, never a single one");
        }
        return;
      case InstructionForm::overlap:
        if (actions.size() != 2 || actions[0].kind != OpKind::forward ||
            !gives_input_gradient(actions[1].kind)) {
          rules_.broken(place, ": OVERLAP_F_B needs an F and a B or I");
        }
        return;
      case InstructionForm::group:
        if (actions.empty() || actions.size() > kMaxGroup) {
          rules_.broken(place, ": a group of ", actions.size(), " members, expected 1 to ", kMaxGroup);
        }
        for (const Action& action : actions) {
          if (!is_transfer(action.kind))
            rules_.broken(place, ": ", action, " in a group, expected sends and receives");
        }
        return;
    }
  }

  bool check_range(Place place, const Action& action, const char* what, int found, int limit) {
    if (found >= 0 && found < limit) return true;
    rules_.broken(place, ": ", action, " names ", what, ' ', found, ", expected [0, ", limit, ")");
    return false;
  }

  bool check_ids(Place place, const Action& action) {
    const OpInfo& row = info(action.kind);
    const int collectives = static_cast<int>(pipeline_.spec().collectives.size());
    bool good = true;
    switch (row.subject) {
      case Subject::stage:
        good = check_range(place, action, "stage", action.subject, pipeline_.stages());
        break;
      case Subject::block:
        good = check_range(place, action, "block", action.subject, pipeline_.blocks());
        break;
      case Subject::collective:
        good = check_range(place, action, "collective", action.subject, collectives);
        break;
    }
    const int microbatches = pipeline_.microbatches();
    switch (row.microbatch) {
      case MicrobatchUse::required:
        good = check_range(place, action, "microbatch", action.microbatch, microbatches) && good;
        break;
      case MicrobatchUse::optional:
        if (action.microbatch != -1)
          good = check_range(place, action, "microbatch", action.microbatch, microbatches) && good;
        break;
      case MicrobatchUse::none:
        break;
      case MicrobatchUse::update:
        good = check_range(place, action, "update", action.microbatch, pipeline_.updates()) && good;
        break;
    }
    good = check_range(place, action, "slice", action.slice, pipeline_.slices()) && good;
    if (is_transfer(action.kind)) {
      const bool to_rank = action.kind == OpKind::send_activation || action.kind == OpKind::recv_activation;
      good = check_range(place, action, to_rank ? "peer rank" : "peer stage", action.peer,
                         to_rank ? pipeline_.ranks() : pipeline_.stages()) &&
             good;
    }
    return good;
  }

  void check_communicator(Place place, const Action& action, CommunicatorId id) {
    if (!is_communication(action.kind)) {
      if (id.valid()) rules_.broken(place, ": ", action, " is no communication but has a communicator");
      return;
    }
    if (!id.valid() || id.index() >= draft_.communicators.size()) {
      rules_.broken(place, ": ", action, " has communicator ", id, ", expected [0, ",
                    draft_.communicators.size(), ")");
      return;
    }
    const Communicator& communicator = draft_.communicators[id.index()];
    const auto has = [&](RankId rank) {
      return std::binary_search(communicator.members.begin(), communicator.members.end(), rank);
    };
    const RankId own(place.rank);
    if (!has(own))
      rules_.broken(place, ": ", action, ": rank ", own, " is no member of communicator ", communicator.name);
    if (is_transfer(action.kind) && !has(peer_rank(pipeline_, action))) {
      rules_.broken(place, ": ", action, ": its peer, rank ", peer_rank(pipeline_, action),
                    ", is no member of communicator ", communicator.name);
    }
  }

  static constexpr int kMaxQueues = 1 << 20;
  const Pipeline& pipeline_;
  const ProgramDraft& draft_;
  Rules rules_;
};

}  // namespace

RankId peer_rank(const Pipeline& pipeline, const Action& transfer) {
  PPSIM_CHECK(is_transfer(transfer.kind), "only transfers have a peer");
  if (transfer.kind == OpKind::send_activation || transfer.kind == OpKind::recv_activation)
    return transfer.peer_rank();
  return pipeline.rank_of(transfer.peer_stage());
}

RankId Program::rank_of(InstructionId id) const {
  const auto after = std::upper_bound(rank_begin_.begin(), rank_begin_.end(), id.value());
  return RankId(static_cast<std::int32_t>(after - rank_begin_.begin()) - 1);
}

int Program::queue_of(const Action& action, CommunicatorId communicator) const {
  switch (info(action.kind).resource) {
    case Resource::compute:
      return kComputeQueue;
    case Resource::copy:
      return kCopyQueue;
    case Resource::p2p:
    case Resource::collective:
      return communicator_queue_[communicator.index()];
  }
  return kComputeQueue;
}

std::vector<int> Program::queues_of(InstructionId id) const {
  const std::span<const Action> own = actions(id);
  const std::span<const CommunicatorId> communicators = communicators_of(id);
  std::vector<int> queues;
  for (std::size_t i = 0; i < own.size(); ++i) queues.push_back(queue_of(own[i], communicators[i]));
  std::sort(queues.begin(), queues.end());
  queues.erase(std::unique(queues.begin(), queues.end()), queues.end());
  return queues;
}

std::string Program::queue_name(int queue) const {
  if (queue == kComputeQueue) return "compute";
  if (queue == kCopyQueue) return "copy";
  for (std::size_t c = 0; c < communicators_.size(); ++c) {
    if (communicator_queue_[c] == queue) return communicators_[c].name;
  }
  return "queue " + std::to_string(queue);
}

void Program::number_queues() {
  int own = 0;
  for (const Communicator& communicator : communicators_) own = std::max(own, communicator.queue + 1);
  communicator_queue_.clear();
  for (const Communicator& communicator : communicators_) {
    communicator_queue_.push_back(kFirstCommunicationQueue +
                                  (communicator.queue >= 0 ? communicator.queue : own++));
  }
  queue_count_ = kFirstCommunicationQueue + own;
}

std::ostream& operator<<(std::ostream& out, const Program& program) {
  return out << program.pipeline() << ", " << program.size() << " instructions";
}

Expected<Program> ProgramBuilder::build(Pipeline pipeline, const ProgramDraft& draft) {
  if (std::string broken = DraftChecker(pipeline, draft).run(); !broken.empty()) {
    return make_error(ErrorCode::bad_argument, std::move(broken));
  }
  Program program(std::move(pipeline));
  program.communicators_ = draft.communicators;
  program.number_queues();
  program.rank_begin_.push_back(0);
  for (const std::vector<InstructionDraft>& row : draft.rows) {
    const std::int32_t begin = program.rank_begin_.back();
    for (const InstructionDraft& item : row) {
      Instruction instruction;
      instruction.first_action = static_cast<std::uint32_t>(program.actions_.size());
      instruction.first_after = static_cast<std::uint32_t>(program.after_.size());
      instruction.action_count = static_cast<std::uint16_t>(item.actions.size());
      instruction.after_count = static_cast<std::uint16_t>(item.after.size());
      instruction.form = item.form;
      instruction.blocking = item.blocking;
      program.instructions_.push_back(instruction);
      program.actions_.insert(program.actions_.end(), item.actions.begin(), item.actions.end());
      for (std::size_t a = 0; a < item.actions.size(); ++a) {
        program.action_communicator_.push_back(item.communicators.empty() ? CommunicatorId()
                                                                          : item.communicators[a]);
      }
      for (const int after : item.after) program.after_.emplace_back(begin + after);
    }
    program.rank_begin_.push_back(static_cast<std::int32_t>(program.instructions_.size()));
  }
  return program;
}

ProgramDraft to_draft(const Program& program) {
  ProgramDraft draft;
  draft.communicators = program.communicators();
  for (int r = 0; r < program.pipeline().ranks(); ++r) {
    const InstructionId first = program.first(RankId(r));
    std::vector<InstructionDraft> row;
    for (InstructionId id = first; id < program.last(RankId(r)); id = InstructionId(id.value() + 1)) {
      InstructionDraft item;
      const auto actions = program.actions(id);
      const auto communicators = program.communicators_of(id);
      item.actions.assign(actions.begin(), actions.end());
      item.communicators.assign(communicators.begin(), communicators.end());
      for (const InstructionId after : program.after(id)) item.after.push_back(after.value() - first.value());
      item.form = program.instruction(id).form;
      item.blocking = program.instruction(id).blocking;
      row.push_back(std::move(item));
    }
    draft.rows.push_back(std::move(row));
  }
  return draft;
}

}  // namespace ppsim
