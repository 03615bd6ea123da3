#include "ppsim/core/ir/program.hpp"

#include <algorithm>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/sequences.hpp"
#include "program_writer.hpp"

namespace ppsim {

RankId peer_rank(const Pipeline& pipeline, const Action& transfer) {
  PPSIM_CHECK(is_transfer(transfer.kind), "only transfers have a peer");
  if (names_peer_rank(transfer.kind)) return transfer.peer_rank();
  return pipeline.rank_of(transfer.peer_stage());
}

std::vector<Instruction> Program::instructions() const {
  std::vector<Instruction> all;
  all.reserve(size());
  for (const InstructionId id : ids()) all.push_back(instruction(id));
  return all;
}

RankId Program::rank_of(InstructionId id) const {
  const auto after = std::ranges::upper_bound(rank_begin_, id.value());
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
  sort_unique(queues);
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

namespace {

InstructionView view_of(const InstructionDraft& item) {
  return {item.actions, item.communicators, item.after, item.form, item.blocking};
}

}  // namespace

Expected<Program> ProgramBuilder::build(Pipeline pipeline, const ProgramDraft& draft) {
  if (draft.rows.size() != as_size(pipeline.ranks())) {
    return make_error(ErrorCode::bad_argument, "a Program of " + std::to_string(pipeline.ranks()) +
                                                   " ranks has " + std::to_string(draft.rows.size()) +
                                                   " rows");
  }
  IdVector<RankId, RowSize> sizes;
  for (const std::vector<InstructionDraft>& row : draft.rows) {
    RowSize size{row.size(), 0};
    for (const InstructionDraft& item : row) {
      size.actions += item.actions.size();
      size.is_plain = size.is_plain && is_plain(view_of(item));
    }
    sizes.push_back(size);
  }
  ProgramWriter writer(std::move(pipeline), draft.communicators, sizes);
  writer.set_send_done_delay(draft.send_done_delay);
  ProgramWriter::Part part = writer.part();
  for (RankId rank(0); rank.index() < draft.rows.size(); rank = next(rank)) {
    part.begin_row(rank);
    for (const InstructionDraft& item : draft.rows[rank]) part.append(view_of(item));
  }
  return writer.finish({std::move(part)});
}

ProgramDraft to_draft(const Program& program) {
  ProgramDraft draft;
  draft.communicators = program.communicators();
  draft.send_done_delay = program.send_done_delay();
  for (const RankId rank : program.pipeline().rank_ids()) {
    const InstructionId first = program.first(rank);
    std::vector<InstructionDraft> row;
    for (InstructionId id = first; id < program.last(rank); id = InstructionId(id.value() + 1)) {
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
