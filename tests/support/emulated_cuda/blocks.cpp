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

/// The threads of a block, kept from one block to the next.
class Lanes {
 public:
  void run(void (*kernel)(void*), void* call) {
    kernel_ = kernel;
    call_ = call;
    const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    while (lanes_.size() < threads) lanes_.push_back(lane());
    while (to_next_barrier(threads)) {
    }
  }

  void wait() {
    waits_ = true;
    give_back();
  }

  /// Of `count` blocks the one to run in turn `turn`.
  unsigned block_at(unsigned turn, unsigned count) { return backwards_ ? count - 1 - turn : turn; }
  void turn_round() { backwards_ = random_() % 2 == 0; }

 private:
  fiber lane() {
    // No power of two, behind which all of them would share a few lines of the cache.
    constexpr std::size_t kStack = (32 << 10) + 192;
    return fiber(std::allocator_arg, boost::context::fixedsize_stack(kStack), [this](fiber&& scheduler) {
      scheduler_ = std::move(scheduler);
      for (;;) {
        kernel_(call_);
        waits_ = false;
        give_back();
      }
      return std::move(scheduler_);
    });
  }
  void give_back() { scheduler_ = std::move(scheduler_).resume(); }

  /// Whether the threads have come to a barrier, and not to the end.
  bool to_next_barrier(unsigned threads) {
    unsigned stride = 1 + static_cast<unsigned>(random_() % threads);
    while (std::gcd(stride, threads) != 1) ++stride;
    unsigned waiting = 0;
    unsigned i = static_cast<unsigned>(random_() % threads);
    for (unsigned turn = 0; turn < threads; ++turn, i = (i + stride) % threads) {
      threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
      lanes_[i] = std::move(lanes_[i]).resume();
      waiting += waits_ ? 1 : 0;
    }
    if (waiting == 0 || waiting == threads) return waiting > 0;
    lanes_.clear();
    fail_check("all threads of a block come to a barrier", __FILE__, __LINE__,
               std::to_string(waiting) + " of " + std::to_string(threads) + " have come");
  }

  fiber scheduler_;
  std::vector<fiber> lanes_;
  std::minstd_rand random_;
  void (*kernel_)(void*) = nullptr;
  void* call_ = nullptr;
  bool waits_ = false;
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
