#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>

namespace ppsim {

/// Keys from the most to the least specific.
template <class Key>
std::array<Key, 4> generalisations(const Key& key) {
  std::array<Key, 4> keys = {key, key, key, key};
  for (std::size_t i = 1; i < keys.size(); ++i) keys[i].slice = -1;
  for (std::size_t i = 2; i < keys.size(); ++i) keys[i].peer = -1;
  keys[3].subject = -1;
  return keys;
}

/// The most specific entry for a class, of a CostTable or a SizeTable.
template <class Key>
std::optional<std::int64_t> look_up(const std::map<Key, std::int64_t>& entries, const Key& key) {
  for (const Key& candidate : generalisations(key)) {
    if (const auto found = entries.find(candidate); found != entries.end()) return found->second;
  }
  return std::nullopt;
}

}  // namespace ppsim
