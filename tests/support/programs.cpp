#include "support/programs.hpp"

#include <stdexcept>

namespace ppsim::test {
namespace {

using enum OpKind;

Communicator communicator(std::string name, std::vector<RankId> members) {
  return {std::move(name), std::move(members), -1};
}

}  // namespace

InstructionDraft one(Action action, int communicator, std::vector<int> after, bool blocking) {
  return {{action}, {CommunicatorId(communicator)}, InstructionForm::single, std::move(after), blocking};
}

InstructionDraft group(std::initializer_list<std::pair<Action, int>> members) {
  InstructionDraft draft;
  draft.form = InstructionForm::group;
  for (const auto& [action, communicator] : members) {
    draft.actions.push_back(action);
    draft.communicators.emplace_back(communicator);
  }
  return draft;
}

InstructionDraft overlap(Action forward, Action backward) {
  return {{forward, backward}, {CommunicatorId(), CommunicatorId()}, InstructionForm::overlap, {}, false};
}

Pipeline chain(int ranks, int stages, int microbatches) {
  auto pipeline = make_chain(ranks, stages, microbatches);
  if (!pipeline) throw std::invalid_argument(to_string(pipeline.error()));
  return *std::move(pipeline);
}

Program program(Pipeline pipeline, ProgramDraft draft) {
  auto built = ProgramBuilder::build(std::move(pipeline), draft);
  if (!built) throw std::invalid_argument(to_string(built.error()));
  return *std::move(built);
}

Program deferred_receives(bool directed) {
  const int down = 0;
  const int up = directed ? 1 : 0;
  ProgramDraft draft;
  draft.communicators = directed ? std::vector{communicator("0>1", {RankId(0), RankId(1)}),
                                               communicator("1>0", {RankId(0), RankId(1)})}
                                 : std::vector{communicator("world", {RankId(0), RankId(1)})};
  const auto send = [&](OpKind kind, int stage, int mb) {
    return one(make_transfer(kind, stage, mb, 1 - stage),
               (kind == send_forward || kind == recv_forward) ? down : up);
  };
  draft.rows.push_back({one(make_action(forward, 0, 0)), send(send_forward, 0, 0),
                        one(make_action(forward, 0, 1)), send(send_forward, 0, 1), send(recv_backward, 0, 0),
                        one(make_action(backward, 0, 0)), send(recv_backward, 0, 1),
                        one(make_action(backward, 0, 1))});
  draft.rows.push_back({send(recv_forward, 1, 0), one(make_action(forward, 1, 0)),
                        one(make_action(backward, 1, 0)), send(send_backward, 1, 0), send(recv_forward, 1, 1),
                        one(make_action(forward, 1, 1)), one(make_action(backward, 1, 1)),
                        send(send_backward, 1, 1)});
  return program(chain(2, 2, 2), std::move(draft));
}

Program two_rank_step() {
  ProgramDraft draft;
  draft.communicators = {communicator("0>1", {RankId(0), RankId(1)}),
                         communicator("1>0", {RankId(0), RankId(1)})};
  draft.rows.push_back({one(make_action(forward, 0, 0)), one(make_transfer(send_forward, 0, 0, 1), 0),
                        one(make_transfer(recv_backward, 0, 0, 1), 1), one(make_action(backward, 0, 0))});
  draft.rows.push_back({one(make_transfer(recv_forward, 1, 0, 0), 0), one(make_action(forward, 1, 0)),
                        one(make_action(backward, 1, 0)), one(make_transfer(send_backward, 1, 0, 0), 1)});
  return program(chain(2, 2, 1), std::move(draft));
}

}  // namespace ppsim::test
