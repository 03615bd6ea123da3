#include "support/surgery.hpp"

#include <map>

namespace ppsim::test {

Surgery::Surgery(const Program& program, std::uint64_t seed)
    : pipeline_(program.pipeline()), draft_(to_draft(program)), dice_(seed) {
  int name = 0;
  for (auto& row : draft_.rows) {
    const int first = name;
    std::vector<Item> items;
    for (InstructionDraft& draft : row) {
      for (int& after : draft.after) after += first;
      items.push_back({name++, std::move(draft)});
    }
    rows_.push_back(std::move(items));
  }
  next_name_ = name;
}

std::optional<Mutant> Surgery::finish() {
  std::vector<std::pair<RankId, std::size_t>> places;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const RankId rank(static_cast<std::int32_t>(r));
    std::map<int, int> position;
    for (std::size_t i = 0; i < rows_[r].size(); ++i) position[rows_[r][i].name] = static_cast<int>(i);
    draft_.rows[rank].clear();
    for (Item& item : rows_[r]) {
      if (std::ranges::count(touched_, item.name) > 0) places.emplace_back(rank, draft_.rows[rank].size());
      std::erase_if(item.draft.after, [&](int name) { return !position.contains(name); });
      for (int& after : item.draft.after) after = position[after];
      draft_.rows[rank].push_back(std::move(item.draft));
    }
  }
  auto program = ProgramBuilder::build(pipeline_, draft_);
  if (!program) return std::nullopt;
  std::vector<InstructionId> touched;
  for (const auto& [rank, position] : places)
    touched.emplace_back(program->first(rank).value() + static_cast<int>(position));
  return Mutant{*std::move(program), std::move(touched), std::move(actions_)};
}

void Surgery::note(const Item& item) {
  touched_.push_back(item.name);
  for (const Action& action : item.draft.actions) note_action(item.name, action);
}
void Surgery::note_action(int name, const Action& action) {
  actions_.push_back(action);
  for (std::size_t r = 0; is_transfer(action.kind) && r < rows_.size(); ++r) {
    if (std::ranges::count(rows_[r], name, &Item::name) > 0)
      actions_.push_back(counterpart(action, RankId(static_cast<std::int32_t>(r))));
  }
}

std::optional<At> Surgery::find(const Holds& holds) {
  std::vector<At> found;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    for (std::size_t i = 0; i < rows_[r].size(); ++i) {
      if (holds(rows_[r][i])) found.push_back({r, i});
    }
  }
  return one_of(found);
}
std::optional<At> Surgery::find_single(bool (*holds)(const Action&)) {
  return find([holds](const Item& item) { return is_single(item) && holds(item.draft.actions.front()); });
}
std::optional<std::pair<At, At>> Surgery::find_pair(const Pair& holds) {
  std::vector<std::pair<At, At>> found;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    for (std::size_t i = 0; i < rows_[r].size(); ++i) {
      for (std::size_t j = i + 1; is_single(rows_[r][i]) && j < rows_[r].size(); ++j) {
        if (is_single(rows_[r][j]) && holds(rows_[r][i], rows_[r][j])) found.push_back({{r, i}, {r, j}});
      }
    }
  }
  return one_of(found);
}

bool Surgery::drop(std::optional<At> place) {
  if (!place) return false;
  note(at(*place));
  Row& row = rows_[place->rank];
  row.erase(row.begin() + static_cast<std::ptrdiff_t>(place->position));
  return true;
}

bool Surgery::twice(std::optional<At> place) {
  if (!place) return false;
  Item copy = at(*place);
  copy.name = next_name_++;
  note(at(*place));
  note(copy);
  Row& row = rows_[place->rank];
  const std::size_t to = place->position + 1 + dice_.index(row.size() - place->position);
  row.insert(row.begin() + static_cast<std::ptrdiff_t>(to), std::move(copy));
  return true;
}

bool Surgery::swap(const std::optional<std::pair<At, At>>& pair) {
  if (!pair) return false;
  note(at(pair->first));
  note(at(pair->second));
  std::swap(at(pair->first), at(pair->second));
  return true;
}

bool Surgery::move(std::optional<At> place, std::size_t to) {
  if (!place || place->position == to) return false;
  note(at(*place));
  Row& row = rows_[place->rank];
  Item item = std::move(at(*place));
  row.erase(row.begin() + static_cast<std::ptrdiff_t>(place->position));
  row.insert(row.begin() + static_cast<std::ptrdiff_t>(to), std::move(item));
  return true;
}

void Surgery::split(At place, std::size_t first) {
  Item rest = at(place);
  rest.name = next_name_++;
  InstructionDraft& draft = at(place).draft;
  draft.actions = {rest.draft.actions[first]};
  draft.communicators = {rest.draft.communicators[first]};
  draft.form = InstructionForm::single;
  const auto gone = static_cast<std::ptrdiff_t>(first);
  rest.draft.actions.erase(rest.draft.actions.begin() + gone);
  rest.draft.communicators.erase(rest.draft.communicators.begin() + gone);
  if (rest.draft.actions.size() == 1) rest.draft.form = InstructionForm::single;
  Row& row = rows_[place.rank];
  for (Item& item : row) {
    if (std::ranges::count(item.draft.after, at(place).name) > 0) item.draft.after.push_back(rest.name);
  }
  note(at(place));
  note(rest);
  row.insert(row.begin() + static_cast<std::ptrdiff_t>(place.position) + 1, std::move(rest));
}

}  // namespace ppsim::test
