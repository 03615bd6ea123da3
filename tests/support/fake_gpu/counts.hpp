#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace ppsim::test {

/// The host cost of a run beyond the calls themselves.
struct FakeCounts {
  std::size_t launches = 0;     ///< kernels, copies, fills, and launches of NCCL
  std::size_t threads = 0;      ///< that NCCL makes to end a group behind the back of its caller
  std::size_t polls = 0;        ///< questions whether such a thread is done
  std::size_t splits = 0;       ///< of communicators, by a rank
  std::size_t allocations = 0;  ///< of memory of the device or pinned
  friend bool operator==(const FakeCounts&, const FakeCounts&) = default;
};

/// The counts of a run: of all, of what happens inside of steps, and of that by action.
struct FakeBooks {
  FakeCounts all;
  FakeCounts in_steps;
  std::map<std::string, FakeCounts> of_actions;  ///< by the mark that the executor sets
};

}  // namespace ppsim::test
