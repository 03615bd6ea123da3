#include "support/small_scope.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "ppsim/core/lowering/communicators.hpp"
#include "support/dice.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

using enum OpKind;

/// One instruction: an action, or a group.
using Unit = std::vector<Action>;
using Row = std::vector<Unit>;

bool communicates(const Unit& unit) { return is_transfer(unit.front().kind); }

/// The actions that must precede an action in the list of its rank, in a chain of stages on different ranks.
std::vector<Action> needs(const Action& a, int stages) {
  const auto same = [&](OpKind kind) { return make_action(kind, a.subject, a.microbatch); };
  const auto from = [&](OpKind kind, int peer) { return make_transfer(kind, a.subject, a.microbatch, peer); };
  std::vector<Action> needed;
  if (a.kind == forward && a.subject > 0) needed.push_back(from(recv_forward, a.subject - 1));
  if (gives_input_gradient(a.kind)) {
    needed.push_back(same(forward));
    if (a.subject + 1 < stages) needed.push_back(from(recv_backward, a.subject + 1));
  }
  if (a.kind == backward_weight) needed.push_back(same(backward_input));
  if (a.kind == send_forward) needed.push_back(same(forward));
  if (a.kind == send_backward) needed = {same(backward), same(backward_input)};  // one of them
  return needed;
}

/// All that a stage does for one microbatch.
std::vector<Action> actions_of(int stage, int stages, int mb, bool split) {
  std::vector<Action> actions = {make_action(forward, stage, mb)};
  if (split) {
    actions.push_back(make_action(backward_input, stage, mb));
    actions.push_back(make_action(backward_weight, stage, mb));
  } else {
    actions.push_back(make_action(backward, stage, mb));
  }
  if (stage > 0) {
    actions.push_back(make_transfer(recv_forward, stage, mb, stage - 1));
    actions.push_back(make_transfer(send_backward, stage, mb, stage - 1));
  }
  if (stage + 1 < stages) {
    actions.push_back(make_transfer(send_forward, stage, mb, stage + 1));
    actions.push_back(make_transfer(recv_backward, stage, mb, stage + 1));
  }
  return actions;
}

/// Whether all that `unit` needs of `all` is in `placed`.
bool is_ready(const Unit& unit, const std::set<Action>& all, const std::set<Action>& placed, int stages) {
  return std::ranges::all_of(unit, [&](const Action& action) {
    return std::ranges::all_of(needs(action, stages),
                               [&](const Action& n) { return !all.contains(n) || placed.contains(n); });
  });
}

/// All orders of some actions in which each stands after what it needs of them.
void extend(std::vector<Action>& row, std::vector<Action>& rest, int stages,
            std::vector<std::vector<Action>>& out) {
  if (rest.empty()) out.push_back(row);
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const Action action = rest[i];
    const auto waits = needs(action, stages);
    if (std::ranges::any_of(rest, [&](const Action& r) { return std::ranges::count(waits, r) > 0; }))
      continue;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    row.push_back(action);
    extend(row, rest, stages, out);
    row.pop_back();
    rest.insert(rest.begin() + static_cast<std::ptrdiff_t>(i), action);
  }
}

std::vector<std::vector<Action>> orders(std::vector<Action> actions, int stages) {
  std::vector<std::vector<Action>> out;
  std::vector<Action> row;
  std::ranges::sort(actions);
  extend(row, actions, stages, out);
  return out;
}

/// Whether a transfer is on the queue of the edge from rank 0 to rank 1.
bool goes_down(const Action& a) { return a.kind == send_forward || a.kind == recv_forward; }

bool one_queue(const SmallScope& scope) {
  return scope.policy == CommunicatorPolicy::per_rank || scope.policy == CommunicatorPolicy::per_pair;
}

