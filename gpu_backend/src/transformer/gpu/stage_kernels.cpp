#include "stage_kernels.hpp"

namespace ppsim::gpu_backend::cuda {
namespace {

/// Where the parts of a matrix lie that belong to one head.
struct Heads {
  Index row;   ///< numbers between rows
  Index head;  ///< numbers between heads
};
struct Extent {
  Index rows, columns, inner;
};
ProductShape product_of(const Extent& extent, const Heads& a, const Heads& b, const Heads& c) {
  return {.rows = extent.rows,
          .columns = extent.columns,
          .inner = extent.inner,
          .a_stride = a.row,
          .b_stride = b.row,
          .c_stride = c.row,
          .a_batch = a.head,
          .b_batch = b.head,
          .c_batch = c.head};
}

void add_weight_shapes(const Dimensions& d, std::vector<ProductShape>& shapes) {
  struct Weights {
    Index in, out;
    bool residual;  // its result is added to the residual stream
  };
  for (const Weights& w : {Weights{d.hidden, 3 * d.hidden, false}, Weights{d.hidden, d.hidden, true},
                           Weights{d.hidden, 2 * d.ffn, false}, Weights{d.ffn, d.hidden, true}}) {
    shapes.push_back(forward_shape(d.rows, w.in, w.out, w.residual));
    shapes.push_back(input_shape(d.rows, w.in, w.out));
    shapes.push_back(weight_shape(d.rows, w.in, w.out));
  }
}

/// The head's weights have `in` rows: tied ones are used transposed.
void add_head_shapes(const Dimensions& d, Index in, Index out, std::vector<ProductShape>& shapes) {
  shapes.push_back(unrounded(forward_shape(d.rows, in, out, false)));
  shapes.push_back(unrounded(input_shape(d.rows, in, out)));
  shapes.push_back(unrounded(weight_shape(d.rows, in, out)));
}

}  // namespace

AttentionShapes::AttentionShapes(const Dimensions& d, const Dimensions& of) {
  const bool is_last = d.keys() == d.sequence;
  const bool into_sums = !is_last || of.before < d.before;
  const Heads joint{3 * d.hidden, d.head_size};
  const Heads apart{d.hidden, d.head_size};
  const Heads pairs{d.keys(), d.length * d.keys()};
  const Heads kept = into_sums ? Heads{2 * d.hidden, d.head_size} : joint;
  scores = product_of({d.length, of.length, d.head_size}, joint, joint, pairs);
  attended = product_of({d.length, d.head_size, of.length}, pairs, joint, apart);
  d_scores = product_of({d.length, of.length, d.head_size}, apart, joint, pairs);
  d_queries = product_of({d.length, d.head_size, of.length}, pairs, joint, joint);
  d_values = product_of({of.length, d.head_size, d.length}, pairs, apart, kept);
  d_keys = product_of({of.length, d.head_size, d.length}, pairs, joint, kept);
  scores.transpose_b = d_scores.transpose_b = true;
  attended.accumulate = d_queries.accumulate = of.before > 0;
  d_values.transpose_a = d_keys.transpose_a = true;
  d_values.into_sums = d_keys.into_sums = into_sums;
  d_values.accumulate = d_keys.accumulate = !is_last;
  for (ProductShape* const shape : {&scores, &attended, &d_values, &d_scores, &d_queries, &d_keys}) {
    shape->batches = d.heads;
    shape->offset = of.before;
  }
}

std::vector<ProductShape> product_shapes(std::span<const Dimensions> slices,
                                         std::span<const Index> head_widths, bool tied) {
  std::vector<ProductShape> shapes;
  for (std::size_t k = 0; k < slices.size(); ++k) {
    for (const Index width : head_widths) {
      const Index hidden = slices[k].hidden;
      add_head_shapes(slices[k], tied ? width : hidden, tied ? hidden : width, shapes);
    }
    add_weight_shapes(slices[k], shapes);
    if (slices[k].saves_statistics) continue;
    for (std::size_t j = 0; j <= k; ++j) {
      const AttentionShapes attention(slices[k], slices[j]);
      for (const ProductShape& shape : {attention.scores, attention.attended, attention.d_values,
                                        attention.d_scores, attention.d_queries, attention.d_keys}) {
        shapes.push_back(shape);
      }
    }
  }
  return shapes;
}

}  // namespace ppsim::gpu_backend::cuda
