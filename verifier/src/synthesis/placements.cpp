#include "synthesis/placements.hpp"

#include <map>

namespace ppsim::verifier::synthesis {
namespace {

/// Calls visit for every placement until it returns false.
class Placements {
 public:
  Placements(int ranks, int chunks) : chunks_(chunks), used_(as_size(ranks)) {}

  template <class Visit>
  bool visit_all(Visit&& visit) {
    if (placement_.size() == used_.size() * as_size(chunks_)) return visit(placement_);
    for (std::size_t r = 0; r < used_.size(); ++r) {
      if (used_[r] == chunks_) continue;
      const bool opens = used_[r] == 0;
      ++used_[r];
      placement_.emplace_back(static_cast<int>(r));
      const bool goes_on = visit_all(visit);
      placement_.pop_back();
      --used_[r];
      if (!goes_on) return false;
      if (opens) break;  // another rank without a stage would be the same with other numbers
    }
    return true;
  }

 private:
  int chunks_;
  std::vector<int> used_;  ///< stages of each rank so far
  Placement placement_;
};

}  // namespace

Placement loop_placement(int ranks, int chunks) {
  Placement placement;
  for (int s = 0; s < ranks * chunks; ++s) placement.emplace_back(s % ranks);
  return placement;
}

std::vector<Placement> all_placements(int ranks, int chunks, std::size_t limit) {
  std::vector<Placement> all;
  const bool complete = Placements(ranks, chunks).visit_all([&](const Placement& placement) {
    all.push_back(placement);
    return all.size() <= limit;
  });
  if (!complete) all.clear();
  return all;
}

Placement placement_of_blocks(int ranks, int chunks, int shift) {
  Placement placement;
  for (int s = 0; s < ranks * chunks; ++s) placement.emplace_back((s + shift) / chunks % ranks);
  return placement;
}

Placement renumbered(const Placement& placement) {
  std::map<RankId, RankId> number;
  Placement result;
  for (const RankId rank : placement)
    result.push_back(number.emplace(rank, RankId(static_cast<int>(number.size()))).first->second);
  return result;
}

}  // namespace ppsim::verifier::synthesis