/// Of orders that differ only in neighbours on different queues, the one with those of edge 0 -> 1 first.
bool is_canonical(const std::vector<Action>& row) {
  return std::ranges::adjacent_find(row, [](const Action& a, const Action& b) {
           return is_transfer(a.kind) && is_transfer(b.kind) && !goes_down(a) && goes_down(b);
         }) == row.end();
}

/// A choice of one rank: an order of computation and one of communication, or of both.
struct Choice {
  std::vector<Action> compute;
  std::vector<Action> communication;
  std::vector<Action> both;

  [[nodiscard]] const std::vector<Action>& with_transfers() const {
    return both.empty() ? communication : both;
  }
};

std::vector<Choice> choices_of(const SmallScope& scope, int rank) {
  std::vector<Action> all;
  for (int mb = 0; mb < 2; ++mb)
    std::ranges::copy(actions_of(rank, 2, mb, scope.splits_backward), std::back_inserter(all));
  std::vector<Choice> choices;
  const bool commute = !one_queue(scope) && scope.grouping == Grouping::none;
  if (scope.posting == Posting::in_place) {
    for (auto& row : orders(all, 2)) {
      if (!commute || is_canonical(row)) choices.push_back({{}, {}, std::move(row)});
    }
    return choices;
  }
  const auto middle =
      std::ranges::stable_partition(all, [](const Action& a) { return !is_transfer(a.kind); });
  std::vector<Action> transfers(middle.begin(), middle.end());
  all.erase(middle.begin(), middle.end());
  std::ranges::sort(transfers);
  for (const auto& compute : orders(all, 2)) {
    do {
      if (!commute || is_canonical(transfers)) choices.push_back({compute, transfers, {}});
    } while (std::ranges::next_permutation(transfers).found);
  }
  return choices;
}

/// Makes groups of transfers that stand next to each other on both ranks.
void pair_up(Row& a, Row& b) {
  const auto at = [](const Row& row, const Action& action) {
    const auto found =
        std::ranges::find_if(row, [&](const Unit& u) { return u.size() == 1 && u[0] == action; });
    return found - row.begin();
  };
  for (std::size_t i = 0; i + 1 < a.size(); ++i) {
    if (!communicates(a[i]) || !communicates(a[i + 1])) continue;
    const auto first = at(b, counterpart(a[i].front(), RankId(0)));
    const auto second = at(b, counterpart(a[i + 1].front(), RankId(0)));
    const auto end = static_cast<std::ptrdiff_t>(b.size());
    if (first == end || second == end || std::abs(first - second) != 1) continue;
    const auto join = [](Row& row, std::ptrdiff_t k) {
      row[static_cast<std::size_t>(k)].push_back(row[static_cast<std::size_t>(k) + 1].front());
      row.erase(row.begin() + k + 1);
    };
    join(a, static_cast<std::ptrdiff_t>(i));
    join(b, std::min(first, second));
  }
}

Row units(const std::vector<Action>& actions) {
  Row row;
  for (const Action& action : actions) row.push_back({action});
  return row;
}

/// One list of a rank with these orders on its queues, communication as early as it can stand. Where no list
/// has all before what needs it, the rest follows as it comes.
Row merge_queues(std::vector<Row> queues) {
  std::set<Action> all;
  for (const Row& queue : queues) {
    for (const Unit& unit : queue) all.insert(unit.begin(), unit.end());
  }
  Row row;
  std::set<Action> placed;
  for (bool strict = true; placed.size() < all.size();) {
    const auto next = std::ranges::find_if(queues, [&](const Row& queue) {
      return !queue.empty() && (!strict || is_ready(queue.front(), all, placed, 2));
    });
    if (next == queues.end()) {
      strict = false;
      continue;
    }
    placed.insert(next->front().begin(), next->front().end());
    row.push_back(next->front());
    next->erase(next->begin());
  }
  return row;
}

