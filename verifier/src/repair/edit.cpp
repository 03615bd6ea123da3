#include "repair/edit.hpp"

#include <algorithm>
#include <map>

#include "ppsim/core/ir/sequences.hpp"

namespace ppsim::verifier::repairing {
namespace {

using Row = std::vector<InstructionDraft>;

/// One rank's list, edited into the new one.
class RowEdit {
 public:
  RowEdit(const Program& program, RankId rank, const Row& row)
      : first_(program.first(rank).value()),
        row_(row),
        keys_(row.size()),
        position_(row.size(), -1),
        moved_(row.size(), 0),
        gone_(row.size(), 0) {
    for (std::size_t i = 0; i < row.size(); ++i) keys_[i] = own_place(id_of(i));
  }

  void change(const Candidate& c) {
    if (c.kind == ChangeKind::move) {
      keys_[index_of(c.what)] = place_after(c);
      moved_[index_of(c.what)] = 1;
    } else if (c.kind == ChangeKind::group) {
      const std::size_t here = index_of(c.before ? c.what : c.anchor);
      const std::size_t gone = index_of(c.before ? c.anchor : c.what);
      group_[here] = gone;
      gone_[gone] = 1;
      keys_[gone] = keys_[here];
    }
  }

  /// False where an instruction would come after one that follows it, or with it in a group.
  bool make(Row& out, std::vector<std::vector<InstructionId>>& originals) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < row_.size(); ++i) {
      if (gone_[i] == 0) order.push_back(i);
    }
    std::ranges::sort(order, {}, [&](std::size_t i) { return keys_[i]; });
    for (std::size_t place = 0; place < order.size(); ++place)
      position_[order[place]] = static_cast<int>(place);
    for (const auto& [here, gone] : group_) position_[gone] = position_[here];
    for (const std::size_t i : order) {
      InstructionDraft draft = row_[i];
      originals.push_back({id_of(i)});
      bool good = renumber(draft, i);
      if (const auto grouped = group_.find(i); grouped != group_.end()) {
        InstructionDraft member = row_[grouped->second];
        good = renumber(member, grouped->second) && good;
        originals.back() = {id_of(std::min(i, grouped->second)), id_of(std::max(i, grouped->second))};
        draft = i < grouped->second ? joined(draft, member) : joined(member, draft);
      }
      if (!good) return false;
      out.push_back(std::move(draft));
    }
    return true;
  }

 private:
  [[nodiscard]] InstructionId id_of(std::size_t i) const {
    return InstructionId(first_ + static_cast<std::int32_t>(i));
  }
  [[nodiscard]] std::size_t index_of(InstructionId id) const { return as_size(id.value() - first_); }

  bool renumber(InstructionDraft& draft, std::size_t i) {
    std::vector<int> after;
    for (const int on : draft.after) {
      const int place = position_[as_size(on)];
      const bool stood_behind = as_size(on) > i;
      if (place < position_[i] || (place > position_[i] && stood_behind && moved_[i] == 0)) {
        after.push_back(place);
      } else if (moved_[i] == 0) {
        return false;
      }
    }
    draft.after = std::move(after);
    return true;
  }

  static InstructionDraft joined(InstructionDraft first, const InstructionDraft& second) {
    first.form = InstructionForm::group;
    append_all(first.actions, second.actions);
    append_all(first.communicators, second.communicators);
    append_all(first.after, second.after);
    sort_unique(first.after);
    first.blocking = first.blocking || second.blocking;
    return first;
  }

  std::int32_t first_;
  const Row& row_;
  std::vector<PlaceKey> keys_;
  std::vector<int> position_;
  std::vector<char> moved_;
  std::vector<char> gone_;                    ///< into the group of another one
  std::map<std::size_t, std::size_t> group_;  ///< where the group stands, and its other member
};

/// Gives every channel that is split off a separate communicator.
void split(const Program& program, const Candidates& candidates, std::span<const Candidate> changes,
           ProgramDraft& draft) {
  std::map<int, CommunicatorId> own;
  for (const Candidate& c : changes) {
    if (c.kind != ChangeKind::split) continue;
    const ChannelKey& key = candidates.channels()[as_size(c.channel)];
    own[c.channel] = CommunicatorId(static_cast<std::int32_t>(draft.communicators.size()));
    std::vector<RankId> members{std::min(key.source, key.destination), std::max(key.source, key.destination)};
    const std::string name = program.communicator(key.communicator).name;
    draft.communicators.push_back(
        {name + " " + std::to_string(key.source.value()) + ">" + std::to_string(key.destination.value()),
         std::move(members), -1});
  }
  if (own.empty()) return;
  for (const InstructionId id : program.ids()) {
    if (!is_transfer(program.actions(id).front().kind)) continue;
    InstructionDraft& item = draft.rows[program.rank_of(id)][as_size(program.position(id))];
    for (std::size_t a = 0; a < item.actions.size(); ++a) {
      const auto found = own.find(candidates.channel_of(id, a));
      if (found != own.end()) item.communicators[a] = found->second;
    }
  }
}

}  // namespace

std::optional<Edited> apply(const Program& program, const Candidates& candidates,
                            std::span<const Candidate> changes) {
  ProgramDraft draft = to_draft(program);
  split(program, candidates, changes, draft);
  std::vector<std::vector<InstructionId>> originals;
  for (const RankId rank : program.pipeline().rank_ids()) {
    const Row row = std::move(draft.rows[rank]);
    draft.rows[rank].clear();
    RowEdit edit(program, rank, row);
    for (const Candidate& c : changes) {
      const bool of_list = c.kind == ChangeKind::move || c.kind == ChangeKind::group;
      if (of_list && program.rank_of(c.what) == rank) edit.change(c);
    }
    if (!edit.make(draft.rows[rank], originals)) return std::nullopt;
  }
  auto built = ProgramBuilder::build(program.pipeline(), draft);
  if (!built) return std::nullopt;
  return Edited{*std::move(built), std::move(originals)};
}

}  // namespace ppsim::verifier::repairing
