#pragma once

#include <bit>
#include <cstdint>

namespace ppsim::simulator {

/// Calls `f` with every member of a set of numbers below 64, ascending.
template <class F>
void for_each_of(std::uint64_t set, F f) {
  for (; set != 0; set &= set - 1) f(static_cast<std::uint32_t>(std::countr_zero(set)));
}

/// How many members a set of numbers below 64 has. Bits side by side: std::popcount is a function call
/// unless the compiler may assume newer processors.
[[nodiscard]] constexpr std::uint32_t size_of(std::uint64_t set) {
  set -= set >> 1U & 0x5555555555555555U;
  set = (set & 0x3333333333333333U) + (set >> 2U & 0x3333333333333333U);
  set = (set + (set >> 4U)) & 0x0f0f0f0f0f0f0f0fU;
  return static_cast<std::uint32_t>(set * 0x0101010101010101U >> 56U);
}

}  // namespace ppsim::simulator