/// Communication first, by queue, then computation.
std::vector<Row> queues_of(const SmallScope& scope, const Row& communication, const Row& compute) {
  if (one_queue(scope)) return {communication, compute};
  Row down;
  Row up;
  for (const Unit& unit : communication) {
    // A group of both directions keeps the order between the two queues.
    if (unit.size() > 1) return {communication, compute};
    (goes_down(unit.front()) ? down : up).push_back(unit);
  }
  return {down, up, compute};
}

ProgramDraft draft_of(const std::vector<Row>& rows, Posting posting) {
  ProgramDraft draft;
  draft.communicators.push_back({"world", {}, -1});
  for (std::size_t r = 0; r < rows.size(); ++r) {
    draft.communicators[0].members.emplace_back(static_cast<std::int32_t>(r));
    std::vector<InstructionDraft> row;
    int computed = -1;
    for (const Unit& unit : rows[r]) {
      InstructionDraft draft_of_unit;
      draft_of_unit.actions = unit;
      draft_of_unit.communicators.assign(unit.size(), CommunicatorId(communicates(unit) ? 0 : -1));
      if (unit.size() > 1) draft_of_unit.form = InstructionForm::group;
      if (!communicates(unit)) {
        computed = static_cast<int>(row.size());
      } else if (posting == Posting::in_place && computed >= 0) {
        draft_of_unit.after = {computed};
      }
      row.push_back(std::move(draft_of_unit));
    }
    draft.rows.push_back(std::move(row));
  }
  return draft;
}

/// The communicators of a policy for the actions of all Programs of one pipeline.
class Communicators {
 public:
  Communicators(const Pipeline& pipeline, const ProgramDraft& any, CommunicatorPolicy policy) {
    const Program converted = *with_communicators(*ProgramBuilder::build(pipeline, any), policy);
    communicators_ = converted.communicators();
    for (std::size_t i = 0; i < converted.size(); ++i) {
      const InstructionId id(static_cast<std::int32_t>(i));
      for (std::size_t a = 0; a < converted.actions(id).size(); ++a)
        of_[converted.actions(id)[a]] = converted.communicators_of(id)[a];
    }
  }
  void apply(ProgramDraft& draft) const {
    draft.communicators = communicators_;
    for (auto& row : draft.rows) {
      for (InstructionDraft& item : row) {
        for (std::size_t a = 0; a < item.actions.size(); ++a) item.communicators[a] = of_.at(item.actions[a]);
      }
    }
  }

 private:
  std::vector<Communicator> communicators_;
  std::map<Action, CommunicatorId> of_;
};

std::vector<Row> rows_of(const SmallScope& scope, const Choice& first, const Choice& second) {
  std::vector<Row> rows;
  if (scope.posting == Posting::in_place) {
    rows = {units(first.both), units(second.both)};
    if (scope.grouping == Grouping::paired) pair_up(rows[0], rows[1]);
    return rows;
  }
  Row a = units(first.communication);
  Row b = units(second.communication);
  if (scope.grouping == Grouping::paired) pair_up(a, b);
  rows.push_back(merge_queues(queues_of(scope, a, units(first.compute))));
  rows.push_back(merge_queues(queues_of(scope, b, units(second.compute))));
  return rows;
}

/// Whether `pair_up` would make a group of these.
bool has_pair(const std::vector<Action>& a, const std::vector<Action>& b) {
  return std::ranges::adjacent_find(a, [&](const Action& first, const Action& second) {
           if (!is_transfer(first.kind) || !is_transfer(second.kind)) return false;
           const auto one = std::ranges::find(b, counterpart(first, RankId(0)));
           const auto other = std::ranges::find(b, counterpart(second, RankId(0)));
           return one != b.end() && other != b.end() && std::abs(one - other) == 1;
         }) != a.end();
}

/// Exchanging the microbatches makes the first F of rank 0 one of the first microbatch.
bool is_renamed(const Choice& choice) {
  const auto& row = choice.both.empty() ? choice.compute : choice.both;
  return std::ranges::find(row, forward, &Action::kind)->microbatch == 1;
}

