#include "heap.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>  // defines __GLIBC__
#include <thread>

#ifdef __GLIBC__
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "ppsim/core/execution/rank_ranges.hpp"

namespace ppsim::cli {

void give_back_free_memory(const Program& lowered) {
  constexpr std::size_t kLarge = 4'000'000;  // instructions
  if (lowered.size() < kLarge) return;
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

#if defined(__GLIBC__) && defined(MADV_POPULATE_WRITE)

std::future<void> ask_for_pages_ahead(const planner::Ir& ir) {
  // Bytes, of a pass and its transfers in Program, graph and trace.
  constexpr std::size_t kOfAPass = 224;
  constexpr std::size_t kWorthAThread = std::size_t{16} << 20U;
  constexpr std::size_t kMaxBytes = std::size_t{128} << 20U;  // larger arrays do not come from the heap
  const auto* schedule = std::get_if<Schedule>(&ir);
  if (schedule == nullptr || schedule->pipeline().ranks() < 2) return {};
  const std::size_t bytes = schedule->action_count() * kOfAPass;
  if (bytes < kWorthAThread || bytes > kMaxBytes || std::thread::hardware_concurrency() < 2) return {};
  const auto end = reinterpret_cast<std::uintptr_t>(sbrk(0));  // NOLINT
  const std::uintptr_t begin = end - mallinfo2().keepcost;     // of what no one has yet
  return on_a_thread([begin, last = std::min(end, begin + bytes)] {
    constexpr std::uintptr_t kPage = 4096;
    constexpr std::uintptr_t kHugePage = 2 << 20;  // at a time: a thread that starts meanwhile waits as long
    std::uintptr_t to = 0;
    for (std::uintptr_t at = (begin + kPage - 1) / kPage * kPage; at < last; at = to) {
      to = (at / kHugePage + 1) * kHugePage;
      if (to > last) return;
      auto* const memory = reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr)
      // Advice only: where it is not taken, pages come one by one.
      if (madvise(memory, to - at, MADV_POPULATE_WRITE) != 0) return;
    }
  });
}

#else

std::future<void> ask_for_pages_ahead(const planner::Ir& /*ir*/) { return {}; }

#endif

}  // namespace ppsim::cli
