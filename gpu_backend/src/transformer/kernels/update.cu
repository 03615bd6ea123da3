#include "launch.cuh"
#include "launchers.hpp"

namespace ppsim::gpu_backend::cuda {
namespace {

/// A pack for each thread.
template <class T>
__device__ std::int64_t pack_index() {
  return global_index() * kPack<T>;
}
template <class T>
unsigned pack_blocks(std::int64_t count) {
  return blocks_for(count, std::int64_t{kThreads} * kPack<T>);
}

template <class Sum, bool wide>
__global__ void accumulate_kernel(Accumulate call) {
  constexpr int kCount = kPack<Sum>;
  const std::int64_t i = pack_index<Sum>();
  auto into = load_pack<wide, kCount>(static_cast<const Sum*>(call.into), i, call.count);
  const auto from = load_pack<wide, kCount>(static_cast<const Sum*>(call.from), i, call.count);
  for (int n = 0; n < kCount; ++n) into.numbers[n] += from.numbers[n];
  store_pack<wide, kCount>(static_cast<Sum*>(call.into), i, call.count, into);
}

__device__ double square(float value) { return static_cast<double>(value) * static_cast<double>(value); }
__device__ double square(Ring) { return 0; }

template <class Sum, bool wide>
__global__ void partial_norm_kernel(SquaredNorm call) {
  constexpr int kCount = kPack<Sum>;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x * kCount;
  double sum = 0;
  for (std::int64_t i = pack_index<Sum>(); i < call.count; i += step) {
    const auto pack = load_pack<wide, kCount>(static_cast<const Sum*>(call.values), i, call.count);
    for (int n = 0; n < kCount; ++n) sum += square(pack.numbers[n]);
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

/// The factors that all parameters of an update share: of gradients and, for AdamW, the bias corrections of
/// both moments. A graph is made once for all steps, so their number is known on
/// the device alone.
__global__ void descend_factors_kernel(Descend call) {
  call.factors[0] = static_cast<float>(clip_scale(call));
  if (!call.adam) return;
  const double step = static_cast<double>(++*call.steps);
  call.factors[1] = static_cast<float>(1 / (1 - pow(call.beta1, step)));
  call.factors[2] = static_cast<float>(1 / (1 - pow(call.beta2, step)));
}

/// The constants of every parameter and every step, in the type that parameters are updated in.
struct Update {
  std::int64_t count;
  float learning_rate, beta1, rest1, beta2, rest2, epsilon, weight_decay;
  const float* factors;
  const float* gradients;
  float* master;
  float* first;
  float* second;
  void* parameters;
};
Update update_of(const Descend& call) {
  const auto narrow = [](double value) { return static_cast<float>(value); };
  float* const master = static_cast<float*>(call.state);
  return {.count = call.count,
          .learning_rate = narrow(call.learning_rate),
          .beta1 = narrow(call.beta1),
          .rest1 = narrow(1 - call.beta1),
          .beta2 = narrow(call.beta2),
          .rest2 = narrow(1 - call.beta2),
          .epsilon = narrow(call.epsilon),
          .weight_decay = narrow(call.weight_decay),
          .factors = call.factors,
          .gradients = static_cast<const float*>(call.gradients),
          .master = master,
          .first = master + call.count,
          .second = master + 2 * call.count,
          .parameters = call.parameters};
}

template <class T, bool wide>
__global__ void momentum_kernel(Update call) {
  constexpr int kCount = kPack<T>;
  const std::int64_t at = pack_index<T>();
  const float scale = call.factors[0];
  const auto gradients = load_pack<wide, kCount>(call.gradients, at, call.count);
  auto velocity = load_pack<wide, kCount>(call.first, at, call.count);
  auto master = load_pack<wide, kCount>(call.master, at, call.count);
  Pack<T, kCount> parameters;
  for (int i = 0; i < kCount; ++i) {
    const float gradient = scale * gradients.numbers[i];
    velocity.numbers[i] = call.beta1 * velocity.numbers[i] + gradient;
    master.numbers[i] -= call.learning_rate * velocity.numbers[i];
    parameters.numbers[i] = Numbers<T>::store(master.numbers[i]);
  }
  store_pack<wide, kCount>(call.first, at, call.count, velocity);
  store_pack<wide, kCount>(call.master, at, call.count, master);
  store_pack<wide, kCount>(static_cast<T*>(call.parameters), at, call.count, parameters);
}

template <class T, bool wide>
__global__ void adamw_kernel(Update call) {
  constexpr int kCount = kPack<T>;
  const std::int64_t at = pack_index<T>();
  const float scale = call.factors[0];
  const float unbiased1 = call.factors[1];
  const float unbiased2 = call.factors[2];
  const auto gradients = load_pack<wide, kCount>(call.gradients, at, call.count);
  auto first = load_pack<wide, kCount>(call.first, at, call.count);
  auto second = load_pack<wide, kCount>(call.second, at, call.count);
  auto master = load_pack<wide, kCount>(call.master, at, call.count);
  Pack<T, kCount> parameters;
  for (int i = 0; i < kCount; ++i) {
    const float gradient = scale * gradients.numbers[i];
    first.numbers[i] = call.beta1 * first.numbers[i] + call.rest1 * gradient;
    second.numbers[i] = call.beta2 * second.numbers[i] + call.rest2 * gradient * gradient;
    const float move = first.numbers[i] * unbiased1 / (sqrtf(second.numbers[i] * unbiased2) + call.epsilon) +
                       call.weight_decay * master.numbers[i];
    master.numbers[i] -= call.learning_rate * move;
    parameters.numbers[i] = Numbers<T>::store(master.numbers[i]);
  }
  store_pack<wide, kCount>(call.first, at, call.count, first);
  store_pack<wide, kCount>(call.second, at, call.count, second);
  store_pack<wide, kCount>(call.master, at, call.count, master);
  store_pack<wide, kCount>(static_cast<T*>(call.parameters), at, call.count, parameters);
}

__global__ void ring_descend_kernel(Descend call) {
  const std::int64_t i = global_index();
  if (i >= call.count) return;
  Ring* velocity = static_cast<Ring*>(call.state);
  velocity[i] = 3 * velocity[i] + static_cast<const Ring*>(call.gradients)[i];
  static_cast<Ring*>(call.parameters)[i] -= velocity[i];
}

template <class T>
void launch_descend(void* stream, const Descend& call) {
  launch(descend_factors_kernel, {1, 1, stream}, call);
  const Update update = update_of(call);
  const bool all =
      is_wide<T>(0, update.gradients, update.master, update.first, update.second, update.parameters);
  by_width(all, [&](auto wide) {
    launch(call.adam ? adamw_kernel<T, wide.value> : momentum_kernel<T, wide.value>,
           {pack_blocks<T>(call.count), kThreads, stream}, update);
  });
}
template <>
void launch_descend<Ring>(void* stream, const Descend& call) {
  launch(ring_descend_kernel, {blocks_for(call.count), kThreads, stream}, call);
}

__device__ Ring drawn(const DrawWeights& call, std::uint64_t bits, Ring) {
  return call.fan_in == 0 ? (bits >> 60) | 1 : (bits >> 60) - 8;
}
/// Uniform, with the variance 1 / fan_in.
template <class T>
__device__ T drawn(const DrawWeights& call, std::uint64_t bits, T) {
  const float uniform = static_cast<float>(bits >> 40) / static_cast<float>(std::uint64_t{1} << 23) - 1;
  return Numbers<T>::store(call.fan_in == 0 ? 1 : uniform * sqrtf(3 / static_cast<float>(call.fan_in)));
}

template <class T, bool wide>
__global__ void draw_weights_kernel(DrawWeights call) {
  constexpr int kCount = kPack<T>;
  T* row = static_cast<T*>(call.weights) + blockIdx.x * call.columns;
  const std::uint64_t first = call.first + blockIdx.x * static_cast<std::uint64_t>(call.row_draws);
  for_packs<kCount>(call.columns, [&](std::int64_t c) {
    Pack<T, kCount> pack;
    for (int i = 0; i < kCount; ++i) {
      const std::uint64_t at = first + static_cast<std::uint64_t>(c + i);
      pack.numbers[i] = drawn(call, random_at(call.seed, call.stream, at), T{});
    }
    store_pack<wide, kCount>(row, c, call.columns, pack);
  });
}

template <class T, bool wide>
__global__ void start_state_kernel(StartState call) {
  constexpr int kCount = kPack<T>;
  const std::int64_t at = pack_index<T>();
  float* master = static_cast<float*>(call.state);
  const auto parameters = load_pack<wide, kCount>(static_cast<const T*>(call.parameters), at, call.count);
  Pack<float, kCount> pack;
  for (int i = 0; i < kCount; ++i) pack.numbers[i] = Numbers<T>::load(parameters.numbers[i]);
  store_pack<wide, kCount>(master, at, call.count, pack);
  pack = {};
  store_pack<wide, kCount>(master + call.count, at, call.count, pack);
  store_pack<wide, kCount>(master + 2 * call.count, at, call.count, pack);
  if (at == 0) *call.steps = 0;
}
__global__ void start_ring_kernel(StartState call) {
  const std::int64_t i = global_index();
  if (i < call.count) static_cast<Ring*>(call.state)[i] = 0;
}

template <class T>
void launch_start(void* stream, const StartState& call) {
  const float* const master = static_cast<const float*>(call.state);
  by_width(is_wide<T>(0, call.parameters, master, master + call.count, master + 2 * call.count),
           [&](auto wide) {
             launch(start_state_kernel<T, wide.value>, {pack_blocks<T>(call.count), kThreads, stream}, call);
           });
}
template <>
void launch_start<Ring>(void* stream, const StartState& call) {
  launch(start_ring_kernel, {blocks_for(call.count), kThreads, stream}, call);
}

}  // namespace

int accumulate(void* stream, Stored stored, const Accumulate& call) {
  if (call.count == 0) return 0;
  return by_type(stored, [&](auto zero) {
    using Sum = typename Numbers<decltype(zero)>::Sum;
    by_width(is_wide<Sum>(0, call.into, call.from), [&](auto wide) {
      launch(accumulate_kernel<Sum, wide.value>, {pack_blocks<Sum>(call.count), kThreads, stream}, call);
    });
  });
}

int squared_norm(void* stream, Stored stored, const SquaredNorm& call) {
  return by_type(stored, [&](auto zero) {
    using Sum = typename Numbers<decltype(zero)>::Sum;
    by_width(is_wide<Sum>(0, call.values), [&](auto wide) {
      launch(partial_norm_kernel<Sum, wide.value>, {partials_of(call.count), kThreads, stream}, call);
    });
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
    using T = decltype(zero);
    by_width(is_wide<T>(call.columns, call.weights), [&](auto wide) {
      launch(draw_weights_kernel<T, wide.value>,
             {blocks_for(call.rows, 1), threads_for_row<T>(call.columns), stream}, call);
    });
  });
}

int start_state(void* stream, Stored stored, const StartState& call) {
  if (call.count == 0) return 0;
  return by_type(stored, [&](auto zero) { launch_start<decltype(zero)>(stream, call); });
}

int descend(void* stream, Stored stored, const Descend& call) {
  if (call.count == 0) return 0;
  return by_type(stored, [&](auto zero) { launch_descend<decltype(zero)>(stream, call); });
}

KernelTable compiled_kernels() {
  return {
#define PPSIM_CALL(name, type) name,
#include "kernel_table.def"
#undef PPSIM_CALL
  };
}

}  // namespace ppsim::gpu_backend::cuda
