#include <algorithm>
#include <map>

#include "io/torch/waits.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/lowering/communicators.hpp"
#include "ppsim/planner/targets.hpp"

namespace ppsim::planner {
namespace {

/// One instruction of one rank that is no transfer, in the order in which all of them run.
struct Item {
  RankId rank;
  int position;  ///< in the row of the Program
};

/// Both ends of a message.
struct DeferredTransfer {
  InstructionId send;
  InstructionId recv;
  std::size_t after = 0;   ///< it follows this many items
  std::size_t needed = 0;  ///< and its consumer is this item
};

CostTable usual_costs() { return unit_cost_table({.F = 1, .B = 2, .I = 1, .W = 1, .R = 1, .FB = 3, .c = 0}); }

/// True of an action that makes the tensor that a SEND takes, or that uses the one that a RECV brings.
bool is_for(const Action& message, const Action& action) {
  if (action.subject != message.subject || action.microbatch != message.microbatch) return false;
  const bool forward = message.kind == OpKind::send_forward || message.kind == OpKind::recv_forward;
  return forward ? action.kind == OpKind::forward : gives_input_gradient(action.kind);
}

/// Runs the Program, each rank in its order, the instruction that can start first at each moment, and takes
/// down in which order everything but the transfers starts.
class Run {
 public:
  Run(const Program& program, const CostTable& costs)
      : program_(program), costs_(costs), ranks_(program.pipeline().ranks()) {
    for (int r = 0; r < ranks_; ++r) next_.push_back(program.first(RankId(r)));
    free_at_.resize(as_size(ranks_), 0);
  }

  /// Errors: bad_argument where a message lacks an end or the order of all ranks is none.
  Expected<void> go() {
    for (;;) {
      while (pass_messages()) {
      }
      const int rank = first_to_start();
      if (rank < 0) break;
      compute(RankId(rank));
    }
    for (int r = 0; r < ranks_; ++r) {
      if (next_[as_size(r)] != program_.last(RankId(r)))
        return make_error(ErrorCode::bad_argument,
                          "transfers can be deferred in a Program of timed or global order only");
    }
    return {};
  }

  [[nodiscard]] const std::vector<Item>& items() const { return items_; }
  [[nodiscard]] std::vector<DeferredTransfer>& transfers() { return transfers_; }

 private:
  [[nodiscard]] bool at_end(RankId rank) const { return next_[rank.index()] == program_.last(rank); }
  [[nodiscard]] const Action& head(RankId rank) const {
    return program_.actions(next_[rank.index()]).front();
  }
  void advance(RankId rank) { next_[rank.index()] = InstructionId(next_[rank.index()].value() + 1); }

  /// Every message of which both ends are the next instruction of their rank.
  bool pass_messages() {
    bool passed = false;
    for (int r = 0; r < ranks_; ++r) {
      const RankId rank(r);
      if (at_end(rank) || !is_send(head(rank).kind)) continue;
      const Action send = head(rank);
      const RankId peer = peer_rank(program_.pipeline(), send);
      if (at_end(peer) || !is_receive(head(peer).kind) || !is_pair(send, head(peer))) continue;
      free_at_[peer.index()] =
          std::max(free_at_[peer.index()], free_at_[rank.index()] + costs_(cost_class_of(send)));
      transfers_.push_back({next_[rank.index()], next_[peer.index()]});
      advance(rank);
      advance(peer);
      passed = true;
    }
    return passed;
  }

  static bool is_pair(const Action& send, const Action& recv) {
    return (send.kind == OpKind::send_forward) == (recv.kind == OpKind::recv_forward) &&
           send.subject == recv.peer && send.peer == recv.subject && send.microbatch == recv.microbatch;
  }

  [[nodiscard]] int first_to_start() const {
    int first = -1;
    for (int r = 0; r < ranks_; ++r) {
      if (at_end(RankId(r)) || is_transfer(head(RankId(r)).kind)) continue;
      if (first < 0 || free_at_[as_size(r)] < free_at_[as_size(first)]) first = r;
    }
    return first;
  }

  void compute(RankId rank) {
    const InstructionId id = next_[rank.index()];
    items_.push_back({rank, program_.position(id)});
    free_at_[rank.index()] += costs_(cost_class_of(program_.actions(id), program_.instruction(id).form));
    advance(rank);
  }

  const Program& program_;
  const CostTable& costs_;
  int ranks_;
  std::vector<InstructionId> next_;
  std::vector<Nanoseconds> free_at_;
  std::vector<Item> items_;
  std::vector<DeferredTransfer> transfers_;
};

/// The items of one rank, by their numbers in the order of all, ascending.
using RankItems = IdVector<RankId, std::vector<std::size_t>>;

class Places {
 public:
  Places(const Program& program, const std::vector<Item>& items, int early)
      : program_(program), items_(items), early_(early), of_rank_(of_ranks(program, items)) {}

  /// Where a transfer goes: before the consumer, as many computations sooner as was asked for, and behind
  /// what makes its tensor.
  void place(DeferredTransfer& transfer) const {
    const Action& send = program_.actions(transfer.send).front();
    const Action& recv = program_.actions(transfer.recv).front();
    const std::size_t made = find(program_.rank_of(transfer.send), send);
    const RankId receiver = program_.rank_of(transfer.recv);
    transfer.needed = find(receiver, recv);
    transfer.after = std::max(made + 1, sooner(receiver, transfer.needed));
  }

  /// The first item of the rank at or behind this number of items.
  [[nodiscard]] std::size_t next_of(RankId rank, std::size_t item) const {
    const std::vector<std::size_t>& own = of_rank_[rank];
    const auto found = std::ranges::lower_bound(own, item);
    return found == own.end() ? items_.size() : *found;
  }

