#include "attention_graphs.hpp"

namespace ppsim::gpu_backend::cuda {
namespace {

/// The tensors that both graphs have, and what both do with them.
class Attention {
 public:
  Attention(const CudnnObjects& objects, const AttentionSizes& d)
      : graph(objects),
        joint(matrix(d, 3 * d.hidden())),
        apart(matrix(d, d.hidden())),
        squares{kCudnnFloat32,
                {d.sequences, d.heads, d.sequence, d.sequence},
                {d.heads * d.sequence * d.sequence, d.sequence * d.sequence, d.sequence, 1}},
        rows{kCudnnFloat32, {d.sequences, d.heads, d.sequence, 1}, {d.heads * d.sequence, d.sequence, 1, 1}} {
  }

  [[nodiscard]] GraphTensor memory(AttentionTensor id, const TensorLayout& layout) {
    return graph.in_memory(static_cast<std::int64_t>(id), layout);
  }
  [[nodiscard]] GraphTensor number(AttentionTensor id) { return graph.number(static_cast<std::int64_t>(id)); }
  /// a * b, a number for each pair of tokens.
  [[nodiscard]] GraphTensor pairs(const GraphTensor& a, const GraphTensor& b) {
    GraphTensor result = graph.inner(squares);
    graph.multiply(a, b, result);
    return result;
  }
  /// Scores above the diagonal are masked.
  [[nodiscard]] GraphTensor masked(const GraphTensor& scores) {
    const GraphTensor row = graph.pointwise({.mode = CudnnPointwise::index, .x = scores, .axis = 2});
    const GraphTensor column = graph.pointwise({.mode = CudnnPointwise::index, .x = scores, .axis = 3});
    const GraphTensor allowed = graph.pointwise(
        {.mode = CudnnPointwise::greater_or_equal, .x = row, .b = column, .precision = kCudnnBoolean});
    return graph.pointwise({CudnnPointwise::select, scores, number(AttentionTensor::forbidden), allowed});
  }
  /// The sum or the largest number of each row.
  [[nodiscard]] GraphTensor of_rows(CudnnReduction reduction, const GraphTensor& x) {
    GraphTensor result = graph.inner(rows);
    graph.reduce(reduction, x, result);
    return result;
  }
  /// x as bf16 with rows as columns.
  [[nodiscard]] GraphTensor transposed(const GraphTensor& x) {
    TensorLayout layout = x.layout.transposed();
    layout.type = kCudnnBfloat16;
    GraphTensor result = graph.inner(layout);
    graph.reshape(x, result);
    return result;
  }

  CudnnGraph graph;
  TensorLayout joint, apart, squares, rows;

 private:
  static TensorLayout matrix(const AttentionSizes& d, std::int64_t row) {
    return {kCudnnBfloat16,
            {d.sequences, d.heads, d.sequence, d.head_size},
            {d.sequence * row, d.head_size, row, 1}};
  }
};

}  // namespace

CudnnGraph attention_forward(const CudnnObjects& objects, const AttentionSizes& d) {
  Attention a(objects, d);
  CudnnGraph& graph = a.graph;
  const GraphTensor scores = a.pairs(a.memory(AttentionTensor::queries, a.joint),
                                     a.memory(AttentionTensor::keys, a.joint.transposed()));
  const GraphTensor scaled =
      graph.pointwise({CudnnPointwise::multiply, scores, a.number(AttentionTensor::scale)});
  const GraphTensor masked = a.masked(scaled);

  const GraphTensor largest = a.of_rows(CudnnReduction::largest, masked);
  const GraphTensor lowered = graph.pointwise({CudnnPointwise::subtract, masked, largest});
  const GraphTensor powers = graph.pointwise({CudnnPointwise::exponential, lowered});
  const GraphTensor sums = a.of_rows(CudnnReduction::sum, powers);
  const GraphTensor logarithms = graph.pointwise({CudnnPointwise::logarithm, sums});
  graph.pointwise({CudnnPointwise::add, largest, logarithms}, a.memory(AttentionTensor::statistics, a.rows));
  TensorLayout rounded = a.squares;
  rounded.type = kCudnnBfloat16;
  const GraphTensor probabilities = graph.inner(rounded);
  graph.pointwise({CudnnPointwise::divide, powers, sums}, probabilities);
  graph.multiply(probabilities, a.memory(AttentionTensor::values, a.joint),
                 a.memory(AttentionTensor::attended, a.apart));
  return std::move(a.graph);
}

CudnnGraph attention_backward(const CudnnObjects& objects, const AttentionSizes& d) {
  Attention a(objects, d);
  CudnnGraph& graph = a.graph;
  const GraphTensor queries = a.memory(AttentionTensor::queries, a.joint);
  const GraphTensor keys = a.memory(AttentionTensor::keys, a.joint.transposed());
  const GraphTensor d_attended = a.memory(AttentionTensor::d_attended, a.apart);
  const GraphTensor scale = a.number(AttentionTensor::scale);

  const GraphTensor weighted =
      graph.pointwise({CudnnPointwise::multiply, d_attended, a.memory(AttentionTensor::attended, a.apart)});
  const GraphTensor sums = a.memory(AttentionTensor::sums, a.rows);
  graph.pointwise(
      {CudnnPointwise::multiply, a.of_rows(CudnnReduction::sum, weighted), a.number(AttentionTensor::one)},
      sums);

  const GraphTensor scaled = graph.pointwise({CudnnPointwise::multiply, a.pairs(queries, keys), scale});
  const GraphTensor lowered =
      graph.pointwise({CudnnPointwise::subtract, scaled, a.memory(AttentionTensor::statistics, a.rows)});
  const GraphTensor probabilities = graph.pointwise({CudnnPointwise::exponential, a.masked(lowered)});
  graph.multiply(a.transposed(probabilities), d_attended, a.memory(AttentionTensor::d_values, a.joint));

  const GraphTensor d_probabilities =
      a.pairs(d_attended, a.memory(AttentionTensor::values, a.joint.transposed()));
  const GraphTensor centred = graph.pointwise({CudnnPointwise::subtract, d_probabilities, sums});
  const GraphTensor through = graph.pointwise({CudnnPointwise::multiply, centred, probabilities});
  const GraphTensor d_scores = graph.pointwise({CudnnPointwise::multiply, through, scale});
  graph.multiply(a.transposed(d_scores), queries, a.memory(AttentionTensor::d_keys, a.joint));
  const GraphTensor upright = graph.inner(a.joint);
  graph.reshape(keys, upright);
  graph.multiply(d_scores, upright, a.memory(AttentionTensor::d_queries, a.joint));
  return std::move(a.graph);
}

}  // namespace ppsim::gpu_backend::cuda
