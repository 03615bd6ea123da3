#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/units.hpp"

namespace ppsim::simulator {

/// Entries that come out by time, all of one time together. None goes in that is before what came out last.
/// Source: radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, Journal of the ACM 37, 1990): an entry lies in the
/// bucket of the highest bit in which its time differs from the last one, and only moves to lower ones.
template <class Entry>
class TimeQueue {
 public:
  void push(Nanoseconds time, const Entry& entry) {
    PPSIM_CHECK(time >= last_, "an entry before the last one");
    const std::size_t bucket = bucket_of(time);
    used_ |= std::uint64_t{1} << bucket;
    buckets_[bucket].emplace_back(time, entry);
  }
  [[nodiscard]] bool empty() const { return used_ == 0; }

  /// Replaces `taken` by the entries of the earliest time, and returns that.
  /// Requires: not empty.
  Nanoseconds pop(std::vector<Entry>& taken) {
    if ((used_ & 1U) == 0) spread_first_bucket();
    taken.clear();
    for (const auto& [time, entry] : buckets_[0]) taken.push_back(entry);
    buckets_[0].clear();
    used_ &= ~std::uint64_t{1};
    return last_;
  }

 private:
  // Times have 63 bits, so there are 64 buckets.
  [[nodiscard]] std::size_t bucket_of(Nanoseconds time) const {
    return static_cast<std::size_t>(
        std::bit_width(static_cast<std::uint64_t>(time) ^ static_cast<std::uint64_t>(last_)));
  }

  void spread_first_bucket() {
    const auto bucket = static_cast<std::size_t>(std::countr_zero(used_));
    spread_.clear();
    std::swap(spread_, buckets_[bucket]);
    used_ &= ~(std::uint64_t{1} << bucket);
    last_ = spread_.front().first;
    for (const auto& [time, entry] : spread_) last_ = std::min(last_, time);
    for (const auto& [time, entry] : spread_) push(time, entry);
  }

  std::array<std::vector<std::pair<Nanoseconds, Entry>>, 64> buckets_;
  std::vector<std::pair<Nanoseconds, Entry>> spread_;  ///< kept for its memory
  std::uint64_t used_ = 0;                             ///< a bit for each bucket with entries
  Nanoseconds last_ = 0;
};

}  // namespace ppsim::simulator
