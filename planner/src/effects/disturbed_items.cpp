#include "disturbed_items.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "ppsim/core/ir/overflow.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "ppsim/core/text/as_text.hpp"

namespace ppsim::planner {
namespace {

constexpr std::int32_t kFixed = -1;  // the source of an item that nothing varies

/// A computation is its instruction's item; a message and a collective have one for all ends.
std::vector<std::uint32_t> items_of_actions(const CompiledProgram& compiled,
                                            const AnalyzedProgram& analyzed) {
  const Program& program = analyzed.program();
  const ExecutionGraph& graph = analyzed.timed_graph();
  std::vector<std::uint32_t> item_of(program.all_actions().size(), 0);
  for (const InstructionId id : program.ids()) {
    if (graph.match_of[id.index()] < 0 && graph.messages_of(id).empty())
      item_of[program.instruction(id).first_action] = compiled.end_item[id.index()];
  }
  auto flow = compiled.flow_items.begin();
  for (const Message& message : graph.messages) {
    item_of[message.send_action] = item_of[message.receive_action] = *flow;
    ++flow;
  }
  for (const CollectiveMatch& match : graph.matches) {
    for (const InstructionId member : graph.members_of(match))
      item_of[program.instruction(member).first_action] = *flow;
    ++flow;
  }
  return item_of;
}

/// Writes which source the items of a group vary by. Of several groups that an item is in the last one
/// counts.
Expected<void> add_varying(const VaryingCosts& varying, DisturbedItems& made,
                           std::vector<std::int32_t>& source_of) {
  bool any = false;
  made.sources.push_back({FactorTable(varying.spread), varying.spread.correlation});
  for (std::size_t i = 0; i < source_of.size(); ++i) {
    const bool takes_time = made.priced.program.items[i].duration >= CompiledProgram::kFirstBound;
    const bool in = varying.group ? made.priced.is_in(*varying.group, i) : takes_time;
    if (in) source_of[i] = static_cast<std::int32_t>(made.sources.size()) - 1;
    any = any || in;
  }
  if (any || !varying.group) return {};
  return make_error(
      ErrorCode::bad_argument, "nothing of this cost group is in the Program",
      {.found = as_text(*varying.group), .expected = "a kind, rank, stage, link or class that it has"});
}

Expected<void> add_slow_rank(const SlowRank& slow, DisturbedItems& made) {
  if (!slow.rank.valid() || slow.rank.index() >= made.slow_ranks.size()) {
    return make_error(ErrorCode::bad_argument, "a slow rank that the Program does not have",
                      {.found = std::to_string(slow.rank.value()),
                       .expected = "0 to " + std::to_string(made.slow_ranks.size() - 1)});
  }
  made.slow_ranks[slow.rank] *= slow.factor;
  return {};
}

Expected<void> add_slow_link(const SlowLink& slow, DisturbedItems& made) {
  bool any = false;
  for (std::size_t i = 0; i < made.given.size(); ++i) {
    const ItemPlace& place = made.priced.places[i];
    const bool on_it =
        (place.rank == slow.a && place.peer == slow.b) || (place.rank == slow.b && place.peer == slow.a);
    if (on_it && place.peer.valid()) made.given[i] *= slow.factor;
    any = any || (on_it && place.peer.valid());
  }
  if (any) return {};
  return make_error(ErrorCode::bad_argument, "a slow link that the Program does not have",
                    {.found = std::to_string(slow.a.value()) + "-" + std::to_string(slow.b.value()),
                     .expected = "two ranks that send to each other"});
}

/// Of a message the SEND has the draw, of a collective the first member.
std::vector<DisturbedItems::Draw> draws_of(const Program& program, const DisturbedItems& made,
                                           std::vector<std::int32_t> source_of) {
  std::vector<DisturbedItems::Draw> draws;
  std::map<std::pair<RankId, RankId>, std::int32_t> last;
  for (std::uint32_t action = 0; action < made.item_of.size(); ++action) {
    const std::uint32_t item = made.item_of[action];
    if (source_of[item] == kFixed || is_receive(program.all_actions()[action].kind)) continue;
    const ItemPlace& place = made.priced.places[item];
    const auto before = last.try_emplace({place.rank, place.peer}, -1).first;
    const auto source = static_cast<std::uint32_t>(std::exchange(source_of[item], kFixed));
    draws.push_back({item, action, source, before->second});
    before->second = static_cast<std::int32_t>(draws.size()) - 1;
  }
  return draws;
}

template <class Slow>
Expected<void> check_factors(const std::vector<Slow>& slow) {
  for (const Slow& one : slow) {
    if (!(one.factor >= 0 && one.factor <= 1e6))
      return make_error(ErrorCode::bad_argument, "a factor out of range",
                        {.found = as_text(one.factor), .expected = "0 to 1000000"});
  }
  return {};
}

std::vector<bool> busy_items(const CompiledProgram& compiled, const Program& program) {
  std::vector<bool> busy(compiled.items.size(), false);
  for (const InstructionId id : program.ids()) {
    const auto actions = program.actions(id);
    busy[compiled.end_item[id.index()]] =
        is_compute(actions.front().kind) && !is_padding(program.pipeline(), actions);
  }
  return busy;
}

}  // namespace

Expected<DisturbedItems> disturbed_items(PricedItems priced, const AnalyzedProgram& analyzed,
                                         const Disturbances& disturbances) {
  PPSIM_RETURN_IF_ERROR(check_factors(disturbances.slow_ranks));
  PPSIM_RETURN_IF_ERROR(check_factors(disturbances.slow_links));
  const Program& program = analyzed.program();
  DisturbedItems made{std::move(priced), {}, {}, {}, {}, {}, {}, {}};
  made.item_of = items_of_actions(made.priced.program, analyzed);
  made.keeps_busy = busy_items(made.priced.program, program);
  made.given.assign(made.priced.places.size(), 1);
  made.slow_ranks = IdVector<RankId, double>(as_size(program.pipeline().ranks()), 1.0);
  std::vector<std::int32_t> source_of(made.priced.places.size(), kFixed);
  for (const VaryingCosts& varying : disturbances.varying)
    PPSIM_RETURN_IF_ERROR(add_varying(varying, made, source_of));
  for (const SlowRank& slow : disturbances.slow_ranks) PPSIM_RETURN_IF_ERROR(add_slow_rank(slow, made));
  for (const SlowLink& slow : disturbances.slow_links) PPSIM_RETURN_IF_ERROR(add_slow_link(slow, made));
  if (disturbances.ranks) made.of_ranks.emplace(*disturbances.ranks);
  made.draws = draws_of(program, made, std::move(source_of));
  return made;
}

Sampler::Sampler(const DisturbedItems& made, std::uint64_t seed)
    : made_(made), seed_(seed), normals_(made.draws.size()), ends_(made.priced.costs.size()) {}

void Sampler::draw(std::uint64_t sample) {
  factors_ = made_.given;
  for (std::size_t i = 0; i < made_.draws.size(); ++i) {
    const DisturbedItems::Draw& draw = made_.draws[i];
    const DisturbedItems::Source& from = made_.sources[draw.source];
    const double fresh = simulator::normal_draw({seed_, sample, draw.action});
    normals_[i] = draw.previous < 0
                      ? fresh
                      : simulator::correlated(normals_[as_size(draw.previous)], fresh, from.correlation);
    factors_[draw.item] *= from.table(normals_[i]);
  }
  ranks_ = made_.slow_ranks;
  if (!made_.of_ranks) return;
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    ranks_[RankId(static_cast<std::int32_t>(r))] *=
        (*made_.of_ranks)(simulator::normal_draw({seed_, sample, made_.item_of.size() + r}));
}

Nanoseconds Sampler::cost(std::size_t item) const {
  const ItemPlace& place = made_.priced.places[item];
  const bool of_rank = place.rank.valid() && !place.peer.valid();
  const double factor = of_rank ? factors_[item] * ranks_[place.rank] : factors_[item];
  return simulator::scaled_cost(made_.priced.costs[item], factor);
}

Nanoseconds Sampler::step(IdVector<RankId, Nanoseconds>* busy) {
  const std::vector<CompiledItem>& items = made_.priced.program.items;
  for (std::size_t i = 1; i < items.size(); ++i) {
    const Nanoseconds taken = cost(i);
    if (__builtin_add_overflow(std::max(ends_[items[i].first], ends_[items[i].second]), taken, &ends_[i]))
      throw Overflow("a step of disturbed costs");
    if (busy != nullptr && made_.keeps_busy[i]) (*busy)[made_.priced.places[i].rank] += taken;
  }
  return last_end(made_.priced.program.last_items);
}

Nanoseconds Sampler::last_end(const std::vector<std::uint32_t>& items) const {
  Nanoseconds end = 0;
  for (const std::uint32_t item : items) end = std::max(end, ends_[item]);
  return end;
}

}  // namespace ppsim::planner
