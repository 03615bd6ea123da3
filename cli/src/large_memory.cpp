#include "large_memory.hpp"

#include <cstdlib>  // defines __GLIBC__

#ifdef __GLIBC__

#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <memory>

namespace {

constexpr int kGrowth = 64 << 20;         // bytes that the heap grows by; untouched ones take no memory
constexpr int kLargestInHeap = 32 << 20;  // bytes; larger ones go back to the system when they are freed
// Where a hypervisor first has to find the memory, gigabytes in huge pages take longer than in small ones.
constexpr int kHugeHeap = 256 << 20;
constexpr std::uintptr_t kPage = 4096;

std::uintptr_t heap_end() { return reinterpret_cast<std::uintptr_t>(sbrk(0)) / kPage * kPage; }  // NOLINT

/// Where addresses are counted, those that are set aside would be missing elsewhere.
bool has_all_addresses() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
}

}  // namespace

namespace ppsim::cli {

void prepare_for_large_memory() {
  if (!has_all_addresses()) return;
  const std::uintptr_t begin = heap_end();
  mallopt(M_MMAP_THRESHOLD, kLargestInHeap);
  mallopt(M_TRIM_THRESHOLD, 2 * kHugeHeap);
  mallopt(M_TOP_PAD, kHugeHeap);
  // More than is left of the heap, so that it grows now.
  const std::unique_ptr<void, decltype(&std::free)> growth(std::malloc(kLargestInHeap / 2), &std::free);
  mallopt(M_TOP_PAD, kGrowth);
  // Advice only: a kernel that has no huge pages says no, and nothing else changes.
  if (const std::uintptr_t end = heap_end(); end > begin)
    static_cast<void>(madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE));  // NOLINT
}

}  // namespace ppsim::cli

#else

namespace ppsim::cli {

void prepare_for_large_memory() {}

}  // namespace ppsim::cli

#endif
