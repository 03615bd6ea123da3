#pragma once

#include <cstdint>
#include <functional>

#include "fp8.hpp"
#include "numbers.hpp"

/// The kernels of a transformer stage, each behind one launcher. All tensors are row-major and lie in memory
/// of the device; `stored` is the type of activations and parameters, *sums* are float where it is bf16 or
/// float32, and the same ring where it is the ring. A launcher enqueues on the stream, allocates nothing and
/// waits for nothing. Sums are taken in an order that depends on the shape alone, so the same call gives the
/// same bits.
namespace ppsim::gpu_backend::cuda {

enum class Stored : std::uint8_t { bf16, float32, ring };

/// result = unit * gain with unit = x / rms(x).
struct NormForward {
  std::int64_t rows, columns;
  const void* x;
  const void* gain;
  void* unit;
  void* scale;  ///< a sum per row: 1 / rms
  void* result;
};
/// result = unit * gain once more, for W.
struct ApplyGain {
  std::int64_t rows, columns;
  const void* unit;
  const void* gain;
  void* result;
};
/// The sum over rows is taken in chunks of so many, in ascending order, then over the chunks.
inline constexpr std::int64_t kGainRows = 16;
PPSIM_BOTH inline constexpr std::int64_t gain_chunks(std::int64_t rows) {
  return (rows + kGainRows - 1) / kGainRows;
}
/// d_gain = sum over rows of d_result * unit; d_x = residual + the gradient of x.
struct NormBackward {
  std::int64_t rows, columns;
  const void* unit;
  const void* scale;
  const void* gain;
  const void* d_result;
  const void* residual;  ///< null: zeros
  void* partial;         ///< workspace: gain_chunks(rows) rows of sums
  void* d_gain;          ///< sums
  void* d_x;
};
/// Of square matrices the last `rows` rows: each becomes the softmax of its numbers up to the diagonal times
/// `factor`, zeros after it.
struct CausalSoftmax {
  std::int64_t matrices, rows, columns;
  float factor;  ///< not used in the ring, where scores are their own softmax
  void* scores;
};
struct CausalSoftmaxBackward {
  std::int64_t matrices, rows, columns;
  float factor;
  const void* probabilities;
  void* d_scores;  ///< gradients of probabilities, replaced by those of scores
};
/// Rows of sums next to each other become stored numbers in rows that start `stride` numbers apart.
struct StoreSums {
  std::int64_t rows, columns;
  const void* sums;
  void* result;
  std::int64_t stride;
};
/// activated = activation(gate) * up, with gate and up side by side in rows of 2 * width.
struct Gate {
  std::int64_t rows, width;
  const void* gate_up;
  void* activated;
};
struct GateBackward {
  std::int64_t rows, width;
  const void* gate_up;
  const void* d_activated;
  void* d_gate_up;
};
/// Of sequences first, first + 1, ... the `length` tokens behind the first `before` ones; with `next` the
/// tokens that follow each. Every step has `per_step` sequences of its own.
struct DrawTokens {
  std::uint64_t seed;
  const std::int64_t* step;  ///< null: 0
  const std::int64_t*
      microbatch;  ///< where the number of the microbatch is, in place of `first`; null: nowhere
  std::int64_t per_step;
  std::int64_t first, sequences, before, length;
  std::int32_t vocab;
  bool next;
  std::int32_t* tokens;
};
struct WriteNumber {
  std::int64_t number;
  std::int64_t* to;
};
/// Row r is at position r modulo `length`. The table has a row for each of `vocab` tokens from `first` on;
/// other tokens have zeros.
struct Embed {
  std::int64_t rows, length, columns, first, vocab;
  const std::int32_t* tokens;
  const void* table;
  const void* positions;  ///< null: none are added
  void* stream;
};
/// Rows are put in order by kTokenBuckets buckets of tokens, which chunks of as many rows count and fill.
inline constexpr std::int64_t kTokenBuckets = 256;
inline constexpr std::int64_t token_chunks(std::int64_t rows) {
  return (rows + kTokenBuckets - 1) / kTokenBuckets;
}
/// Numbers of the workspace that EmbedBackward needs for so many rows.
inline constexpr std::int64_t token_workspace(std::int64_t rows) {
  return rows + (token_chunks(rows) + 1) * kTokenBuckets;
}
/// Adds to the gradients of both tables, in ascending order of rows.
struct EmbedBackward {
  std::int64_t rows, length, columns, first, vocab;
  const std::int32_t* tokens;
  const void* d_stream;
  std::int32_t* workspace;  ///< of token_workspace(rows)
  void* d_table;            ///< sums
  void* d_positions;        ///< sums; null: none
};
/// Cross-entropy as a part of an average over `tokens`: logits are replaced by their gradients.
struct Loss {
  std::int64_t rows, tokens, vocab;
  std::uint64_t seed;
  const std::int32_t* targets;
  void* logits;
  void* row_losses;  ///< workspace: a sum a row
  void* loss;        ///< one sum; written
};
/// The loss where the vocabulary is in parts, of which the logits of `vocab` tokens from `first` on are one:
/// logits are replaced by their exponentials below the largest of a row, in the ring by their gradients.
struct OpenLoss {
  std::int64_t rows, first, vocab;
  std::uint64_t seed;
  const std::int32_t* targets;
  void* logits;
  void* own;  ///< LossParts of sums for each row
  void* all;  ///< the same once more, where those of the other parts are to be merged
};
/// Replaces what OpenLoss left of the logits by their gradients.
struct CloseLoss {
  std::int64_t rows, tokens, first, vocab;
  const std::int32_t* targets;
  const void* own;
  const void* all;
  void* logits;
  void* row_losses;  ///< workspace: a sum a row; null: another part takes the loss
  void* loss;        ///< one sum; written
};
/// Each row becomes the column of its target times 1 / tokens, or zeros where another part has it; zeros in
/// the ring.
struct TargetWeights {
  std::int64_t rows, columns, tokens, first, vocab;
  const std::int32_t* targets;
  const void* weights;  ///< columns x vocab
  void* result;
};
/// Of `parts` parts, which begin `stride` bytes apart, all get the statistics of all, merged in ascending
/// order. `scaled` of the first, which is null where there is none, becomes the sum over the parts of each
/// one's scaled, times the factor that its own statistics give, less its of_targets.
struct MergeLoss {
  std::int64_t parts, stride, rows, columns, tokens;
  void* statistics;  ///< LossParts of sums for each row
  void* scaled;
  const void* of_targets;
};
/// The numbers of the first part become the sums over all, in ascending order.
struct SumParts {
  std::int64_t parts, stride, count;
  void* numbers;
};
/// into += from, sums both.
struct Accumulate {
  std::int64_t count;
  void* into;
  const void* from;
};
/// result += sum of squares, 0 in the ring.
struct SquaredNorm {
  std::int64_t count;
  const void* values;  ///< sums
  double* partial;     ///< workspace of kPartials
  double* result;
};
inline constexpr int kPartials = 1024;
/// into += from, of two squared norms.
struct AddNorm {
  double* into;
  const double* from;
};
/// AdamW with a float32 master copy (Loshchilov and Hutter, "Decoupled weight decay regularization",
/// algorithm 2); in the ring the CPU's exact rule.
struct Descend {
  std::int64_t count;
  bool adam;  ///< else descent with momentum beta1
  double learning_rate, beta1, beta2, epsilon, weight_decay;
  const double* squared_norm;  ///< of all gradients; null: no clipping
  double largest_norm;
  void* parameters;
  const void* gradients;  ///< sums
  void* state;            ///< three floats a parameter: master copy, both moments; in the ring one number
  std::int64_t* steps;    ///< updates done, of this block; counted up. Not used in the ring
  float* factors;         ///< workspace of kDescendFactors
};
inline constexpr int kDescendFactors = 3;
/// Parameters as they are before the first step, as on the CPU: a matrix is drawn row by row from one stream,
/// beginning with draw `first`; from the start of a row to that of the next there are `row_draws` of them.
struct DrawWeights {
  std::uint64_t seed, stream, first;
  std::int64_t rows, columns, row_draws, fan_in;  ///< fan_in 0: gains
  void* weights;
};
/// The state of Descend before its first update.
struct StartState {
  std::int64_t count;
  const void* parameters;
  void* state;
  std::int64_t* steps;
};
/// c = a * b (+ c), by plain loops over whole numbers: for the ring, which no library multiplies.
struct RingProduct {
  std::int64_t rows, columns, inner, batches;
  const std::uint64_t* a;
  std::int64_t a_row, a_inner, a_batch;  ///< strides
  const std::uint64_t* b;
  std::int64_t b_inner, b_column, b_batch;
  std::uint64_t* c;
  std::int64_t c_row, c_batch;
  bool accumulate;
};

/// scale = what the numbers of an fp8 copy are times: the largest absolute value of a matrix in bf16, NaNs
/// aside, over the largest number of the type.
struct FindScale {
  std::int64_t count;
  const void* values;
  Fp8 type;
  float* partial;  ///< workspace of kPartials
  float* scale;
};
/// values / scale in fp8, to nearest even and saturating, by rows or by columns or both; null: not wanted.
struct Quantize {
  std::int64_t rows, columns;
  const void* values;
  const float* scale;
  Fp8 type;
  std::uint8_t* by_rows;
  std::uint8_t* by_columns;
};

/// The arguments of a launcher, which returns the error code of the CUDA runtime, 0 for none.
template <class Call>
using StoredLauncher = int(void* stream, Stored stored, const Call& call);
template <class Call>
using Launcher = int(void* stream, const Call& call);

struct KernelTable {
#define PPSIM_CALL(name, type) std::function<type> name;
#include "kernel_table.def"
#undef PPSIM_CALL
};

/// The kernels compiled into this build. Requires: a build with CUDA.
[[nodiscard]] KernelTable compiled_kernels();

}  // namespace ppsim::gpu_backend::cuda
