#pragma once

#include <cstdint>
#include <functional>
#include <ostream>

#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/lowering/lowering.hpp"

namespace ppsim::test {

/// When a communication may start.
enum class Posting : std::uint8_t {
  ahead,     ///< once it heads its queue: the order on each queue is all that counts
  in_place,  ///< `after` the computation that stands before it: its place in the list counts
};

/// All Programs of two ranks with one stage each and two microbatches that have these things in common.
struct SmallScope {
  bool splits_backward = false;  ///< F, I, W in place of F, B
  Posting posting = Posting::ahead;
  CommunicatorPolicy policy = CommunicatorPolicy::per_rank;
  Grouping grouping = Grouping::none;
};
std::ostream& operator<<(std::ostream& out, const SmallScope& scope);

/// Every order of computation on each rank, every order of communication on each queue and, posted in place,
/// every place among the computation; once for both names that the microbatches can have, and once for lists
/// that differ in neighbours on different queues. Posted ahead these include orders for which no list is
/// well-formed. With pairs, only those that have one. Visits every `stride`-th. Returns: how many there are.
std::size_t for_each_small_program(const SmallScope& scope, std::size_t stride,
                                   const std::function<void(const Program&)>& visit);

/// A Program of three ranks, two or three microbatches and at most `chunks` stages a rank: lists cut from one
/// order of everything, in which some neighbours are exchanged. Same seed, same Program, on any machine.
[[nodiscard]] Program random_small_program(int chunks, std::uint64_t seed);

}  // namespace ppsim::test
