#include "fair_shares.hpp"

#include <algorithm>

namespace ppsim::simulator {
namespace {

constexpr Rate kNoRate = 0;
constexpr std::uint32_t kNoLink = UINT32_MAX;

}  // namespace

void FairShares::open(std::span<const std::uint32_t> links) {
  for (const std::uint32_t link : links) {
    if (open_[link].flows++ > 0) continue;
    open_[link].left = links_[link].capacity;
    used_.push_back(link);
  }
}

void FairShares::settle(std::size_t place, Rate rate, std::span<const std::uint32_t> links) {
  rates_[place] = rate;
  for (const std::uint32_t link : links) {
    open_[link].left -= rate;
    --open_[link].flows;
  }
}

/// The link with the smallest share, of several the first one; kNoLink where none is below full speed.
std::uint32_t FairShares::narrowest() const {
  std::uint32_t found = kNoLink;
  Rate smallest = kFullSpeed;
  for (const std::uint32_t link : used_) {
    if (open_[link].flows == 0) continue;
    const Rate share = open_[link].share();
    if (share > smallest || share >= kFullSpeed || (share == smallest && link > found)) continue;
    smallest = share;
    found = link;
  }
  return found;
}

const std::vector<Rate>& FairShares::of(std::span<const std::uint32_t> flows,
                                        std::span<const std::vector<std::uint32_t>> taken) {
  rates_.assign(flows.size(), kNoRate);
  used_.clear();
  for (const std::uint32_t flow : flows) open(taken[flow]);
  for (std::uint32_t link = narrowest(); link != kNoLink; link = narrowest()) {
    const Rate share = std::max<Rate>(open_[link].share(), 1);
    for (std::size_t i = 0; i < flows.size(); ++i) {
      const auto& of_flow = taken[flows[i]];
      if (rates_[i] == kNoRate && std::ranges::find(of_flow, link) != of_flow.end())
        settle(i, share, of_flow);
    }
  }
  std::ranges::replace(rates_, kNoRate, kFullSpeed);
  for (const std::uint32_t link : used_) open_[link] = {};
  return rates_;
}

}  // namespace ppsim::simulator
