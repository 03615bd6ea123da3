#include "ppsim/core/execution/large_vector.hpp"

#include <algorithm>
#include <cstdint>
#include <thread>

#include "ppsim/core/execution/rank_ranges.hpp"

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace ppsim {

#if defined(__linux__) && defined(MADV_POPULATE_WRITE)

void ask_for_pages(void* memory, std::size_t bytes, std::size_t share) {
  constexpr std::uintptr_t kPage = 4096;
  if (bytes / share < 2) return;
  const std::size_t count = std::min<std::size_t>(std::thread::hardware_concurrency(), bytes / share);
  if (count < 2) return;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t begin = (address + kPage - 1) / kPage * kPage;
  const std::uintptr_t end = (address + bytes) / kPage * kPage;
  if (begin >= end) return;
  const std::size_t pages = (end - begin) / kPage;
  all_at_once(count, [&](std::size_t i) {
    const std::size_t first = pages * i / count;
    const std::size_t last = pages * (i + 1) / count;
    auto* const at = reinterpret_cast<void*>(begin + first * kPage);  // NOLINT(performance-no-int-to-ptr)
    // Advice only: where it is not taken, pages come one by one.
    static_cast<void>(madvise(at, (last - first) * kPage, MADV_POPULATE_WRITE));
  });
}

#else

void ask_for_pages(void* /*memory*/, std::size_t /*bytes*/, std::size_t /*share*/) {}

#endif

}  // namespace ppsim