 private:
  static RankItems of_ranks(const Program& program, const std::vector<Item>& items) {
    RankItems result(as_size(program.pipeline().ranks()));
    for (std::size_t i = 0; i < items.size(); ++i) result[items[i].rank].push_back(i);
    return result;
  }

  [[nodiscard]] InstructionId id_of(const Item& item) const {
    return InstructionId(program_.first(item.rank).value() + item.position);
  }

  [[nodiscard]] std::size_t find(RankId rank, const Action& message) const {
    for (const std::size_t item : of_rank_[rank]) {
      for (const Action& action : program_.actions(id_of(items_[item]))) {
        if (is_for(message, action)) return item;
      }
    }
    PPSIM_CHECK(false, "a message that is made and used by computations");
    return 0;
  }

  /// The item of the rank that stands `early_` computations before another one.
  [[nodiscard]] std::size_t sooner(RankId rank, std::size_t item) const {
    const std::vector<std::size_t>& own = of_rank_[rank];
    auto place = std::ranges::lower_bound(own, item);
    for (int left = early_; left > 0 && place != own.begin(); --left) --place;
    return *place;
  }

  const Program& program_;
  const std::vector<Item>& items_;
  int early_;
  RankItems of_rank_;
};

/// Rows that are the restrictions of one order of items and transfers.
class Rows {
 public:
  Rows(const Program& program, const std::vector<Item>& items)
      : program_(program), old_(to_draft(program)), draft_{{}, {}}, items_(items) {
    for (int r = 0; r < program.pipeline().ranks(); ++r) {
      draft_.rows.push_back({});
      waits_.push_back({});
      place_of_item_.push_back({});
    }
  }

  void fill(const std::vector<DeferredTransfer>& transfers) {
    auto transfer = transfers.begin();
    for (std::size_t i = 0; i <= items_.size(); ++i) {
      for (; transfer != transfers.end() && transfer->after == i; ++transfer) {
        place_of_send_[transfer->send] = add(transfer->send);
        add(transfer->recv);
      }
      if (i == items_.size()) break;
      place_of_item_[items_[i].rank][i] =
          add(InstructionId(program_.first(items_[i].rank).value() + items_[i].position));
    }
  }

  /// A rank has one reduction in flight.
  void wait_for_reductions() {
    for (const RankId rank : program_.pipeline().rank_ids()) {
      const std::vector<InstructionDraft>& row = draft_.rows[rank];
      for (int i = 0; i < static_cast<int>(row.size()); ++i) {
        if (row[as_size(i)].actions.front().kind == OpKind::reduce_grad) waits_[rank].push_back({i, i + 1});
      }
    }
  }

  /// A rank waits for what it sent before its first item behind that of the receiver.
  void wait_for_sends(const std::vector<DeferredTransfer>& transfers, const Places& places) {
    for (const DeferredTransfer& transfer : transfers) {
      const RankId rank = program_.rank_of(transfer.send);
      const std::size_t item = places.next_of(rank, transfer.needed);
      const auto place = place_of_item_[rank].find(item);
      if (place != place_of_item_[rank].end())
        waits_[rank].push_back({place_of_send_[transfer.send], place->second});
    }
  }

  Expected<Program> build(CommunicatorPolicy policy) {
    assign_communicators(program_.pipeline(), draft_, policy);
    for (const RankId rank : program_.pipeline().rank_ids()) {
      std::vector<TorchWait>& waits = waits_[rank];
      std::ranges::sort(waits, {}, [](const TorchWait& wait) { return std::pair(wait.before, wait.what); });
      add_waits(draft_.rows[rank], waits);
    }
    return ProgramBuilder::build(program_.pipeline(), draft_);
  }

 private:
  int add(InstructionId id) {
    const RankId rank = program_.rank_of(id);
    std::vector<InstructionDraft>& row = draft_.rows[rank];
    row.push_back(old_.rows[rank][as_size(program_.position(id))]);
    return static_cast<int>(row.size()) - 1;
  }

  const Program& program_;
  ProgramDraft old_;
  ProgramDraft draft_;
  const std::vector<Item>& items_;
  IdVector<RankId, std::vector<TorchWait>> waits_;
  IdVector<RankId, std::map<std::size_t, int>> place_of_item_;
  std::map<InstructionId, int> place_of_send_;
};

Expected<void> check_plain(const Program& program) {
  for (const InstructionId id : program.ids()) {
    const Instruction item = program.instruction(id);
    const bool lends = names_peer_rank(program.actions(id).front().kind);
    if (!lends && item.after_count == 0 && item.form != InstructionForm::group) continue;
    return make_error(
        ErrorCode::bad_argument,
        "transfers can be deferred where there are no groups, no `after` and no lent activations");
  }
  return {};
}

}  // namespace

Expected<Program> defer_transfers(const Program& program, const Deferral& deferral, const CostTable* costs) {
  PPSIM_RETURN_IF_ERROR(check_plain(program));
  const CostTable usual = usual_costs();
  Run run(program, costs != nullptr ? *costs : usual);
  PPSIM_RETURN_IF_ERROR(run.go());
  const Places places(program, run.items(), deferral.early);
  std::vector<DeferredTransfer>& transfers = run.transfers();
  for (DeferredTransfer& transfer : transfers) places.place(transfer);
  std::ranges::stable_sort(transfers, {},
                           [](const DeferredTransfer& t) { return std::pair(t.after, t.needed); });
  Rows rows(program, run.items());
  rows.fill(transfers);
  if (deferral.waits) {
    rows.wait_for_sends(transfers, places);
    rows.wait_for_reductions();
  }
  return rows.build(deferral.communicators);
}

}  // namespace ppsim::planner
