#include "launch.cuh"
#include "launchers.hpp"
#include "loss.cuh"

namespace ppsim::gpu_backend::cuda {
namespace {

constexpr std::uint64_t kTokenStreams = std::uint64_t{1} << 63;

/// One thread walks one sequence: each token follows from the one before it.
__global__ void draw_tokens_kernel(DrawTokens call) {
  const std::int64_t s = global_index();
  if (s >= call.sequences) return;
  const std::int64_t before = call.step == nullptr ? 0 : *call.step * call.per_step;
  const std::uint64_t stream = kTokenStreams + static_cast<std::uint64_t>(before + call.first + s);
  const auto vocab = static_cast<std::uint64_t>(call.vocab);
  std::uint64_t token = 0;
  const std::int64_t unwritten = call.before + (call.next ? 1 : 0);
  for (std::int64_t i = 0; i < unwritten + call.length; ++i) {
    const std::uint64_t draw = random_at(call.seed, stream, static_cast<std::uint64_t>(i));
    const bool jumps = i == 0 || draw % 4 == 0;
    token = (jumps ? draw >> 32 : token * 5 + 7) % vocab;
    const std::int64_t at = i - unwritten;
    if (at >= 0) call.tokens[s * call.length + at] = static_cast<std::int32_t>(token);
  }
}

template <class T>
__global__ void embed_kernel(Embed call) {
  const std::int64_t i = global_index();
  if (i >= call.rows * call.columns) return;
  const std::int64_t row = i / call.columns;
  const std::int64_t c = i % call.columns;
  const std::int64_t at = place_among(call.tokens[row], call.first, call.vocab);
  typename Numbers<T>::Sum sum{};
  if (at >= 0) sum = Numbers<T>::load(static_cast<const T*>(call.table)[at * call.columns + c]);
  if (call.positions != nullptr) {
    const T* position = static_cast<const T*>(call.positions) + row % call.length * call.columns;
    sum += Numbers<T>::load(position[c]);
  }
  static_cast<T*>(call.stream)[i] = Numbers<T>::store(sum);
}

/// The block of the first row that holds a token adds all rows that hold it.
template <class T>
__global__ void token_gradient_kernel(EmbedBackward call) {
  using Sum = typename Numbers<T>::Sum;
  const std::int32_t token = call.tokens[blockIdx.x];
  const std::int64_t at = place_among(token, call.first, call.vocab);
  if (at < 0) return;
  for (std::int64_t r = 0; r < blockIdx.x; ++r) {
    if (call.tokens[r] == token) return;
  }
  Sum* sums = static_cast<Sum*>(call.d_table) + at * call.columns;
  for (std::int64_t r = blockIdx.x; r < call.rows; ++r) {
    if (call.tokens[r] != token) continue;
    const T* row = static_cast<const T*>(call.d_stream) + r * call.columns;
    for (std::int64_t c = threadIdx.x; c < call.columns; c += blockDim.x) sums[c] += Numbers<T>::load(row[c]);
  }
}

template <class T>
__global__ void position_gradient_kernel(EmbedBackward call) {
  using Sum = typename Numbers<T>::Sum;
  Sum* sums = static_cast<Sum*>(call.d_positions) + blockIdx.x * call.columns;
  for (std::int64_t r = blockIdx.x; r < call.rows; r += call.length) {
    const T* row = static_cast<const T*>(call.d_stream) + r * call.columns;
    for (std::int64_t c = threadIdx.x; c < call.columns; c += blockDim.x) sums[c] += Numbers<T>::load(row[c]);
  }
}

/// The loss of one row; its logits become their gradients.
template <class T>
__device__ float row_loss(const Loss& call, T* logits, std::int32_t target) {
  float top = -INFINITY;
  for (std::int64_t c = threadIdx.x; c < call.vocab; c += blockDim.x) {
    top = fmaxf(top, Numbers<T>::load(logits[c]));
  }
  top = block_max(top);
  const float target_logit = Numbers<T>::load(logits[target]) - top;
  float sum = 0;
  for (std::int64_t c = threadIdx.x; c < call.vocab; c += blockDim.x) {
    sum += expf(Numbers<T>::load(logits[c]) - top);
  }
  sum = block_sum(sum);
  const float share = 1 / static_cast<float>(call.tokens);
  for (std::int64_t c = threadIdx.x; c < call.vocab; c += blockDim.x) {
    const float gradient = expf(Numbers<T>::load(logits[c]) - top) / sum - (c == target ? 1.0F : 0.0F);
    logits[c] = Numbers<T>::store(gradient * share);
  }
  return (logf(sum) - target_logit) * share;
}
/// In exact arithmetic the inner product with numbers that depend on the target.
__device__ Ring row_loss(const Loss& call, Ring* logits, std::int32_t target) {
  Ring total = 0;
  for (std::int64_t c = threadIdx.x; c < call.vocab; c += blockDim.x) {
    const Ring factor = random_at(call.seed, kLossStreams + static_cast<std::uint64_t>(target),
                                  static_cast<std::uint64_t>(c));
    total += logits[c] * factor;
    logits[c] = factor;
  }
  return block_sum(total);
}

template <class T>
__global__ void row_loss_kernel(Loss call) {
  using Total = typename Numbers<T>::Sum;
  T* logits = static_cast<T*>(call.logits) + blockIdx.x * call.vocab;
  const Total loss = row_loss(call, logits, call.targets[blockIdx.x]);
  if (threadIdx.x == 0) static_cast<Total*>(call.row_losses)[blockIdx.x] = loss;
}

}  // namespace

int draw_tokens(void* stream, const DrawTokens& call) {
  launch(draw_tokens_kernel, {blocks_for(call.sequences), kThreads, stream}, call);
  return launched();
}

int embed(void* stream, Stored stored, const Embed& call) {
  return by_type(stored, [&](auto zero) {
    launch(embed_kernel<decltype(zero)>, {blocks_for(call.rows * call.columns), kThreads, stream}, call);
  });
}

int embed_backward(void* stream, Stored stored, const EmbedBackward& call) {
  return by_type(stored, [&](auto zero) {
    using T = decltype(zero);
    launch(token_gradient_kernel<T>, {static_cast<unsigned>(call.rows), kThreads, stream}, call);
    if (call.d_positions == nullptr) return;
    launch(position_gradient_kernel<T>, {static_cast<unsigned>(call.length), kThreads, stream}, call);
  });
}

int loss(void* stream, Stored stored, const Loss& call) {
  return by_type(stored, [&](auto zero) {
    using T = decltype(zero);
    launch(row_loss_kernel<T>, {static_cast<unsigned>(call.rows), kThreads, stream}, call);
    sum_loss<typename Numbers<T>::Sum>(stream, call);
  });
}

}  // namespace ppsim::gpu_backend::cuda
