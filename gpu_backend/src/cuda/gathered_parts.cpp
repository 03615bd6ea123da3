#include "cuda/gathered_parts.hpp"

#include <algorithm>

namespace ppsim {
namespace {

/// Every part begins where a tensor may begin.
std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

GatheredParts::GatheredParts(const Collective& collective, RankId rank, Bytes statistics, Bytes summand)
    : members_(collective.members.size()),
      own_(static_cast<std::size_t>(std::find(collective.members.begin(), collective.members.end(), rank) -
                                    collective.members.begin())),
      statistics_(static_cast<std::size_t>(statistics)),
      summand_(static_cast<std::size_t>(summand)),
      stride_(aligned(statistics_) + aligned(summand_)) {}

CollectivePart GatheredParts::part(std::size_t member) const {
  const std::span<std::byte> whole = slot(memory_, member);
  return {whole.first(statistics_), whole.subspan(aligned(statistics_), summand_)};
}

}  // namespace ppsim
