#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "device/cuda/gpu_api.hpp"

namespace ppsim::test {

using namespace gpu_backend;

/// How often the executor asked the heap for memory in one step.
struct StepRequests {
  std::uint64_t inside = 0;  ///< from its first call to what it has seen complete
  std::uint64_t whole = 0;   ///< until the next one is prepared
};

/// Counts the requests of every step by the marks that the executor sets; those of the libraries are not
/// counted. Requires: one run at a time, and nothing else beside it.
class StepWatch {
 public:
  explicit StepWatch(int steps);

  /// Requires: an object that outlives the tables; to be called by the thread that runs the steps.
  void watch(GpuApi& api);
  /// Of every step but the last, whose end no mark tells.
  [[nodiscard]] std::vector<StepRequests> steps() const;

 private:
  /// Requests of the process so far.
  struct Begin {
    std::uint64_t preparation = 0;
    std::uint64_t step = 0;
    std::uint64_t end = 0;
  };
  void pushed(const char* name);
  void popped();

  std::vector<Begin> begins_;
  std::thread::id thread_;
  int open_ = 0;       ///< marks
  bool step_ = false;  ///< that of a step is the first of them
};

}  // namespace ppsim::test
