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
  const std::int64_t first = call.microbatch == nullptr ? call.first : *call.microbatch * call.sequences;
  const std::uint64_t stream = kTokenStreams + static_cast<std::uint64_t>(before + first + s);
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

__global__ void write_number_kernel(WriteNumber call) { *call.to = call.number; }

template <class T, bool wide>
__global__ void embed_kernel(Embed call) {
  using Sum = typename Numbers<T>::Sum;
  constexpr int kCount = kPack<T>;
  const std::int64_t at = place_among(call.tokens[blockIdx.x], call.first, call.vocab);
  const std::int64_t position = blockIdx.x % static_cast<unsigned>(call.length);
  const T* token = static_cast<const T*>(call.table) + (at < 0 ? 0 : at) * call.columns;
  T* stream = static_cast<T*>(call.stream) + blockIdx.x * call.columns;
  for_packs<kCount>(call.columns, [&](std::int64_t c) {
    Pack<Sum, kCount> sums{};
    if (at >= 0) {
      const auto pack = load_pack<wide, kCount>(token, c, call.columns);
      for (int i = 0; i < kCount; ++i) sums.numbers[i] = Numbers<T>::load(pack.numbers[i]);
    }
    if (call.positions != nullptr) {
      const T* row = static_cast<const T*>(call.positions) + position * call.columns;
      const auto pack = load_pack<wide, kCount>(row, c, call.columns);
      for (int i = 0; i < kCount; ++i) sums.numbers[i] += Numbers<T>::load(pack.numbers[i]);
    }
    Pack<T, kCount> result;
    for (int i = 0; i < kCount; ++i) result.numbers[i] = Numbers<T>::store(sums.numbers[i]);
    store_pack<wide, kCount>(stream, c, call.columns, result);
  });
}

/// The workspace of EmbedBackward: the rows in order of buckets, ascending in each of them; and how many rows
/// of a bucket each chunk has, which become where they begin. Behind the last chunk every bucket ends.
struct TokenOrder {
  const std::int32_t* tokens;
  std::int64_t rows;
  std::int32_t* order;
  std::int32_t* places;
};
TokenOrder order_of(const EmbedBackward& call) {
  return {call.tokens, call.rows, call.workspace, call.workspace + call.rows};
}
__device__ unsigned bucket_of(std::int32_t token) { return static_cast<unsigned>(token) % kTokenBuckets; }
static_assert(kTokenBuckets == kThreads);  // each thread has a bucket

/// The tokens of a chunk, for all threads of its block. Returns: how many there are.
__device__ int share_tokens(const TokenOrder& call, std::int32_t* tokens) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kTokenBuckets;
  if (first + threadIdx.x < call.rows) tokens[threadIdx.x] = call.tokens[first + threadIdx.x];
  __syncthreads();
  return static_cast<int>(call.rows - first < kTokenBuckets ? call.rows - first : kTokenBuckets);
}

__global__ void count_tokens_kernel(TokenOrder call) {
  __shared__ std::int32_t tokens[kTokenBuckets];
  const int count = share_tokens(call, tokens);
  std::int32_t own = 0;
  for (int i = 0; i < count; ++i) own += bucket_of(tokens[i]) == threadIdx.x ? 1 : 0;
  call.places[blockIdx.x * kTokenBuckets + threadIdx.x] = own;
}

/// Counts become places: of the buckets one after another, and in each of its chunks.
__global__ void place_buckets_kernel(TokenOrder call) {
  __shared__ std::int32_t ends[kTokenBuckets];
  const std::int64_t chunks = (call.rows + kTokenBuckets - 1) / kTokenBuckets;
  std::int32_t own = 0;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
    own += call.places[chunk * kTokenBuckets + threadIdx.x];
  ends[threadIdx.x] = own;
  __syncthreads();
  std::int32_t place = 0;
  for (unsigned before = 0; before < threadIdx.x; ++before) place += ends[before];
  for (std::int64_t chunk = 0; chunk <= chunks; ++chunk) {
    std::int32_t& at = call.places[chunk * kTokenBuckets + threadIdx.x];
    const std::int32_t rows = chunk < chunks ? at : 0;
    at = place;
    place += rows;
  }
}

