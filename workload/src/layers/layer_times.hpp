#pragma once

#include <cstdint>
#include <vector>

#include "operators/network.hpp"
#include "operators/operator_times.hpp"
#include "ppsim/workload/analytic.hpp"

namespace ppsim::workload {

/// Seconds of one microbatch on one GPU.
struct PassTimes {
  double forward = 0;
  double input = 0;           ///< input gradient
  double weight = 0;          ///< weight gradient
  double attention_core = 0;  ///< of forward: scores, softmax, values
  double elementwise = 0;     ///< of forward: norms and activation functions
  double up_projections = 0;  ///< of forward: of latent attention
  double projections = 0;     ///< of forward: of queries, keys and values, with the gather of their input
  double output = 0;          ///< of forward: behind attention, with the reduction of its output
  double gates = 0;           ///< of forward: first products of the MLP, with the gather of their input
  double layers = 0;          ///< of forward: all of the layers, which head and embedding are not
  double exchange = 0;  ///< of forward, and of the input gradient again: with experts, hidden by nothing
  double forward_slower = 0;  ///< extra time of products beside transfers
  double input_slower = 0;
  double weight_slower = 0;
  double tensor_exchanges = 0;  ///< how many a forward has
  double tensor_exchange = 0;   ///< time of all of them with nothing beside them
  double host = 0;              ///< time that the host takes to launch the forward

  PassTimes& operator+=(const PassTimes& other) {
    forward += other.forward;
    input += other.input;
    weight += other.weight;
    attention_core += other.attention_core;
    elementwise += other.elementwise;
    up_projections += other.up_projections;
    projections += other.projections;
    output += other.output;
    gates += other.gates;
    layers += other.layers;
    exchange += other.exchange;
    forward_slower += other.forward_slower;
    input_slower += other.input_slower;
    weight_slower += other.weight_slower;
    tensor_exchanges += other.tensor_exchanges;
    tensor_exchange += other.tensor_exchange;
    host += other.host;
    return *this;
  }
};

/// Times of the parts of a model under a stack: the sum of its kernels and of the communication that they
/// wait for. Products are X W forward, dY W^T and X^T dY; attention's backward has 2.5 times the operations
/// of its forward.
class LayerTimer {
 public:
  /// Keeps a reference to the workload.
  explicit LayerTimer(const Workload& workload);

  /// A transformer layer, counted from 0.
  [[nodiscard]] PassTimes layer(std::int64_t index) const;
  /// Final norm, head and loss.
  [[nodiscard]] PassTimes head() const;
  [[nodiscard]] PassTimes embedding() const;
  /// A product of two hidden states into one, in front of a multi-token prediction layer.
  [[nodiscard]] PassTimes projection() const;
  /// Copies of a microbatch's token ids and positions from the host, and those of its labels and loss mask:
  /// of whole sequences, of which context-parallel ranks keep their part. The tensor-parallel group gets them
  /// from the one rank that reads them.
  [[nodiscard]] double load_tokens() const { return load(8 + 8); }
  [[nodiscard]] double load_labels() const { return load(8 + 4); }
  /// The time of every stage where the host waits for a broadcast: one copy of ids, and the operators with
  /// which the device derives everything else from them.
  [[nodiscard]] double broadcast_tokens() const;

  [[nodiscard]] const Network& network() const { return network_; }
  [[nodiscard]] const OperatorTimes& operators() const { return operators_; }
  [[nodiscard]] double tokens() const { return tokens_; }
  /// Tokens that norms and residuals of one GPU have.
  [[nodiscard]] double own_tokens() const;

 private:
  struct Linear {
    double tokens = 0, in = 0, out = 0;
    double matrices = 1;            ///< of so many experts, in one kernel
    bool is_up_projection = false;  ///< of latent attention
    bool makes_input = false;       ///< below bf16: the kernel before it makes its input as it is quantised
    bool makes_gradient = false;    ///< the same of its output's gradient
  };

  [[nodiscard]] std::vector<Linear> attention_linears() const;
  void add_attention_linears(PassTimes& times) const;
  void add_linear(const Linear& linear, DataType type, PassTimes& times) const;
  void add_quantisation(const Linear& linear, DataType type, PassTimes& times) const;
  void add_dense_mlp(double channels, PassTimes& times) const;
  void add_mixture(PassTimes& times) const;
  void add_attention(bool windowed, PassTimes& times) const;
  void add_flash(double heads, double width, bool windowed, PassTimes& times) const;
  void quantise_attention(PassTimes& times) const;
  void add_unfused(double flops, double scores, PassTimes& times) const;
  void add_context_exchange(PassTimes& times) const;
  void add_elementwise(PassTimes& times) const;
  void add_activation(double elements, PassTimes& times) const;
  void add_expert_biases(double rows, double experts, PassTimes& times) const;
  void add_clamp(double elements, PassTimes& times) const;
  void add_scaled_rotation(PassTimes& times) const;
  void add_tensor_exchange(double layers, PassTimes& times) const;
  void wait_for_host(bool mixture, PassTimes& times) const;
  [[nodiscard]] double exposed(bool overlapped, double seconds) const;
  [[nodiscard]] double load(double token_bytes) const;

  ModelDescription model_;  ///< with whole heads
  const Parallelism& parallelism_;
  const SoftwareStack& stack_;
  int split_;  ///< GPUs that share an expert
  OperatorTimes operators_;
  Network network_;
  double exposed_share_;
  double sequence_ = 0;
  double tokens_ = 0;  ///< of a microbatch on one context-parallel rank
  double hidden_ = 0;
};

}  // namespace ppsim::workload
