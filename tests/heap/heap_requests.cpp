// Replaces operator new and operator delete of the whole executable. The forms for arrays, and those that do
// not throw, come to these.

#include "heap/heap_requests.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace ppsim::test {
namespace {

std::atomic<std::uint64_t> requests = 0;
thread_local int not_counted = 0;

void* memory(void* found) {
  if (found == nullptr) throw std::bad_alloc();
  if (not_counted == 0) ++requests;
  return found;
}

}  // namespace

std::uint64_t heap_requests() { return requests; }

NotCounted::NotCounted() { ++not_counted; }
NotCounted::~NotCounted() { --not_counted; }

}  // namespace ppsim::test

void* operator new(std::size_t size) { return ppsim::test::memory(std::malloc(size == 0 ? 1 : size)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto boundary = static_cast<std::size_t>(alignment);
  return ppsim::test::memory(std::aligned_alloc(boundary, (size + boundary) / boundary * boundary));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
