#pragma once

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "ppsim/core/ir/pipeline.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim::simulator {

struct CostClassHash {
  std::size_t operator()(const CostClass& c) const {
    std::uint64_t hash = static_cast<std::uint64_t>(c.kind);
    for (const std::int32_t field : {c.subject, c.peer, c.slice}) {
      hash = (hash ^ static_cast<std::uint32_t>(field)) * 0x9E3779B97F4A7C15ULL;
    }
    return hash ^ (hash >> 32);
  }
};

/// One more than the largest subject of an action.
[[nodiscard]] inline std::size_t subject_count(const Pipeline& pipeline) {
  return std::max({static_cast<std::size_t>(pipeline.stages()), static_cast<std::size_t>(pipeline.blocks()),
                   pipeline.spec().collectives.size()});
}

/// A value for each cost class that a Program has, made when the class is asked for first. Nearly always a
/// kind and a subject ask for the class that they asked for last, which is found without a hash.
template <class Value>
class ByCostClass {
 public:
  explicit ByCostClass(const Pipeline& pipeline)
      : subjects_(subject_count(pipeline)), recent_(kOpKindCount * subjects_) {}

  /// Requires: a subject in range.
  template <class Make>
  Value get(const CostClass& key, const Make& make) {
    Recent& recent =
        recent_[static_cast<std::size_t>(key.kind) * subjects_ + static_cast<std::size_t>(key.subject)];
    if (recent.known && recent.peer == key.peer && recent.slice == key.slice) return recent.value;
    const auto [entry, is_new] = all_.try_emplace(key, Value());
    if (is_new) entry->second = make(key);
    recent = {key.peer, key.slice, true, entry->second};
    return entry->second;
  }

 private:
  struct Recent {
    std::int32_t peer = -1;
    std::int32_t slice = -1;
    bool known = false;
    Value value = Value();
  };

  std::size_t subjects_;
  std::vector<Recent> recent_;                               ///< by kind and subject
  std::unordered_map<CostClass, Value, CostClassHash> all_;  // looked up, never iterated
};

}  // namespace ppsim::simulator
