#pragma once

#include <span>
#include <vector>

#include "ppsim/simulator/effects/shared_links.hpp"

namespace ppsim::simulator {

/// The links of each of many routes, in one array.
class Routes {
 public:
  /// The number of the new route.
  std::uint32_t add(std::span<const LinkTake> takes) {
    takes_.insert(takes_.end(), takes.begin(), takes.end());
    ends_.push_back(static_cast<std::uint32_t>(takes_.size()));
    return static_cast<std::uint32_t>(ends_.size() - 1);
  }
  [[nodiscard]] std::span<const LinkTake> operator[](std::uint32_t route) const {
    const std::uint32_t first = route == 0 ? 0 : ends_[route - 1];
    return {takes_.data() + first, ends_[route] - first};
  }
  [[nodiscard]] std::size_t size() const { return ends_.size(); }

 private:
  std::vector<LinkTake> takes_;
  std::vector<std::uint32_t> ends_;
};

/// Those of `links`, in its order.
[[nodiscard]] inline Routes routes_of(const SharedLinks& links) {
  Routes routes;
  for (const auto& taken : links.taken) routes.add(taken);
  return routes;
}

}  // namespace ppsim::simulator
