#include "support/mutants.hpp"

#include <algorithm>
#include <array>

#include "ppsim/core/ir/check.hpp"
#include "support/surgery.hpp"

namespace ppsim::test {
namespace {

using enum OpKind;

constexpr auto kNames = std::to_array<std::string_view>(
    {"drop computation", "drop send",          "drop receive",    "drop participant", "drop copy",
     "drop unshard",     "double computation", "double transfer", "swap computation", "swap sends",
     "swap receives",    "move receive",       "late receive",    "swap collectives", "swap weights",
     "early update",     "wrong update",       "early reader",    "other channel",    "split group",
     "split pair",       "block host",         "wait for later",  "wrong rank",       "wrong microbatch"});
static_assert(kNames.size() == kBreakageCount);

bool computes(const Action& a) {
  return a.kind == forward || gives_input_gradient(a.kind) || a.kind == backward_weight;
}
bool is_shared(const Action& a) { return a.kind == collective || a.kind == reduce_grad; }

/// Breaks one rule. Each way returns whether the Program has a place for it.
class Breaking final : public Surgery {
 public:
  using Surgery::Surgery;
  bool apply(Breakage breakage);

 private:
  /// Where what a RECV brings is read first.
  std::size_t user_of(At receive) {
    const Row& row = rows_[receive.rank];
    const Action& recv = action(receive);
    for (std::size_t i = receive.position + 1; i < row.size(); ++i) {
      for (const Action& a : row[i].draft.actions) {
        const bool reads = recv.kind == recv_forward ? a.kind == forward : gives_input_gradient(a.kind);
        if (reads && a.subject == recv.subject && a.microbatch == recv.microbatch && a.slice == recv.slice)
          return i;
      }
    }
    return row.size() - 1;
  }

  bool move_receive(bool behind_user) {
    const auto place =
        find_single([](const Action& a) { return a.kind == recv_forward || a.kind == recv_backward; });
    if (!place) return false;
    const std::size_t user = user_of(*place);
    return move(place, behind_user ? user : dice_.index(user));
  }

  bool channel_pair(bool sends) {
    return swap(find_pair([&](const Item& a, const Item& b) {
      const Action& x = a.draft.actions.front();
      const Action& y = b.draft.actions.front();
      return (sends ? is_send(x.kind) && is_send(y.kind) : is_receive(x.kind) && is_receive(y.kind)) &&
             a.draft.communicators == b.draft.communicators &&
             peer_rank(pipeline_, x) == peer_rank(pipeline_, y);
    }));
  }

  bool swap_computes() {
    return swap(find_pair([](const Item& a, const Item& b) {
      const Action& x = a.draft.actions.front();
      const Action& y = b.draft.actions.front();
      if (x.subject != y.subject || x.microbatch != y.microbatch || x.slice != y.slice) return false;
      return (x.kind == forward && gives_input_gradient(y.kind)) ||
             (x.kind == backward_input && y.kind == backward_weight);
    }));
  }

  bool swap_collectives() {
    return swap(find_pair([](const Item& a, const Item& b) {
      return is_shared(a.draft.actions.front()) && is_shared(b.draft.actions.front()) &&
             a.draft.actions != b.draft.actions;
    }));
  }

  bool swap_weights() {
    return swap(find_pair([this](const Item& a, const Item& b) {
      const Action& x = a.draft.actions.front();
      const Action& y = b.draft.actions.front();
      if (x.kind != backward_weight || y.kind != backward_weight || x.subject != y.subject) return false;
      if (x.microbatch >= y.microbatch || pipeline_.spec().update[x.mb()] != pipeline_.spec().update[y.mb()])
        return false;
      Action input = y;
      input.kind = backward_input;
      const Row& row = rows_[pipeline_.rank_of(x.stage()).index()];
      const auto stands = [&](const Action& action) {
        return std::ranges::find_if(
            row, [&](const Item& i) { return std::ranges::count(i.draft.actions, action) > 0; });
      };
      return stands(input) < stands(x);
    }));
  }

  bool early_update() {
    const auto pair = find_pair([this](const Item& a, const Item& b) {
      const Action& x = a.draft.actions.front();
      const Action& y = b.draft.actions.front();
      return y.kind == optimizer && gives_weight_gradient(x.kind) && owns(x, y.block()) &&
             pipeline_.spec().update[x.mb()] == y.update();
    });
    return pair && move(pair->second, pair->first.position);
  }

  bool early_reader() {
    const auto pair = find_pair([this](const Item& a, const Item& b) {
      const Action& x = a.draft.actions.front();
      const Action& y = b.draft.actions.front();
      return x.kind == optimizer && y.kind == forward && owns(y, x.block()) &&
             pipeline_.version(y.stage(), y.mb()) == x.update() + 1;
    });
    return pair && move(pair->second, pair->first.position);
  }

  bool owns(const Action& compute, BlockId block) const {
    return std::ranges::count(pipeline_.blocks_of(compute.stage()), block) > 0;
  }

  bool wrong_update() {
    const auto place = find_single([](const Action& a) { return a.kind == optimizer; });
    if (!place || pipeline_.updates() < 2) return false;
    note(at(*place));
    Action& update = at(*place).draft.actions.front();
    update.microbatch = (update.microbatch + 1) % pipeline_.updates();
    actions_.push_back(update);
    return true;
  }

