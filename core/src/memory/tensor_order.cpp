#include "ppsim/core/memory/tensor_order.hpp"

#include <algorithm>
#include <limits>

namespace ppsim {
namespace {

constexpr std::int32_t kAfterAll = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kBeforeAll = -1;

}  // namespace

TensorOrder::TensorOrder(const TensorTable& table, const HappensBefore& clocks, RankId rank)
    : tracks_(as_size(std::max(clocks.tracks(), 1))) {
  const auto begin = table.tensors.begin();
  const auto of_rank_or_later = [&](RankId r) {
    return static_cast<std::uint32_t>(
        std::partition_point(begin, table.tensors.end(), [&](const Tensor& t) { return t.rank < r; }) -
        begin);
  };
  first_ = of_rank_or_later(rank);
  last_ = of_rank_or_later(RankId(rank.value() + 1));
  born_.assign((last_ - first_) * tracks_, kAfterAll);
  dead_.assign((last_ - first_) * tracks_, 0);
  for (std::uint32_t t = first_; t < last_; ++t) {
    const Tensor& tensor = table.tensors[t];
    const auto born = born_.begin() + static_cast<std::ptrdiff_t>((t - first_) * tracks_);
    const auto dead = dead_.begin() + static_cast<std::ptrdiff_t>((t - first_) * tracks_);
    // Any writer may be the first, unless one precedes all others; then its counts are the smallest.
    for (const InstructionId writer : table.writers_of(tensor)) {
      const auto complete = clocks.complete_before_start(writer);
      std::transform(complete.begin(), complete.end(), born, born,
                     [](std::int32_t a, std::int32_t b) { return std::min(a, b); });
    }
    for (const InstructionId user : table.users_of(tensor)) {
      const auto track = dead + clocks.track_of(user);
      *track = std::max(*track, clocks.index_in_track(user) + 1);
    }
    if (tensor.from_start) std::fill_n(born, tracks_, kBeforeAll);
    if (tensor.to_end) std::fill_n(dead, tracks_, kAfterAll);
  }
}

bool TensorOrder::before(std::uint32_t earlier, std::uint32_t later) const {
  return std::ranges::equal(dead(earlier), born(later), std::ranges::less_equal());
}

}  // namespace ppsim
