#pragma once

#include "launch.cuh"

namespace ppsim::gpu_backend::cuda {

/// The streams of random numbers that stand for the loss in exact arithmetic, one for each target.
inline constexpr std::uint64_t kLossStreams = std::uint64_t{1} << 62;

struct RowLosses {
  std::int64_t rows;
  const void* of_rows;
  void* loss;
};

template <class Total>
__global__ void sum_loss_kernel(RowLosses call) {
  Total sum{};
  for (std::int64_t r = threadIdx.x; r < call.rows; r += blockDim.x) {
    sum += static_cast<const Total*>(call.of_rows)[r];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) *static_cast<Total*>(call.loss) = sum;
}

/// Sums what the rows of a Loss or CloseLoss have lost.
template <class Total, class Call>
void sum_loss(void* stream, const Call& call) {
  const RowLosses losses{call.rows, call.row_losses, call.loss};
  launch(sum_loss_kernel<Total>, {1, kThreads, stream}, losses);
}

}  // namespace ppsim::gpu_backend::cuda
