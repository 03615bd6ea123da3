#include "arrivals.hpp"

#include <algorithm>

#include "ppsim/core/ir/check.hpp"

namespace ppsim::lowering {
namespace {

/// Numbers of the (stage, microbatch, slice) of one rank.
class LocalCells {
 public:
  LocalCells(const Pipeline& pipeline, RankId rank)
      : pipeline_(pipeline), first_(as_size(pipeline.stages()), 0) {
    for (const StageId stage : pipeline.stages_of(rank)) {
      first_[stage.index()] = count_;
      count_ += as_size(pipeline.microbatches()) * as_size(pipeline.slices());
    }
  }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t of(const Action& a) const {
    return first_[a.stage().index()] + a.mb().index() * as_size(pipeline_.slices()) + a.slice;
  }

 private:
  const Pipeline& pipeline_;
  std::vector<std::size_t> first_;
  std::size_t count_ = 0;
};

bool uses_stage(const Action& action) { return computes_stage(action.kind); }

/// The F that read what a RECV_F brings: of its stage, and of the other stages for which it comes along.
std::vector<Action> readers_of(const Pipeline& pipeline, const Action& receive) {
  Action own = make_action(OpKind::forward, receive.subject, receive.microbatch, receive.slice);
  std::vector<Action> readers = {own};
  const auto side = pipeline.side_producers(receive.stage(), receive.mb());
  if (std::ranges::count(side, receive.peer_stage()) > 0) return readers;
  for (const StageId other : pipeline.consumers(receive.peer_stage(), receive.mb())) {
    if (other == receive.stage() || pipeline.rank_of(other) != pipeline.rank_of(receive.stage())) continue;
    if (pipeline.receiver(receive.peer_stage(), other, receive.mb()) != receive.stage()) continue;
    own.subject = other.value();
    readers.push_back(own);
  }
  return readers;
}

/// Fills the first users of UNSHARD: what computes on the stage next.
void add_users_of_unshard(const Pipeline& pipeline, const LineRow& row, std::vector<std::int32_t>& users) {
  std::vector<std::int32_t> next(as_size(pipeline.stages()), kNobody);
  for (std::size_t i = row.size(); i-- > 0;) {
    const Line line = row.line(i);
    if (line.action.kind == OpKind::unshard) users[i] = next[line.action.stage().index()];
    row.for_each_action(line, [&](const Action& a) {
      if (uses_stage(a)) next[a.stage().index()] = static_cast<std::int32_t>(i);
    });
  }
}

}  // namespace

bool is_arrival(const Line& line) {
  const OpKind kind = line.action.kind;
  return kind == OpKind::recv_forward || kind == OpKind::recv_backward || kind == OpKind::load ||
         kind == OpKind::reload || kind == OpKind::unshard;
}

std::vector<std::int32_t> first_users(const Pipeline& pipeline, RankId rank, const LineRow& row) {
  const LocalCells cells(pipeline, rank);
  std::vector<std::int32_t> forward(cells.count(), kNobody);
  std::vector<std::int32_t> backward(cells.count(), kNobody);
  for (std::size_t i = 0; i < row.size(); ++i) {
    row.for_each_action(row.line(i), [&](const Action& a) {
      if (a.kind == OpKind::forward) forward[cells.of(a)] = static_cast<std::int32_t>(i);
      if (gives_input_gradient(a.kind)) backward[cells.of(a)] = static_cast<std::int32_t>(i);
    });
  }
  std::vector<std::int32_t> users(row.size(), kNobody);
  for (std::size_t i = 0; i < row.size(); ++i) {
    const Action& a = row.action(i);
    if (a.kind == OpKind::load) users[i] = forward[cells.of(a)];
    if (a.kind == OpKind::recv_forward) {
      for (const Action& reader : readers_of(pipeline, a)) {
        const std::int32_t user = forward[cells.of(reader)];
        if (users[i] == kNobody || user < users[i]) users[i] = user;
      }
    }
    if (a.kind == OpKind::recv_backward || a.kind == OpKind::reload) users[i] = backward[cells.of(a)];
  }
  add_users_of_unshard(pipeline, row, users);
  return users;
}

Stream stream_of(const Pipeline& pipeline, CommunicatorPolicy policy, const Line& line) {
  const Action& a = line.action;
  PPSIM_CHECK(is_arrival(line), "only arrivals form streams");
  if (!is_transfer(a.kind)) return {a.kind, kNobody, kNobody};
  if (policy == CommunicatorPolicy::per_stage_edge) return {OpKind::recv_forward, a.peer, a.subject};
  return {OpKind::recv_forward, pipeline.rank_of(a.peer_stage()).value(), kNobody};
}

}  // namespace ppsim::lowering
