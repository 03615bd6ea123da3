#pragma once

#include <cstddef>
#include <vector>

namespace ppsim {

/// Has every processor ask the system for its share of the pages of some memory, which takes longer than to
/// write them: on a virtual machine mostly so. Where a system cannot do that, the memory comes when it is
/// written.
void ask_for_pages(void* memory, std::size_t bytes);

/// A vector of many equal items, whose pages all processors ask for.
template <class T>
[[nodiscard]] std::vector<T> vector_by_all_processors(std::size_t size, const T& value = T{}) {
  std::vector<T> items;
  items.reserve(size);
  ask_for_pages(items.data(), size * sizeof(T));
  items.resize(size, value);
  return items;
}

}  // namespace ppsim
