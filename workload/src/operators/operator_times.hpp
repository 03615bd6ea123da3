#pragma once

#include "ppsim/workload/cluster.hpp"
#include "ppsim/workload/constants.hpp"
#include "ppsim/workload/stack.hpp"
#include "tables.hpp"

namespace ppsim::workload {

/// Times of single kernels on one GPU. Units: seconds, FLOP and bytes.
class OperatorTimes {
 public:
  /// `graphs`: kernels are launched by a CUDA graph.
  OperatorTimes(const GpuDescription& gpu, bool graphs, const FittedConstants& fitted = {});

  /// At the measured rate where there is one, else at the achievable one; never above what power sustains.
  [[nodiscard]] double product(const Product& product, DataType type) const;
  /// A product for each expert of the GPU, in one kernel: `all` of them as one, and the `rows` that each has.
  [[nodiscard]] double grouped_product(const Product& all, double rows, DataType type) const;
  /// How much longer a product takes without so many multiprocessors, as a share of its time: those of its
  /// tiles that no longer run in one wave with the others take another. 0 where the GPU's number is not
  /// known.
  [[nodiscard]] double longer_without(int multiprocessors, const Product& product) const;
  /// An element-wise kernel, by what it reads and writes.
  [[nodiscard]] double traffic(double bytes) const;
  /// The bytes that a kernel reads and writes besides its own work.
  [[nodiscard]] double beside(double bytes) const;
  /// How many times as long as the GPU's own flash attention an older version of it takes.
  [[nodiscard]] double attention_slowdown(AttentionKernel kernel) const;
  /// Forward of flash attention; `heads` over all sequences.
  [[nodiscard]] double flash_attention(double flops, double heads, double sequence, double head_dim) const;
  /// Scores times values and the like at the rate of small products, without a kernel's own time.
  [[nodiscard]] double unfused_products(double flops) const;
  /// All of the memory's rate: what streams through it once, such as optimizer state.
  [[nodiscard]] double stream(double bytes) const;

  [[nodiscard]] const OperatorTable* table() const { return table_; }

 private:
  [[nodiscard]] double rate(const Product& product, DataType type) const;
  [[nodiscard]] double sustained(DataType type) const;

  const GpuDescription& gpu_;
  const OperatorTable* table_ = nullptr;
  double slowdown_ = 1;
  double kernel_ = 0;
};

}  // namespace ppsim::workload
