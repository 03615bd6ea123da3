#include "gpu_api.hpp"

#include <chrono>
#include <thread>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#endif

namespace ppsim {

MarkTable profiler_marks() {
#if __has_include(<nvtx3/nvToolsExt.h>)
  return {[](const char* name) { nvtxRangePushA(name); }, [] { nvtxRangePop(); }};
#else
  return {[](const char*) {}, [] {}};
#endif
}

HostClock host_clock() {
  return {[] {
            const auto since = std::chrono::steady_clock::now().time_since_epoch();
            return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
          },
          [] { std::this_thread::yield(); }};
}

}  // namespace ppsim
