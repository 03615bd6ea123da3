#include "launch.cuh"
#include "launchers.hpp"

namespace ppsim::gpu_backend::cuda {
namespace {

template <class Sum>
__global__ void accumulate_kernel(Accumulate call) {
  const std::int64_t i = global_index();
  if (i < call.count) static_cast<Sum*>(call.into)[i] += static_cast<const Sum*>(call.from)[i];
}

__device__ double square(float value) { return static_cast<double>(value) * static_cast<double>(value); }
__device__ double square(Ring) { return 0; }

template <class Sum>
__global__ void partial_norm_kernel(SquaredNorm call) {
  double sum = 0;
  for (std::int64_t i = global_index(); i < call.count; i += std::int64_t{gridDim.x} * blockDim.x) {
    sum += square(static_cast<const Sum*>(call.values)[i]);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) call.partial[blockIdx.x] = sum;
}

__global__ void whole_norm_kernel(SquaredNorm call) {
  double sum = 0;
  for (unsigned i = threadIdx.x; i < partials_of(call.count); i += blockDim.x) sum += call.partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *call.result += sum;
}

__global__ void add_norm_kernel(AddNorm call) { *call.into += *call.from; }

/// The factor that brings all gradients within the largest norm.
__device__ double clip_scale(const Descend& call) {
  if (call.squared_norm == nullptr) return 1;
  const double norm = sqrt(*call.squared_norm);
  return norm > call.largest_norm ? call.largest_norm / norm : 1;
}

template <class T>
__global__ void momentum_kernel(Descend call) {
  const std::int64_t i = global_index();
  if (i >= call.count) return;
  float* master = static_cast<float*>(call.state);
  float* velocity = master + call.count;
  const float gradient = static_cast<float>(clip_scale(call)) * static_cast<const float*>(call.gradients)[i];
  velocity[i] = static_cast<float>(call.beta1) * velocity[i] + gradient;
  master[i] -= static_cast<float>(call.learning_rate) * velocity[i];
  static_cast<T*>(call.parameters)[i] = Numbers<T>::store(master[i]);
}

template <class T>
__global__ void adamw_kernel(Descend call) {
  const std::int64_t i = global_index();
  if (i >= call.count) return;
  float* master = static_cast<float*>(call.state);
  float* first = master + call.count;
  float* second = first + call.count;
  const double step = static_cast<double>(*call.steps + 1);
  const double gradient =
      static_cast<double>(static_cast<const float*>(call.gradients)[i]) * clip_scale(call);
  const double m = call.beta1 * first[i] + (1 - call.beta1) * gradient;
  const double v = call.beta2 * second[i] + (1 - call.beta2) * gradient * gradient;
  const double unbiased_m = m / (1 - pow(call.beta1, step));
  const double unbiased_v = v / (1 - pow(call.beta2, step));
  const double move = unbiased_m / (sqrt(unbiased_v) + call.epsilon) + call.weight_decay * master[i];
  first[i] = static_cast<float>(m);
  second[i] = static_cast<float>(v);
  master[i] -= static_cast<float>(call.learning_rate * move);
  static_cast<T*>(call.parameters)[i] = Numbers<T>::store(master[i]);
}
__global__ void count_step_kernel(std::int64_t* steps) { ++*steps; }

__global__ void ring_descend_kernel(Descend call) {
  const std::int64_t i = global_index();
  if (i >= call.count) return;
  Ring* velocity = static_cast<Ring*>(call.state);
  velocity[i] = 3 * velocity[i] + static_cast<const Ring*>(call.gradients)[i];
  static_cast<Ring*>(call.parameters)[i] -= velocity[i];
}

template <class T>
void launch_descend(void* stream, const Descend& call) {
  if (!call.adam) {
    launch(momentum_kernel<T>, {blocks_for(call.count), kThreads, stream}, call);
    return;
  }
  launch(adamw_kernel<T>, {blocks_for(call.count), kThreads, stream}, call);
  launch(count_step_kernel, {1, 1, stream}, call.steps);
}
template <>
void launch_descend<Ring>(void* stream, const Descend& call) {
  launch(ring_descend_kernel, {blocks_for(call.count), kThreads, stream}, call);
}

__device__ void draw(const DrawWeights& call, std::int64_t i, std::uint64_t bits, Ring) {
  static_cast<Ring*>(call.weights)[i] = call.fan_in == 0 ? (bits >> 60) | 1 : (bits >> 60) - 8;
}
/// Uniform, with the variance 1 / fan_in.
template <class T>
__device__ void draw(const DrawWeights& call, std::int64_t i, std::uint64_t bits, T) {
  const float uniform = static_cast<float>(bits >> 40) / static_cast<float>(std::uint64_t{1} << 23) - 1;
  const float weight = call.fan_in == 0 ? 1 : uniform * sqrtf(3 / static_cast<float>(call.fan_in));
  static_cast<T*>(call.weights)[i] = Numbers<T>::store(weight);
}

template <class T>
__global__ void draw_weights_kernel(DrawWeights call) {
  const std::int64_t i = global_index();
  if (i >= call.rows * call.columns) return;
  const std::int64_t drawn = i / call.columns * call.row_draws + i % call.columns;
  draw(call, i, random_at(call.seed, call.stream, call.first + static_cast<std::uint64_t>(drawn)), T{});
}

template <class T>
__global__ void start_state_kernel(StartState call) {
  const std::int64_t i = global_index();
  if (i >= call.count) return;
  float* master = static_cast<float*>(call.state);
  master[i] = Numbers<T>::load(static_cast<const T*>(call.parameters)[i]);
  master[call.count + i] = 0;
  master[2 * call.count + i] = 0;
  if (i == 0) *call.steps = 0;
}
template <>
__global__ void start_state_kernel<Ring>(StartState call) {
  const std::int64_t i = global_index();
  if (i < call.count) static_cast<Ring*>(call.state)[i] = 0;
}

}  // namespace

int accumulate(void* stream, Stored stored, const Accumulate& call) {
  if (call.count == 0) return 0;
  return by_type(stored, [&](auto zero) {
    launch(accumulate_kernel<typename Numbers<decltype(zero)>::Sum>,
           {blocks_for(call.count), kThreads, stream}, call);
  });
}

int squared_norm(void* stream, Stored stored, const SquaredNorm& call) {
  return by_type(stored, [&](auto zero) {
    launch(partial_norm_kernel<typename Numbers<decltype(zero)>::Sum>,
           {partials_of(call.count), kThreads, stream}, call);
    launch(whole_norm_kernel, {1, kThreads, stream}, call);
  });
}

int add_norm(void* stream, const AddNorm& call) {
  launch(add_norm_kernel, {1, 1, stream}, call);
  return launched();
}

int draw_weights(void* stream, Stored stored, const DrawWeights& call) {
  const std::int64_t count = call.rows * call.columns;
  if (count == 0) return 0;
  return by_type(stored, [&](auto zero) {
    launch(draw_weights_kernel<decltype(zero)>, {blocks_for(count), kThreads, stream}, call);
  });
}

int start_state(void* stream, Stored stored, const StartState& call) {
  if (call.count == 0) return 0;
  return by_type(stored, [&](auto zero) {
    launch(start_state_kernel<decltype(zero)>, {blocks_for(call.count), kThreads, stream}, call);
  });
}

int descend(void* stream, Stored stored, const Descend& call) {
  if (call.count == 0) return 0;
  return by_type(stored, [&](auto zero) { launch_descend<decltype(zero)>(stream, call); });
}

KernelTable compiled_kernels() {
  return {norm_forward,   apply_gain,   norm_backward, causal_softmax, causal_softmax_backward,
          store_sums,     gate,         gate_backward, draw_tokens,    embed,
          embed_backward, loss,         open_loss,     close_loss,     target_weights,
          merge_loss,     sum_parts,    accumulate,    squared_norm,   add_norm,
          descend,        draw_weights, start_state,   ring_product,   find_scale,
          quantize};
}

}  // namespace ppsim::gpu_backend::cuda
