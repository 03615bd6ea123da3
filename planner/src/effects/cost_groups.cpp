#include "ppsim/planner/effects/cost_groups.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/inference.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/core/text/number_text.hpp"

namespace ppsim::planner {
namespace {

using What = CostGroup::What;

bool occupies_rank(const CostClass& key) {
  const Resource resource = info(key.kind).resource;
  return resource == Resource::compute || resource == Resource::copy;
}

bool has_stage(const CostClass& key) {
  return occupies_rank(key) && info(key.kind).subject == Subject::stage;
}

CostGroup numbered(What what, std::int32_t first, std::int32_t second = -1) {
  return {what, {.kind = OpKind::forward, .subject = first, .peer = second}};
}

CostGroup link_between(RankId a, RankId b) {
  return numbered(What::link, std::min(a.value(), b.value()), std::max(a.value(), b.value()));
}

/// Reads a number of at least 0 and takes it off the text.
std::optional<std::int32_t> take_number(std::string_view& text) {
  const auto number = take_leading_number<std::int32_t>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

/// A number after a mark such as '-'; -1 where there is no mark, nothing where no number follows it.
std::optional<std::int32_t> take_after(std::string_view& text, char mark) {
  if (text.empty() || text.front() != mark) return -1;
  text.remove_prefix(1);
  return take_number(text);
}

/// "2", "0-1", "2.1".
std::optional<CostClass> numbers_of(std::string_view text, OpKind kind) {
  const auto subject = take_number(text);
  if (!subject) return std::nullopt;
  const auto peer = take_after(text, '-');
  const auto slice = take_after(text, '.');
  if (!peer || !slice || !text.empty()) return std::nullopt;
  return CostClass{kind, *subject, *peer, *slice};
}

std::optional<CostGroup> group_without_numbers(std::string_view text) {
  if (text == "compute") return CostGroup{What::compute};
  if (text == "transfers") return CostGroup{What::transfers};
  if (text == "collectives") return CostGroup{What::collectives};
  const auto kind = op_kind_from_text(text);
  if (!kind) return std::nullopt;
  return CostGroup{What::kind, {.kind = *kind}};
}

std::optional<CostGroup> group_with_numbers(std::string_view word, std::string_view numbers) {
  const auto kind = op_kind_from_text(word);
  const auto key = numbers_of(numbers, kind.value_or(OpKind::forward));
  if (!key) return std::nullopt;
  if (kind) return CostGroup{What::cost_class, *key};
  const bool one = key->peer < 0 && key->slice < 0;
  if (word == "rank" && one) return CostGroup{What::rank, *key};
  if (word == "stage" && one) return CostGroup{What::stage, *key};
  if (word != "link" || key->peer < 0 || key->slice >= 0) return std::nullopt;
  return link_between(RankId(key->subject), RankId(key->peer));
}

/// -1 matches anything.
bool matches(const CostClass& wanted, const CostClass& key) {
  const auto is_same = [](std::int32_t a, std::int32_t b) { return a < 0 || a == b; };
  return wanted.kind == key.kind && is_same(wanted.subject, key.subject) && is_same(wanted.peer, key.peer) &&
         is_same(wanted.slice, key.slice);
}

/// The group of a class; its slice is left out where there is only one.
CostGroup class_group(CostClass key, bool has_slices) {
  if (!has_slices) key.slice = -1;
  return {What::cost_class, key};
}

/// The step's end as items behind the pipeline, as whole_step adds it up.
void append_ends(const SimulatedStep& step, const IdVector<RankId, StepEnd>& ends, PricedItems& items) {
  const Program& program = step.program();
  if (ends.empty() || !trains(program)) return;
  const auto append = [&](std::uint32_t first, std::uint32_t second, Nanoseconds cost) {
    items.program.items.push_back({first, second, CompiledProgram::kJoin});
    items.costs.push_back(cost);
    items.places.push_back({});
    return static_cast<std::uint32_t>(items.program.items.size() - 1);
  };
  std::uint32_t end = 0;
  for (const std::uint32_t last : items.program.last_items) end = append(end, last, 0);
  Nanoseconds update = 0;
  for (const RankId rank : ends.ids()) {
    const std::uint32_t last = items.program.rows[rank].last_item;
    if (!program.has(OpKind::reduce_grad)) end = append(end, append(last, last, ends[rank].reduction), 0);
    if (!program.has(OpKind::optimizer)) update = std::max(update, ends[rank].update);
  }
  items.program.last_items = {append(end, end, update)};
}

}  // namespace

Expected<CostGrouping> cost_grouping_from_name(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames = {"kind", "rank", "stage", "link", "class"};
  static_assert(kNames.size() == static_cast<std::size_t>(CostGrouping::cost_class) + 1);
  return enumerator_named<CostGrouping>("cost grouping", kNames, name);
}

std::ostream& operator<<(std::ostream& out, const CostGroup& group) {
  switch (group.what) {
    case What::kind:
      return out << info(group.key.kind).text;
    case What::compute:
      return out << "compute";
    case What::transfers:
      return out << "transfers";
    case What::collectives:
      return out << "collectives";
    case What::rank:
      return out << "rank:" << group.key.subject;
    case What::stage:
      return out << "stage:" << group.key.subject;
    case What::link:
      return out << "link:" << group.key.subject << '-' << group.key.peer;
    case What::cost_class:
      out << info(group.key.kind).text << ':' << group.key.subject;
      if (group.key.peer >= 0) out << '-' << group.key.peer;
      if (group.key.slice >= 0) out << '.' << group.key.slice;
      return out;
  }
  return out;
}

Expected<CostGroup> cost_group_from_text(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto group = colon == std::string_view::npos
                         ? group_without_numbers(text)
                         : group_with_numbers(text.substr(0, colon), text.substr(colon + 1));
  if (group) return *group;
  return make_error(ErrorCode::bad_argument, "no cost group",
                    {.found = std::string(text),
                     .expected = "a kind such as F or SEND_F, compute, transfers, collectives, rank:0, "
                                 "stage:0, link:0-1, or a class such as F:0 or SEND_F:0-1"});
}

bool contains(const CostGroup& group, const CostClass& key, const ItemPlace& place) {
  switch (group.what) {
    case What::kind:
      return key.kind == group.key.kind;
    case What::compute:
      return is_compute(key.kind);
    case What::transfers:
      return is_transfer(key.kind);
    case What::collectives:
      return is_collective(key.kind);
    case What::rank:
      return occupies_rank(key) && place.rank.value() == group.key.subject;
    case What::stage:
      return has_stage(key) && key.subject == group.key.subject;
    case What::link:
      return place.peer.valid() && link_between(place.rank, place.peer) == group;
    case What::cost_class:
      return matches(group.key, key);
  }
  return false;
}

bool PricedItems::is_in(const CostGroup& group, std::size_t item) const {
  const CostClass* key = simulator::cost_class_of(program, program.items[item]);
  return key != nullptr && contains(group, *key, places[item]);
}

std::vector<CostGroup> PricedItems::groups(CostGrouping grouping) const {
  std::set<CostGroup> groups;
  const bool has_slices =
      std::ranges::any_of(program.cost_classes, [](const CostClass& key) { return key.slice > 0; });
  for (std::size_t i = 0; i < places.size(); ++i) {
    const CostClass* key = simulator::cost_class_of(program, program.items[i]);
    if (key == nullptr) continue;
    const ItemPlace& place = places[i];
    switch (grouping) {
      case CostGrouping::kind:
        groups.insert({What::kind, {.kind = key->kind}});
        if (is_compute(key->kind)) groups.insert({What::compute});
        if (is_transfer(key->kind)) groups.insert({What::transfers});
        if (is_collective(key->kind)) groups.insert({What::collectives});
        break;
      case CostGrouping::rank:
        if (occupies_rank(*key)) groups.insert(numbered(What::rank, place.rank.value()));
        break;
      case CostGrouping::stage:
        if (has_stage(*key)) groups.insert(numbered(What::stage, key->subject));
        break;
      case CostGrouping::link:
        if (place.peer.valid()) groups.insert(link_between(place.rank, place.peer));
        break;
      case CostGrouping::cost_class:
        groups.insert(class_group(*key, has_slices));
        break;
    }
  }
  return {groups.begin(), groups.end()};
}

Expected<PricedItems> priced_items(const SimulatedStep& step) { return priced_items(step, step.costs); }

Expected<PricedItems> priced_items(const SimulatedStep& step, const CostBinding& costs) {
  if (step.capabilities().residency) {
    return make_error(ErrorCode::bad_argument, "under a residency limit times are no longest paths",
                      {.found = std::to_string(*step.capabilities().residency) + " places",
                       .expected = "no residency limit"});
  }
  if (step.slowed_down) {
    return make_error(ErrorCode::bad_argument,
                      "where actions slow each other down, times are no longest paths",
                      {.found = "a step with slowdowns", .expected = "the step without them"});
  }
  if (step.contended().differ_on(step.capabilities())) {
    return make_error(ErrorCode::bad_argument,
                      "where transfers slow computation down, times are no longest paths",
                      {.found = "ns_beside_transfers", .expected = "costs without it, or another transport"});
  }
  auto compiled = compile(step.analyzed);
  PPSIM_CHECK(compiled.has_value(), "a Program that was evaluated compiles");
  PPSIM_ASSIGN_OR_RETURN(const auto bound, bind_costs(*compiled, costs.tables.costs));
  PricedItems items{*std::move(compiled), {}, {}, {}};
  items.pipeline_ends = items.program.last_items;
  items.places = item_places(items.program, step.analyzed);
  for (const CompiledItem& item : items.program.items) items.costs.push_back(bound.durations[item.duration]);
  append_ends(step, costs.ends, items);
  return items;
}

}  // namespace ppsim::planner
