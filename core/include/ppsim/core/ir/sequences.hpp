#pragma once

#include <algorithm>

namespace ppsim {

/// Puts all of `more` behind the items of `items`.
void append_all(auto& items, const auto& more) { items.insert(items.end(), more.begin(), more.end()); }

/// Sorts `items` and keeps each value once.
void sort_unique(auto& items) {
  std::ranges::sort(items);
  items.erase(std::unique(items.begin(), items.end()), items.end());
}

}  // namespace ppsim
