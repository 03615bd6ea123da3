#include "large_memory.hpp"

// Replaces operator new of the whole process, so it belongs to the program alone and not to a library.

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PPSIM_OWN_NEW 0  // sanitizers have an operator new of their own
#else
#define PPSIM_OWN_NEW 1
#endif

#include <cstdlib>  // defines __GLIBC__

#if defined(__GLIBC__) && PPSIM_OWN_NEW

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <new>

namespace {

constexpr std::uintptr_t kOff = 0;
constexpr int kHeapStep = 64 << 20;       // bytes that the heap grows by; untouched ones take no memory
constexpr int kLargestInHeap = 32 << 20;  // bytes; larger ones go back to the system when they are freed
constexpr std::size_t kMayGrowHeap =
    1024;  // bytes; smaller ones grow it too, and the next larger one sees it
// Where a hypervisor first has to find the memory, gigabytes in huge pages take longer than in small ones.
constexpr std::size_t kMaxHugeHeap = std::size_t{256} << 20;

/// Where the heap began, and up to where it has been looked at; kOff before the program wants huge pages.
std::atomic<std::uintptr_t> heap_begin{kOff};
std::atomic<std::uintptr_t> known_top{kOff};

/// Advice only: a kernel that has no huge pages says no, and nothing else changes.
void ask_for_huge_pages(std::uintptr_t begin, std::uintptr_t end) {
  if (begin >= end) return;
  static_cast<void>(madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE));  // NOLINT
}

std::uintptr_t page_above(std::uintptr_t address) {
  constexpr std::uintptr_t kPage = 4096;
  return (address + kPage - 1) / kPage * kPage;
}

std::uintptr_t heap_top() { return page_above(reinterpret_cast<std::uintptr_t>(sbrk(0))); }  // NOLINT

/// The heap may have grown, or given memory back and grown again.
void note_heap() {
  const std::uintptr_t top = heap_top();
  if (top == known_top.load(std::memory_order_relaxed)) return;
  const std::uintptr_t known = known_top.exchange(top, std::memory_order_relaxed);
  if (top - heap_begin.load(std::memory_order_relaxed) <= kMaxHugeHeap) ask_for_huge_pages(known, top);
}

}  // namespace

void* operator new(std::size_t size) {
  for (;;) {
    if (void* memory = std::malloc(size == 0 ? 1 : size)) {
      if (size >= kMayGrowHeap && known_top.load(std::memory_order_relaxed) != kOff) note_heap();
      return memory;
    }
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace ppsim::cli {

void prepare_for_large_memory() {
  mallopt(M_MMAP_THRESHOLD, kLargestInHeap);
  mallopt(M_TRIM_THRESHOLD, 2 * kHeapStep);
  mallopt(M_TOP_PAD, kHeapStep);
  heap_begin.store(heap_top(), std::memory_order_relaxed);
  known_top.store(heap_top(), std::memory_order_relaxed);
}

}  // namespace ppsim::cli

#else

namespace ppsim::cli {

void prepare_for_large_memory() {}

}  // namespace ppsim::cli

#endif