__global__ void order_rows_kernel(TokenOrder call) {
  __shared__ std::int32_t tokens[kTokenBuckets];
  const int count = share_tokens(call, tokens);
  std::int32_t place = call.places[blockIdx.x * kTokenBuckets + threadIdx.x];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kTokenBuckets;
  for (int i = 0; i < count; ++i) {
    if (bucket_of(tokens[i]) == threadIdx.x) call.order[place++] = static_cast<std::int32_t>(first + i);
  }
}

/// The block of the first row of a token, in the order of buckets, adds all rows that hold it.
template <class T, bool wide>
__global__ void token_gradient_kernel(EmbedBackward call) {
  using Sum = typename Numbers<T>::Sum;
  constexpr int kCount = kPack<T>;
  const std::int32_t* order = call.workspace;
  const std::int32_t* begins = call.workspace + call.rows;
  const std::int32_t* ends = begins + (call.rows + kTokenBuckets - 1) / kTokenBuckets * kTokenBuckets;
  const std::int32_t token = call.tokens[order[blockIdx.x]];
  const std::int64_t at = place_among(token, call.first, call.vocab);
  if (at < 0) return;
  const unsigned bucket = bucket_of(token);
  for (std::int64_t n = blockIdx.x; n-- > begins[bucket];) {
    if (call.tokens[order[n]] == token) return;
  }
  Sum* table = static_cast<Sum*>(call.d_table) + at * call.columns;
  for_packs<kCount>(call.columns, [&](std::int64_t c) {
    auto sums = load_pack<wide, kCount>(table, c, call.columns);
    for (std::int64_t n = blockIdx.x; n < ends[bucket]; ++n) {
      if (call.tokens[order[n]] != token) continue;
      const T* row = static_cast<const T*>(call.d_stream) + order[n] * call.columns;
      const auto pack = load_pack<wide, kCount>(row, c, call.columns);
      for (int i = 0; i < kCount; ++i) sums.numbers[i] += Numbers<T>::load(pack.numbers[i]);
    }
    store_pack<wide, kCount>(table, c, call.columns, sums);
  });
}

template <class T, bool wide>
__global__ void position_gradient_kernel(EmbedBackward call) {
  using Sum = typename Numbers<T>::Sum;
  constexpr int kCount = kPack<T>;
  Sum* position = static_cast<Sum*>(call.d_positions) + blockIdx.x * call.columns;
  for_packs<kCount>(call.columns, [&](std::int64_t c) {
    auto sums = load_pack<wide, kCount>(position, c, call.columns);
    for (std::int64_t r = blockIdx.x; r < call.rows; r += call.length) {
      const T* row = static_cast<const T*>(call.d_stream) + r * call.columns;
      const auto pack = load_pack<wide, kCount>(row, c, call.columns);
      for (int i = 0; i < kCount; ++i) sums.numbers[i] += Numbers<T>::load(pack.numbers[i]);
    }
    store_pack<wide, kCount>(position, c, call.columns, sums);
  });
}

