#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "ppsim/gpu_backend/executor/execute.hpp"
#include "ppsim/gpu_backend/transformer/transformer.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/small_transformer.hpp"

namespace ppsim::test {

/// A matrix of parameters, or their gradients.
template <class T>
struct Matrix {
  int rows;
  int cols;
  std::vector<T> numbers = std::vector<T>(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
  friend bool operator==(const Matrix&, const Matrix&) = default;
};
template <class T>
using Gradients = std::map<std::string, Matrix<T>>;

/// Puts the gradients of blocks together to those of the model, whatever pieces of it they are.
template <class T>
class GradientAssembly {
 public:
  explicit GradientAssembly(const TransformerConfig& config) : c_(config) {}

  /// Of stages in a chain, of which the last has the head or not, the first the embedding or not.
  void add_chain(const std::vector<BlockGradients>& run, int stages, bool embedding, bool head) {
    for (int s = 0; s < stages; ++s) {
      begin(run[static_cast<std::size_t>(s)]);
      if (s == 0 && embedding) add_embedding(0, c_.vocab, true);
      for (int layer = s * c_.layers / stages; layer < (s + 1) * c_.layers / stages; ++layer)
        add_layer(layer);
      if (s + 1 < stages) continue;
      add("final gain", 1, c_.hidden);
      if (head) add_head(0, c_.vocab);
    }
  }
  void add_head_shards(const std::vector<BlockGradients>& run, int first, int shards) {
    for (int r = 0; r < shards; ++r) {
      begin(run[static_cast<std::size_t>(first + r)]);
      add_head(r * c_.vocab / shards, (r + 1) * c_.vocab / shards);
    }
  }
  void add_embedding_shards(const std::vector<BlockGradients>& run, int first, int shards) {
    for (int r = 0; r < shards; ++r) {
      begin(run[static_cast<std::size_t>(first + r)]);
      add_embedding(r * c_.vocab / shards, (r + 1) * c_.vocab / shards, r == 0);
    }
  }
  [[nodiscard]] const Gradients<T>& all() const { return all_; }

 private:
  void begin(const BlockGradients& block) {
    numbers_.resize(block.values.size() / sizeof(T));
    std::memcpy(numbers_.data(), block.values.data(), block.values.size());
    used_ = 0;
  }
  void add_layer(int layer) {
    const std::string name = "layer " + std::to_string(layer);
    add(name + " attention gain", 1, c_.hidden);
    add(name + " qkv", c_.hidden, 3 * c_.hidden);
    add(name + " projection", c_.hidden, c_.hidden);
    add(name + " mlp gain", 1, c_.hidden);
    add(name + " gate up", c_.hidden, 2 * c_.ffn);
    add(name + " down", c_.ffn, c_.hidden);
  }
  void add_embedding(int first, int last, bool positions) {
    take(matrix("tokens", c_.vocab, c_.hidden), first * c_.hidden, last - first, c_.hidden);
    if (positions) add("positions", c_.sequence, c_.hidden);
  }
  void add_head(int first, int last) {
    take(matrix("head", c_.hidden, c_.vocab), first, c_.hidden, last - first);
  }
  void add(const std::string& name, int rows, int cols) { take(matrix(name, rows, cols), 0, rows, cols); }

  Matrix<T>& matrix(const std::string& name, int rows, int cols) {
    return all_.try_emplace(name, Matrix<T>{rows, cols}).first->second;
  }
  /// The next numbers of the block are rows and columns of the matrix from number `first` on.
  void take(Matrix<T>& whole, int first, int rows, int cols) {
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < cols; ++c)
        whole.numbers[static_cast<std::size_t>(first + r * whole.cols + c)] =
            numbers_[used_ + static_cast<std::size_t>(r * cols + c)];
    }
    used_ += static_cast<std::size_t>((rows * cols + 31) / 32 * 32);
  }

  const TransformerConfig& c_;
  Gradients<T> all_;
  std::vector<T> numbers_;
  std::size_t used_ = 0;
};

/// Several sequences in a microbatch, and a vocabulary that no number of ranks divides.
[[nodiscard]] inline TransformerConfig vocabulary_transformer(Arithmetic arithmetic) {
  TransformerConfig config = small_transformer(5, arithmetic);
  config.vocab = 23;
  config.microbatch_size = 2;
  return config;
}

/// A schedule with the vocabulary in shards.
struct VocabularyCase {
  const char* name;
  const char* input;
  int ranks;
  int microbatches;
  UnitCosts costs = {};
};
std::ostream& operator<<(std::ostream& out, const VocabularyCase& one);

/// Both schedules, with all and with half of the vocabulary in shards.
[[nodiscard]] std::vector<VocabularyCase> vocabulary_cases();
[[nodiscard]] Schedule schedule_of(const VocabularyCase& one);

/// The same rows with I and W in the place of every B.
[[nodiscard]] Schedule with_split_backward(const Schedule& schedule);

/// The gradients of a case, put together.
template <class T>
[[nodiscard]] Gradients<T> in_shards(const TransformerConfig& config, const std::vector<BlockGradients>& run,
                                     const VocabularyCase& one) {
  const bool sharded = std::string(one.input) == "sharded";
  GradientAssembly<T> assembly(config);
  assembly.add_chain(run, one.ranks, !sharded, false);
  assembly.add_head_shards(run, one.ranks, one.ranks);
  if (sharded) assembly.add_embedding_shards(run, 2 * one.ranks, one.ranks);
  return assembly.all();
}
/// Those of 1F1B on as many ranks.
template <class T>
[[nodiscard]] Gradients<T> in_one(const TransformerConfig& config, const std::vector<BlockGradients>& run,
                                  const VocabularyCase& one) {
  GradientAssembly<T> assembly(config);
  assembly.add_chain(run, one.ranks, true, true);
  return assembly.all();
}

}  // namespace ppsim::test
