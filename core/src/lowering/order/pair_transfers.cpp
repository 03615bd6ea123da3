#include "pair_transfers.hpp"

#include <algorithm>
#include <optional>

#include "ppsim/core/execution/facts.hpp"

namespace ppsim::lowering {
namespace {

bool depends(const Pipeline& pipeline, RankId rank, const Action& later, const Action& earlier) {
  std::vector<Fact> provided;
  std::vector<Requirement> required;
  provided_facts(pipeline, earlier, rank, provided);
  required_facts(pipeline, later, rank, required);
  return std::ranges::any_of(required, [&](const Requirement& need) {
    return std::ranges::find(provided, need.fact) != provided.end();
  });
}

class Pairer {
 public:
  Pairer(const Pipeline& pipeline, LineRows& rows) : pipeline_(pipeline), rows_(rows) {
    for (const LineRow& row : rows) {
      Transfers transfers;
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (is_transfer(row.action(i).kind)) transfers.emplace_back(row.action(i), i);
      }
      std::ranges::sort(transfers);
      transfers_.push_back(std::move(transfers));
      role_.push_back(std::vector<Role>(row.size(), Role::alone));
    }
  }

  void run() {
    for (const RankId rank : pipeline_.rank_ids()) {
      for (std::size_t i = 0; i + 1 < rows_[rank].size(); ++i) try_pair(rank, i);
    }
    for (const RankId rank : pipeline_.rank_ids()) merge(rank);
  }

 private:
  enum class Role : char { alone, first, second };
  using Transfers = std::vector<std::pair<Action, std::size_t>>;

  [[nodiscard]] const Action& action(RankId rank, std::size_t i) const { return rows_[rank].action(i); }

  /// Where the other end of a transfer stands on rank `peer`.
  [[nodiscard]] std::optional<std::size_t> place_of(RankId peer, const Action& other) const {
    const Transfers& transfers = transfers_[peer];
    const auto found = std::ranges::lower_bound(transfers, std::pair(other, std::size_t{0}));
    if (found == transfers.end() || found->first != other) return std::nullopt;
    return found->second;
  }

  [[nodiscard]] bool can_pair(RankId rank, std::size_t i) const {
    const Action& a = action(rank, i);
    const Action& b = action(rank, i + 1);
    return names_peer_stage(a.kind) && names_peer_stage(b.kind) && role_[rank][i] == Role::alone &&
           role_[rank][i + 1] == Role::alone && peer_rank(pipeline_, a) == peer_rank(pipeline_, b) &&
           !depends(pipeline_, rank, b, a);
  }

  void try_pair(RankId rank, std::size_t i) {
    if (!can_pair(rank, i)) return;
    const RankId peer = peer_rank(pipeline_, action(rank, i));
    const auto a = place_of(peer, counterpart(action(rank, i), rank));
    const auto b = place_of(peer, counterpart(action(rank, i + 1), rank));
    if (!a || !b || std::max(*a, *b) - std::min(*a, *b) != 1) return;
    const std::size_t first = std::min(*a, *b);
    if (!can_pair(peer, first)) return;
    join(rank, i);
    join(peer, first);
  }

  void join(RankId rank, std::size_t i) {
    role_[rank][i] = Role::first;
    role_[rank][i + 1] = Role::second;
  }

  void merge(RankId rank) {
    LineRow& row = rows_[rank];
    std::vector<Line> lines;
    std::vector<std::int32_t> group_of(row.size(), -1);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const Line line = row.line(i);
      if (role_[rank][i] == Role::second) {
        lines.back().second = static_cast<std::int32_t>(row.seconds.size());
        row.seconds.push_back(line.action);
      } else {
        lines.push_back(line);
      }
      group_of[as_size(line.id)] = lines.back().id;
    }
    for (AfterEdge& edge : row.after) {
      edge = {group_of[as_size(edge.later)], group_of[as_size(edge.earlier)]};
    }
    row.replace(lines);
  }

  const Pipeline& pipeline_;
  LineRows& rows_;
  IdVector<RankId, Transfers> transfers_;
  IdVector<RankId, std::vector<Role>> role_;
};

}  // namespace

void pair_transfers(const Pipeline& pipeline, LineRows& rows) { Pairer(pipeline, rows).run(); }

}  // namespace ppsim::lowering
