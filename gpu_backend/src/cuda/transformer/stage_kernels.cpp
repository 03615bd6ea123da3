#include "cuda/transformer/stage_kernels.hpp"

namespace ppsim::cuda {

std::vector<ProductShape> product_shapes(const Dimensions& d) {
  std::vector<ProductShape> shapes;
  struct Weights {
    Index in, out;
    bool residual;  // its result is added to the residual stream
  };
  shapes.push_back(unrounded(forward_shape(d.rows, d.hidden, d.vocab, false)));
  shapes.push_back(unrounded(input_shape(d.rows, d.hidden, d.vocab)));
  shapes.push_back(unrounded(weight_shape(d.rows, d.hidden, d.vocab)));
  for (const Weights& w : {Weights{d.hidden, 3 * d.hidden, false}, Weights{d.hidden, d.hidden, true},
                           Weights{d.hidden, 2 * d.ffn, false}, Weights{d.ffn, d.hidden, true}}) {
    shapes.push_back(forward_shape(d.rows, w.in, w.out, w.residual));
    shapes.push_back(input_shape(d.rows, w.in, w.out));
    shapes.push_back(weight_shape(d.rows, w.in, w.out));
  }
  if (d.saves_statistics) return shapes;
  const AttentionShapes attention(d);
  for (const ProductShape& shape : {attention.scores, attention.attended, attention.d_values,
                                    attention.d_scores, attention.d_queries, attention.d_keys}) {
    shapes.push_back(shape);
  }
  return shapes;
}

}  // namespace ppsim::cuda
