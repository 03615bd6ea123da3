#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <future>
#include <thread>
#include <vector>

namespace ppsim::verifier {

/// Calls work(0) to work(count - 1), on at most so many threads and never more than there are cores, the
/// calling one included. Errors: what one call throws, when the calls that had begun are done; others do not
/// begin. Order: none among the calls.
template <class Work>
void in_parallel(std::size_t count, std::size_t most_threads, const Work& work) {
  std::atomic<std::size_t> next = 0;
  const auto take = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      throw;
    }
  };
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::future<void>> others;
  for (std::size_t t = 1; t < std::min({count, most_threads, cores}); ++t)
    others.push_back(std::async(std::launch::async, take));
  take();
  for (std::future<void>& other : others) other.get();
}

}  // namespace ppsim::verifier
