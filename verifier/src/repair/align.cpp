#include "repair/align.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "ppsim/core/execution/execution_graph.hpp"
#include "repair/channels.hpp"

namespace ppsim::verifier::repairing {
namespace {

/// The receives of a channel in the order of its sends; nothing where the ends differ.
std::optional<std::vector<InstructionId>> wanted_order(const ChannelEnds& channel) {
  std::map<Action, std::vector<InstructionId>> receives;
  for (std::size_t i = 0; i < channel.received.size(); ++i)
    receives[channel.received[i]].push_back(channel.receivers[i]);
  std::vector<InstructionId> order;
  std::map<Action, std::size_t> used;
  for (const Action& send : channel.sent) {
    const auto found = receives.find(send);
    std::size_t& next = used[send];
    if (found == receives.end() || next == found->second.size()) return std::nullopt;
    order.push_back(found->second[next++]);
  }
  if (channel.received.size() != order.size()) return std::nullopt;
  return order;
}

/// The list of a rank, as numbers of its instructions.
using Places = std::vector<std::int32_t>;

class Aligner {
 public:
  explicit Aligner(const Program& program) : program_(program) {
    for (const RankId rank : program.pipeline().rank_ids()) {
      Places row;
      for (const InstructionId id : program.ids_of(rank)) row.push_back(id.value());
      rows_.push_back(std::move(row));
    }
  }

  /// Returns: whether it could.
  bool align(RankId rank, const std::vector<InstructionId>& order) {
    Places& row = rows_[rank];
    std::ptrdiff_t limit = std::numeric_limits<std::ptrdiff_t>::max();
    for (std::size_t i = order.size(); i-- > 0;) {
      const auto place = std::ranges::find(row, order[i].value()) - row.begin();
      if (place < limit) {
        limit = place;
        continue;
      }
      if (program_.instruction(order[i]).form != InstructionForm::single) return false;
      const InstructionId other(row[as_size(limit)]);
      changes_.push_back({.kind = ChangeKind::move,
                          .what = named_instruction(program_, order[i]),
                          .other = named_instruction(program_, other),
                          .before = true});
      std::rotate(row.begin() + limit, row.begin() + place, row.begin() + place + 1);
    }
    return true;
  }

  Expected<Program> build() const {
    ProgramDraft draft = to_draft(program_);
    for (const RankId rank : program_.pipeline().rank_ids()) {
      const std::vector<InstructionDraft> old = draft.rows[rank];
      draft.rows[rank] = reordered(old, rows_[rank], program_.first(rank).value());
    }
    return ProgramBuilder::build(program_.pipeline(), draft);
  }

  std::vector<Change>& changes() { return changes_; }

 private:
  /// Drops from a moved receive's `after` list the instructions that now follow it.
  static std::vector<InstructionDraft> reordered(const std::vector<InstructionDraft>& old, const Places& row,
                                                 std::int32_t first) {
    std::vector<int> place(old.size());
    for (std::size_t i = 0; i < row.size(); ++i) place[as_size(row[i] - first)] = static_cast<int>(i);
    std::vector<InstructionDraft> result;
    for (std::size_t i = 0; i < row.size(); ++i) {
      InstructionDraft item = old[as_size(row[i] - first)];
      for (int& after : item.after) after = place[as_size(after)];
      std::erase_if(item.after, [&](int after) { return after >= static_cast<int>(i); });
      std::ranges::sort(item.after);
      result.push_back(std::move(item));
    }
    return result;
  }

  const Program& program_;
  IdVector<RankId, Places> rows_;
  std::vector<Change> changes_;
};

}  // namespace

std::optional<Aligned> receives_in_order(const Program& program) {
  Aligner aligner(program);
  for (const auto& [key, channel] : channel_ends(program)) {
    const auto order = wanted_order(channel);
    if (!order || !aligner.align(key.destination, *order)) return std::nullopt;
  }
  auto result = aligner.build();
  if (!result) return std::nullopt;
  return Aligned{*std::move(result), std::move(aligner.changes())};
}

}  // namespace ppsim::verifier::repairing
