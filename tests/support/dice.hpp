#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>

namespace ppsim::test {

/// std::mt19937_64 is the same everywhere; the distributions of <random> are not.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t roll() { return engine_(); }
  int below(int limit) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(limit)); }
  bool one_in(int n) { return below(n) == 0; }
  /// An index.
  std::size_t index(std::size_t size) { return static_cast<std::size_t>(engine_() % size); }
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[index(choices.size())];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace ppsim::test
