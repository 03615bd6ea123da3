// The CUDA of fibers that runs the kernels in tests: what it must not let pass.

#include "support/emulated_cuda/cuda_runtime.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

#include "ppsim/core/ir/check.hpp"

namespace ppsim {
namespace {

constexpr unsigned kThreads = 256;

struct Reversal {
  int* numbers;
  bool wait;
};
/// Every thread reads what another one has written.
void reverse(Reversal call) {
  static std::array<int, kThreads> shared;
  shared[threadIdx.x] = call.numbers[threadIdx.x];
  if (call.wait) __syncthreads();
  const int other = shared[kThreads - 1 - threadIdx.x];
  if (call.wait) __syncthreads();
  call.numbers[threadIdx.x] = other;
}

template <class Call>
int launched(void (*kernel)(Call), dim3 grid, dim3 block, Call call) {
  std::array<void*, 1> arguments = {&call};
  return cudaLaunchKernel(kernel, grid, block, arguments.data(), 0, nullptr);
}

TEST(EmulatedCuda, ThreadsOfABlockMeetAtABarrier) {
  std::vector<int> numbers(kThreads);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::vector<int> reversed(numbers.rbegin(), numbers.rend());
  EXPECT_EQ(launched(reverse, 1, kThreads, Reversal{numbers.data(), true}), 0);
  EXPECT_EQ(numbers, reversed);
}

TEST(EmulatedCuda, ABarrierThatIsLeftOutShows) {
  std::vector<int> numbers(kThreads);
  std::iota(numbers.begin(), numbers.end(), 1);
  const std::vector<int> reversed(numbers.rbegin(), numbers.rend());
  EXPECT_EQ(launched(reverse, 1, kThreads, Reversal{numbers.data(), false}), 0);
  EXPECT_NE(numbers, reversed);
}

struct Marks {
  std::vector<dim3>* threads;
};
void mark(Marks call) {
  call.threads->push_back(blockIdx);
  call.threads->push_back(threadIdx);
}

TEST(EmulatedCuda, RunsEveryThreadOfEveryBlockOnce) {
  std::vector<dim3> threads;
  ASSERT_EQ(launched(mark, dim3(3, 2), dim3(4, 8, 2), Marks{&threads}), 0);
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < threads.size(); i += 2) {
    const dim3& block = threads[i];
    const dim3& thread = threads[i + 1];
    places.push_back(((block.y * 3 + block.x) * 2 + thread.z) * 32 + thread.y * 4 + thread.x);
  }
  EXPECT_FALSE(std::is_sorted(places.begin(), places.end())) << "no order is promised";
  std::sort(places.begin(), places.end());
  std::vector<std::size_t> all(3 * 2 * 64);
  std::iota(all.begin(), all.end(), std::size_t{0});
  EXPECT_EQ(places, all);
}

TEST(EmulatedCuda, RefusesWhatNoDeviceTakes) {
  constexpr int kInvalidConfiguration = 9;
  std::vector<dim3> threads;
  const Marks marks{&threads};
  for (const auto& [grid, block] : std::vector<std::pair<dim3, dim3>>{
           {0, 1}, {1, 0}, {1, 1025}, {dim3(1, 65536), 1}, {1, dim3(1, 1, 65)}, {1, dim3(32, 33)}}) {
    EXPECT_EQ(launched(mark, grid, block, marks), kInvalidConfiguration);
    EXPECT_EQ(cudaGetLastError(), kInvalidConfiguration);
    EXPECT_EQ(cudaGetLastError(), 0) << "said once";
  }
  EXPECT_TRUE(threads.empty());
  EXPECT_EQ(launched(mark, 1, 1024, marks), 0);
}

void leave_some(int threads) {
  if (static_cast<int>(threadIdx.x) < threads) __syncthreads();
}

TEST(EmulatedCuda, AThreadThatDoesNotComeToABarrierIsABug) {
  EXPECT_EQ(launched(leave_some, 1, 32, 32), 0);
  EXPECT_EQ(launched(leave_some, 1, 32, 0), 0);
  EXPECT_THROW(launched(leave_some, 1, 32, 31), CheckFailure);
  EXPECT_EQ(launched(leave_some, 1, 32, 32), 0) << "the next block starts afresh";
}

}  // namespace
}  // namespace ppsim
