#include "first_parameters.hpp"

namespace ppsim::gpu_backend::cuda {
namespace {

using transformer::LayerWeights;
using transformer::StageWeights;

template <class T>
class FirstParameters {
 public:
  using Means = DrawMeans;
  explicit FirstParameters(const Means& means) : means_(means), d_(means.d) {}

  void draw(const StageRole& role, const StageWeights<T>& weights) const {
    draw_ends(role, weights);
    for (int i = 0; i < role.layers; ++i) draw_layer(role.first_layer + i, weights.layers[i]);
  }

 private:
  /// Draws tensors one after the other from one stream of random numbers.
  class Draws {
   public:
    Draws(const Means& means, std::uint64_t random_stream) : means_(means), random_stream_(random_stream) {}
    void skip(Index numbers) { drawn_ += static_cast<std::uint64_t>(numbers); }
    void gains(const View<T>& tensor) { weights(0, tensor); }
    void weights(Index fan_in, const View<T>& tensor) { columns(fan_in, tensor, {0, tensor.cols()}); }
    /// Columns of a matrix that has `stride` of them.
    struct Columns {
      Index first, stride;
    };
    void columns(Index fan_in, const View<T>& tensor, const Columns& own) {
      const DrawWeights call{.seed = means_.seed,
                             .stream = random_stream_,
                             .first = drawn_ + static_cast<std::uint64_t>(own.first),
                             .rows = tensor.rows(),
                             .columns = tensor.cols(),
                             .row_draws = own.stride,
                             .fan_in = fan_in,
                             .weights = const_cast<T*>(tensor.data())};
      check_launch(means_.cuda, means_.kernels.draw_weights(means_.stream, kStored<T>, call),
                   "drawing parameters");
      skip(tensor.rows() * own.stride);
    }

   private:
    const Means& means_;
    std::uint64_t random_stream_;
    std::uint64_t drawn_ = 0;
  };

  void draw_ends(const StageRole& role, const StageWeights<T>& weights) const {
    const TokenRange own = vocabulary_of(d_, role);
    if (role.embedding) {
      Draws draws(means_, 0);
      draws.skip(own.first * d_.hidden);
      draws.weights(role.table ? d_.hidden : 1, weights.tokens);
      draws.skip((role.tied ? d_.vocab : d_.vocab - own.first - own.count) * d_.hidden);
      if (role.has_positions()) draws.weights(1, weights.positions);
    }
    Draws draws(means_, 1);
    if (role.final_norm) draws.gains(weights.final_gain);
    if (role.is_head_shard()) draws.skip(d_.hidden);
    if (role.has_head_weights()) draws.columns(d_.hidden, weights.head, {own.first, d_.vocab});
  }
  void draw_layer(int layer, const LayerWeights<T>& weights) const {
    Draws draws(means_, static_cast<std::uint64_t>(layer) + 2);
    draws.gains(weights.attention_gain);
    draws.weights(d_.hidden, weights.qkv);
    draws.weights(d_.hidden, weights.projection);
    draws.gains(weights.mlp_gain);
    draws.weights(d_.hidden, weights.gate_up);
    draws.weights(d_.ffn, weights.down);
  }

  Means means_;
  const Dimensions& d_;
};

}  // namespace

template <class T>
void draw_first_parameters(const DrawMeans& means, const StageRole& role, const StageWeights<T>& weights) {
  FirstParameters<T>(means).draw(role, weights);
}

template void draw_first_parameters(const DrawMeans&, const StageRole&, const StageWeights<Bf16>&);
template void draw_first_parameters(const DrawMeans&, const StageRole&, const StageWeights<float>&);
template void draw_first_parameters(const DrawMeans&, const StageRole&, const StageWeights<Ring>&);

}  // namespace ppsim::gpu_backend::cuda
