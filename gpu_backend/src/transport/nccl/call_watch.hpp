#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "device/cuda/gpu_api.hpp"

namespace ppsim::gpu_backend {

/// Ends calls that would not return by themselves: a thread that looks at the clock while another one is
/// inside of them.
class CallWatch {
 public:
  struct Setup {
    const HostClock& clock;
    std::function<void()> check_abort;  ///< throws when the call is not worth waiting for
    std::function<void()> interrupt;    ///< makes the call return; again and again for as long as it does not
  };
  explicit CallWatch(Setup setup);

  /// From here on the calls of this thread are ended at `end`.
  void begin(Nanoseconds end);
  /// Whether they had to be ended so far.
  [[nodiscard]] bool has_interrupted();
  /// They have returned. Returns: false where they had to be ended.
  [[nodiscard]] bool end();

 private:
  void serve(const std::stop_token& stop);
  [[nodiscard]] bool over() const;

  Setup setup_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool watches_ = false;
  bool interrupted_ = false;
  Nanoseconds end_ = 0;
  std::jthread thread_;  ///< it ends before what it uses
};

}  // namespace ppsim::gpu_backend