/// The loss of one row; its logits become their gradients.
template <bool wide, class T>
__device__ float row_loss(const Loss& call, T* logits, std::int32_t target) {
  constexpr int kCount = kPack<T>;
  float top = -INFINITY;
  for_packs<kCount>(call.vocab, [&](std::int64_t c) {
    const auto pack = load_pack<wide, kCount>(logits, c, call.vocab);
    for (int i = 0; i < kCount; ++i) {
      if (c + i < call.vocab) top = fmaxf(top, Numbers<T>::load(pack.numbers[i]));
    }
  });
  top = block_max(top);
  const float target_logit = Numbers<T>::load(logits[target]) - top;
  float sum = 0;
  for_packs<kCount>(call.vocab, [&](std::int64_t c) {
    const auto pack = load_pack<wide, kCount>(logits, c, call.vocab);
    for (int i = 0; i < kCount; ++i) {
      if (c + i < call.vocab) sum += expf(Numbers<T>::load(pack.numbers[i]) - top);
    }
  });
  sum = block_sum(sum);
  const float share = 1 / static_cast<float>(call.tokens);
  for_packs<kCount>(call.vocab, [&](std::int64_t c) {
    auto pack = load_pack<wide, kCount>(logits, c, call.vocab);
    for (int i = 0; i < kCount; ++i) {
      const float gradient =
          expf(Numbers<T>::load(pack.numbers[i]) - top) / sum - (c + i == target ? 1.0F : 0.0F);
      pack.numbers[i] = Numbers<T>::store(gradient * share);
    }
    store_pack<wide, kCount>(logits, c, call.vocab, pack);
  });
  return (logf(sum) - target_logit) * share;
}
/// In exact arithmetic the inner product with numbers that depend on the target.
template <bool wide>
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

template <class T, bool wide>
__global__ void row_loss_kernel(Loss call) {
  using Total = typename Numbers<T>::Sum;
  T* logits = static_cast<T*>(call.logits) + blockIdx.x * call.vocab;
  const Total loss = row_loss<wide>(call, logits, call.targets[blockIdx.x]);
  if (threadIdx.x == 0) static_cast<Total*>(call.row_losses)[blockIdx.x] = loss;
}

}  // namespace

int draw_tokens(void* stream, const DrawTokens& call) {
  launch(draw_tokens_kernel, {blocks_for(call.sequences), kThreads, stream}, call);
  return launched();
}

int write_number(void* stream, const WriteNumber& call) {
  launch(write_number_kernel, {1, 1, stream}, call);
  return launched();
}

int embed(void* stream, Stored stored, const Embed& call) {
  return by_type(stored, [&](auto zero) {
    using T = decltype(zero);
    by_width(is_wide<T>(call.columns, call.table, call.positions, call.stream), [&](auto wide) {
      launch(embed_kernel<T, wide.value>,
             {blocks_for(call.rows, 1), threads_for_row<T>(call.columns), stream}, call);
    });
  });
}

int embed_backward(void* stream, Stored stored, const EmbedBackward& call) {
  const TokenOrder order = order_of(call);
  const auto chunks = static_cast<unsigned>(token_chunks(call.rows));
  launch(count_tokens_kernel, {chunks, kThreads, stream}, order);
  launch(place_buckets_kernel, {1, kThreads, stream}, order);
  launch(order_rows_kernel, {chunks, kThreads, stream}, order);
  return by_type(stored, [&](auto zero) {
    using T = decltype(zero);
    const unsigned threads = threads_for_row<T>(call.columns);
    by_width(is_wide<T>(call.columns, call.d_stream, call.d_table, call.d_positions), [&](auto wide) {
      launch(token_gradient_kernel<T, wide.value>, {blocks_for(call.rows, 1), threads, stream}, call);
      if (call.d_positions == nullptr) return;
      launch(position_gradient_kernel<T, wide.value>, {blocks_for(call.length, 1), threads, stream}, call);
    });
  });
}

int loss(void* stream, Stored stored, const Loss& call) {
  return by_type(stored, [&](auto zero) {
    using T = decltype(zero);
    by_width(is_wide<T>(call.vocab, call.logits), [&](auto wide) {
      launch(row_loss_kernel<T, wide.value>, {blocks_for(call.rows, 1), kThreads, stream}, call);
    });
    sum_loss<typename Numbers<T>::Sum>(stream, call);
  });
}

}  // namespace ppsim::gpu_backend::cuda
