#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ppsim/core/ir/check.hpp"
#include "support/emulated_cuda/cuda_runtime.h"

namespace ppsim::test {
namespace {

using boost::context::fiber;

/// The threads of a block. They run one after the other on one fiber, until one waits at a barrier: it keeps
/// its fiber, and the next thread begins on another. Fibers are kept from one block to the next.
class Lanes {
 public:
  void run(void (*kernel)(void*), void* call) {
    kernel_ = kernel;
    call_ = call;
    threads_ = blockDim.x * blockDim.y * blockDim.z;
    begun_ = 0;
    for (;;) {
      order_ = any_order(threads_);
      turn_ = waiting_ = 0;
      switch_to(next(), caller_);
      if (waiting_ == 0) return;
      if (waiting_ < threads_) break;
    }
    lanes_.clear();
    fail_check("all threads of a block come to a barrier", __FILE__, __LINE__,
               std::to_string(waiting_) + " of " + std::to_string(threads_) + " have come");
  }

  void wait() {
    ++waiting_;
    leave();
  }

  /// Of `count` blocks the one to run in turn `turn`.
  unsigned block_at(unsigned turn, unsigned count) { return backwards_ ? count - 1 - turn : turn; }
  void turn_round() { backwards_ = random_() % 2 == 0; }

 private:
  struct Lane {
    fiber at;
    dim3 thread;
  };
  /// Every `stride`th of `count`, from one on that is drawn.
  struct Order {
    unsigned at, stride, count;
    unsigned take() { return std::exchange(at, at + stride < count ? at + stride : at + stride - count); }
  };

  Order any_order(unsigned count) {
    unsigned stride = 1 + static_cast<unsigned>(random_() % count);
    while (std::gcd(stride, count) != 1) ++stride;
    return {.at = static_cast<unsigned>(random_() % count), .stride = stride % count, .count = count};
  }

  Lane lane() {
    // No power of two, behind which all of them would share a few lines of the cache.
    constexpr std::size_t kStack = (32 << 10) + 192;
    const auto body = [this](fiber&& never) {
      for (;;) {
        while (begun_ < threads_) begin_thread();
        leave();
      }
      return std::move(never);
    };
    return {fiber(std::allocator_arg, boost::context::fixedsize_stack(kStack), body), {}};
  }
  void begin_thread() {
    const unsigned i = order_.take();
    const dim3 thread = i < blockDim.x
                            ? dim3{i, 0, 0}
                            : dim3{i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
    threadIdx = thread;
    lanes_[current_].thread = thread;
    turn_ = ++begun_;
    kernel_(call_);
  }

  void leave() {
    const unsigned left = current_;
    fiber& to = turn_ < threads_ ? next() : caller_;
    switch_to(to, lanes_[left].at);
  }
  /// The fiber whose turn it is: a fresh one as long as threads have to begin.
  fiber& next() {
    if (begun_ < threads_) {
      current_ = waiting_;
      if (current_ == lanes_.size()) lanes_.push_back(lane());
    } else {
      current_ = order_.take();
      ++turn_;
      threadIdx = lanes_[current_].thread;
    }
    return lanes_[current_].at;
  }
  static void switch_to(fiber& to, fiber& left) {
    std::move(to).resume_with([&left](fiber&& from) {
      left = std::move(from);
      return fiber();
    });
  }

  fiber caller_;
  std::vector<Lane> lanes_;
  std::minstd_rand random_;
  void (*kernel_)(void*) = nullptr;
  void* call_ = nullptr;
  Order order_{};
  unsigned threads_ = 0, begun_ = 0, turn_ = 0, waiting_ = 0, current_ = 0;
  bool backwards_ = false;
};

thread_local Lanes lanes;
thread_local int launch_error = 0;

/// Programming guide, "Compute capabilities", table "Technical specifications".
bool a_device_takes(dim3 grid, dim3 block) {
  const auto within = [](unsigned count, unsigned most) { return count >= 1 && count <= most; };
  return within(grid.x, 0x7fffffffU) && within(grid.y, 0xffffU) && within(grid.z, 0xffffU) &&
         within(block.x, 1024) && within(block.y, 1024) && within(block.z, 64) &&
         std::uint64_t{block.x} * block.y * block.z <= 1024;
}

}  // namespace

int run_blocks(dim3 grid, dim3 block, void (*kernel)(void*), void* call) {
  constexpr int kInvalidConfiguration = 9;
  if (!a_device_takes(grid, block)) {
    if (launch_error == 0) launch_error = kInvalidConfiguration;
    return kInvalidConfiguration;
  }
  gridDim = grid;
  blockDim = block;
  lanes.turn_round();
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {lanes.block_at(x, grid.x), lanes.block_at(y, grid.y), lanes.block_at(z, grid.z)};
        lanes.run(kernel, call);
      }
    }
  }
  return 0;
}

void wait_for_block() { lanes.wait(); }
int take_launch_error() { return std::exchange(launch_error, 0); }

}  // namespace ppsim::test