  bool other_channel() {
    const auto place = find_single([](const Action& a) { return is_transfer(a.kind); });
    if (!place) return false;
    note(at(*place));
    CommunicatorId& id = at(*place).draft.communicators.front();
    Communicator other = draft_.communicators[id.index()];
    other.name += "'";
    other.queue = -1;
    std::vector<CommunicatorId> choices{
        CommunicatorId(static_cast<std::int32_t>(draft_.communicators.size()))};
    for (std::size_t c = 0; c < draft_.communicators.size(); ++c) {
      if (c != id.index() && draft_.communicators[c].members == other.members)
        choices.emplace_back(static_cast<std::int32_t>(c));
    }
    draft_.communicators.push_back(std::move(other));
    id = *one_of(choices);
    return true;
  }

  bool split_group(bool both) {
    const auto place = find(
        [](const Item& i) { return i.draft.form == InstructionForm::group && i.draft.actions.size() == 2; });
    if (!place) return false;
    const std::vector<Action> members = at(*place).draft.actions;
    const RankId own(static_cast<std::int32_t>(place->rank));
    const std::size_t sends = is_send(members[0].kind) ? 0 : 1;
    const auto peer = peer_rank(pipeline_, members[0]).index();
    split(*place, both ? sends : dice_.index(2));
    if (!both) return true;
    Row& row = rows_[peer];
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto found = std::ranges::find(row[i].draft.actions, counterpart(members[1 - sends], own));
      if (found == row[i].draft.actions.end() || row[i].draft.form != InstructionForm::group) continue;
      split({peer, i}, static_cast<std::size_t>(found - row[i].draft.actions.begin()));
      return true;
    }
    return false;
  }

  bool block_host() {
    const auto place = find_single([](const Action& a) { return is_receive(a.kind); });
    if (!place) return false;
    at(*place).draft.blocking = true;
    return move(place, dice_.index(place->position + 1));
  }

  bool wait_for_later() {
    const auto pair = find_pair([](const Item&, const Item&) { return true; });
    if (!pair) return false;
    note(at(pair->first));
    note(at(pair->second));
    at(pair->first).draft.after.push_back(at(pair->second).name);
    return true;
  }

  bool wrong_rank() {
    const auto place = find_single(computes);
    if (!place || rows_.size() < 2) return false;
    Item item = at(*place);
    item.name = next_name_++;
    item.draft.after.clear();
    const std::size_t other = (place->rank + 1 + dice_.index(rows_.size() - 1)) % rows_.size();
    drop(place);
    note(item);
    Row& row = rows_[other];
    row.insert(row.begin() + static_cast<std::ptrdiff_t>(dice_.index(row.size() + 1)), std::move(item));
    return true;
  }

  bool wrong_microbatch() {
    const auto place = find_single([](const Action& a) { return is_transfer(a.kind); });
    if (!place || pipeline_.microbatches() < 2) return false;
    note(at(*place));
    Action& transfer = at(*place).draft.actions.front();
    transfer.microbatch = (transfer.microbatch + 1) % pipeline_.microbatches();
    note_action(at(*place).name, transfer);
    return true;
  }
};

bool Breaking::apply(Breakage breakage) {
  switch (breakage) {
    case Breakage::drop_compute:
      return drop(find_single(computes));
    case Breakage::drop_send:
      return drop(find_single([](const Action& a) { return is_send(a.kind); }));
    case Breakage::drop_receive:
      return drop(find_single([](const Action& a) { return is_receive(a.kind); }));
    case Breakage::drop_participant:
      return drop(find([this](const Item& i) {
        return is_shared(i.draft.actions.front()) &&
               draft_.communicators[i.draft.communicators.front().index()].members.size() > 1;
      }));
    case Breakage::drop_copy:
      return drop(find_single([](const Action& a) { return a.kind == offload || a.kind == reload; }));
    case Breakage::drop_unshard:
      return drop(find_single([](const Action& a) { return a.kind == unshard; }));
    case Breakage::double_compute:
      return twice(find_single(computes));
    case Breakage::double_transfer:
      return twice(find_single([](const Action& a) { return is_transfer(a.kind); }));
    case Breakage::swap_computes:
      return swap_computes();
    case Breakage::swap_sends:
      return channel_pair(true);
    case Breakage::swap_receives:
      return channel_pair(false);
    case Breakage::move_receive:
      return move_receive(false);
    case Breakage::late_receive:
      return move_receive(true);
    case Breakage::swap_collectives:
      return swap_collectives();
    case Breakage::swap_weights:
      return swap_weights();
    case Breakage::early_update:
      return early_update();
    case Breakage::wrong_update:
      return wrong_update();
    case Breakage::early_reader:
      return early_reader();
    case Breakage::other_channel:
      return other_channel();
    case Breakage::split_group:
      return split_group(false);
    case Breakage::split_pair:
      return split_group(true);
    case Breakage::block_host:
      return block_host();
    case Breakage::wait_for_later:
      return wait_for_later();
    case Breakage::wrong_rank:
      return wrong_rank();
    case Breakage::wrong_microbatch:
      return wrong_microbatch();
  }
  PPSIM_CHECK(false, "unknown breakage");
}

}  // namespace

std::string_view breakage_name(Breakage breakage) { return kNames[static_cast<std::size_t>(breakage)]; }

std::optional<Mutant> break_one_rule(const Program& program, Breakage breakage, std::uint64_t seed) {
  Breaking surgery(program, seed);
  if (!surgery.apply(breakage)) return std::nullopt;
  return surgery.finish();
}

}  // namespace ppsim::test
