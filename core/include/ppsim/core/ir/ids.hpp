#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <vector>

namespace ppsim {

/// A count or an index, as containers take it. Requires: it is not negative.
[[nodiscard]] constexpr std::size_t as_size(std::integral auto number) {
  return static_cast<std::size_t>(number);
}

/// An index that cannot be mixed up with an index of another kind; -1 means "none".
template <class Tag>
class StrongId {
 public:
  constexpr StrongId() = default;
  explicit constexpr StrongId(std::int32_t value) : value_(value) {}

  [[nodiscard]] constexpr std::int32_t value() const { return value_; }
  /// Requires: valid().
  [[nodiscard]] constexpr std::size_t index() const { return as_size(value_); }
  [[nodiscard]] constexpr bool valid() const { return value_ >= 0; }

  friend constexpr auto operator<=>(StrongId, StrongId) = default;
  friend std::ostream& operator<<(std::ostream& out, StrongId id) { return out << id.value_; }

 private:
  std::int32_t value_ = -1;
};

/// The id that follows.
template <class Tag>
[[nodiscard]] constexpr StrongId<Tag> next(StrongId<Tag> id) {
  return StrongId<Tag>(id.value() + 1);
}

using RankId = StrongId<struct RankTag>;                  ///< position in the pipeline dimension
using StageId = StrongId<struct StageTag>;                ///< contiguous piece of the model
using MicrobatchId = StrongId<struct MicrobatchTag>;      ///< unit that flows through the pipeline
using SliceId = StrongId<struct SliceTag>;                ///< piece of a microbatch along the sequence
using RouteId = StrongId<struct RouteTag>;                ///< sub-graph of stages a microbatch visits
using BlockId = StrongId<struct BlockTag>;                ///< parameter block
using CollectiveId = StrongId<struct CollectiveTag>;      ///< named collective of a pipeline
using CommunicatorId = StrongId<struct CommunicatorTag>;  ///< communicator of a Program
using InstructionId = StrongId<struct InstructionTag>;    ///< instruction of a Program, numbered rank by rank

/// The ids from `first` to the one before `last`, ascending.
template <class Id>
class IdRange {
 public:
  class Iterator {
   public:
    using value_type = Id;
    using difference_type = std::ptrdiff_t;

    constexpr Iterator() = default;
    explicit constexpr Iterator(Id id) : id_(id) {}
    constexpr Id operator*() const { return id_; }
    constexpr Iterator& operator++() {
      id_ = next(id_);
      return *this;
    }
    constexpr Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    friend constexpr bool operator==(Iterator, Iterator) = default;

   private:
    Id id_;
  };

  constexpr IdRange(Id first, Id last) : first_(first), last_(last) {}
  [[nodiscard]] constexpr Iterator begin() const { return Iterator(first_); }
  [[nodiscard]] constexpr Iterator end() const { return Iterator(last_); }

 private:
  Id first_;
  Id last_;
};

/// A vector indexed by one kind of id.
template <class Id, class T, class Items = std::vector<T>>
class IdVector {
 public:
  IdVector() = default;
  explicit IdVector(std::size_t count, const T& value = T{}) : items_(count, value) {}
  explicit IdVector(Items items) : items_(std::move(items)) {}
  IdVector(std::initializer_list<T> items) : items_(items) {}

  [[nodiscard]] decltype(auto) operator[](Id id) { return items_[id.index()]; }
  [[nodiscard]] decltype(auto) operator[](Id id) const { return items_[id.index()]; }
  [[nodiscard]] std::size_t size() const { return items_.size(); }
  [[nodiscard]] bool empty() const { return items_.empty(); }
  [[nodiscard]] IdRange<Id> ids() const { return {Id(0), Id(static_cast<std::int32_t>(items_.size()))}; }
  void push_back(T item) { items_.push_back(std::move(item)); }
  [[nodiscard]] const Items& items() const { return items_; }
  [[nodiscard]] auto begin() const { return items_.begin(); }
  [[nodiscard]] auto end() const { return items_.end(); }
  [[nodiscard]] auto begin() { return items_.begin(); }
  [[nodiscard]] auto end() { return items_.end(); }

  friend bool operator==(const IdVector&, const IdVector&) = default;

 private:
  Items items_;
};

}  // namespace ppsim