/// One random order of everything, both ends of a transfer at once, dealt to the ranks.
std::vector<Row> deal(const Pipeline& pipeline, bool split, Dice& dice) {
  std::vector<Action> rest;
  for (int s = 0; s < pipeline.stages(); ++s) {
    for (int mb = 0; mb < pipeline.microbatches(); ++mb)
      std::ranges::copy(actions_of(s, pipeline.stages(), mb, split), std::back_inserter(rest));
  }
  std::vector<Row> rows(static_cast<std::size_t>(pipeline.ranks()));
  const auto place = [&](const Action& action) {
    rows[pipeline.rank_of(action.stage()).index()].push_back({action});
    std::erase(rest, action);
  };
  while (!rest.empty()) {
    const Action action = rest[dice.index(rest.size())];
    const std::vector<Action> waits = needs(action, pipeline.stages());
    const bool waiting =
        std::ranges::any_of(rest, [&](const Action& r) { return std::ranges::count(waits, r) > 0; });
    if (waiting || is_receive(action.kind)) continue;
    place(action);
    if (is_send(action.kind)) place(counterpart(action, pipeline.rank_of(action.stage())));
  }
  return rows;
}

/// Exchanges neighbours of one list.
void disturb(std::vector<Row>& rows, Dice& dice) {
  Row& row = rows[dice.index(rows.size())];
  const auto at = dice.index(row.size() - 1);
  std::swap(row[at], row[at + 1]);
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const SmallScope& scope) {
  return out << (scope.splits_backward ? "F,I,W " : "F,B ")
             << (scope.posting == Posting::ahead ? "ahead " : "in place ") << policy_name(scope.policy)
             << (scope.grouping == Grouping::paired ? " paired" : "");
}

std::size_t for_each_small_program(const SmallScope& scope, std::size_t stride,
                                   const std::function<void(const Program&)>& visit) {
  const Pipeline pipeline = chain(2, 2, 2);
  const std::vector<Choice> first = choices_of(scope, 0);
  const std::vector<Choice> second = choices_of(scope, 1);
  const Communicators communicators(
      pipeline, draft_of(rows_of(scope, first.front(), second.front()), scope.posting), scope.policy);
  std::size_t number = 0;
  for (const Choice& a : first) {
    if (is_renamed(a)) continue;
    for (const Choice& b : second) {
      if (scope.grouping == Grouping::paired && !has_pair(a.with_transfers(), b.with_transfers())) continue;
      if (number++ % stride != 0) continue;
      ProgramDraft draft = draft_of(rows_of(scope, a, b), scope.posting);
      communicators.apply(draft);
      visit(program(pipeline, std::move(draft)));
    }
  }
  return number;
}

Program random_small_program(int chunks, std::uint64_t seed) {
  Dice dice(seed);
  const Pipeline pipeline = chain(3, 3 * (1 + dice.below(chunks)), 2 + dice.below(2));
  std::vector<Row> rows = deal(pipeline, dice.one_in(2), dice);
  for (int times = dice.below(6); times > 0; --times) disturb(rows, dice);
  if (dice.one_in(3)) {
    for (const auto& [a, b] : {std::pair(0U, 1U), std::pair(1U, 2U), std::pair(0U, 2U)})
      pair_up(rows[a], rows[b]);
  }
  const ProgramDraft draft = draft_of(rows, dice.one_in(2) ? Posting::ahead : Posting::in_place);
  constexpr CommunicatorPolicy kPolicies[] = {CommunicatorPolicy::per_rank, CommunicatorPolicy::per_pair,
                                              CommunicatorPolicy::per_edge,
                                              CommunicatorPolicy::per_stage_edge};
  return *with_communicators(program(pipeline, draft), kPolicies[dice.below(4)]);
}

}  // namespace ppsim::test
