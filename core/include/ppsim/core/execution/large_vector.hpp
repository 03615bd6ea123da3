#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace ppsim {

/// Leaves items without a value as the memory is: for arrays of which every item is written before it is
/// read, each by the thread that knows it.
template <class T>
struct UnsetAllocator : std::allocator<T> {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>,
                "an item that needs no constructor");
  template <class U>
  struct rebind {
    using other = UnsetAllocator<U>;
  };

  UnsetAllocator() = default;
  template <class U>
  explicit UnsetAllocator(const UnsetAllocator<U>& /*other*/) noexcept {}

  template <class U>
  void construct(U* /*item*/) const noexcept {}
  template <class U, class First, class... Rest>
  void construct(U* item, First&& first, Rest&&... rest) const {
    std::construct_at(item, std::forward<First>(first), std::forward<Rest>(rest)...);
  }
};

template <class T>
using LargeVector = std::vector<T, UnsetAllocator<T>>;

/// For the pages of less memory a thread costs more time than it saves.
inline constexpr std::size_t kPagesOfAThread = std::size_t{16} << 20U;  // bytes

/// Asks the system for the pages of some memory by all processors at the same time, each for its share of at
/// least `share` bytes. On a virtual machine that takes far longer than to write them. One share is too
/// little to ask for: its pages come when they are written, as all do where a system cannot be asked.
void ask_for_pages(void* memory, std::size_t bytes, std::size_t share = kPagesOfAThread);

/// Items that are not set, whose pages all processors ask for.
template <class T>
[[nodiscard]] LargeVector<T> large_vector(std::size_t size, std::size_t share = kPagesOfAThread) {
  LargeVector<T> items;
  items.reserve(size);
  ask_for_pages(items.data(), size * sizeof(T), share);
  items.resize(size);
  return items;
}

/// Equal items, whose pages all processors ask for.
template <class T>
[[nodiscard]] std::vector<T> vector_by_all_processors(std::size_t size, const T& value) {
  std::vector<T> items;
  items.reserve(size);
  ask_for_pages(items.data(), size * sizeof(T));
  items.resize(size, value);
  return items;
}

}  // namespace ppsim
