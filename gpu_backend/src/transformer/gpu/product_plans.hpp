#pragma once

#include <map>
#include <string>

#include "device/cuda/cuda_table.hpp"
#include "matmul.hpp"
#include "products.hpp"

namespace ppsim::gpu_backend::cuda {

/// The products of a rank, each with its plan. Order and errors: as Matmuls.
class ProductPlans {
 public:
  ProductPlans(CublasLtTable cublaslt, CudaTable cuda);

  /// Plans a product, unless that was done before.
  void add(const ProductShape& shape, const MatmulShape& matmul);
  /// Requires: a product that was added.
  void multiply(GpuStream stream, const ProductShape& shape, const MatmulOperands& operands) const;
  /// Times on random operands, in memory that it frees again.
  void time_algorithms(const AlgorithmTimer& timer, Algorithms& known);
  void take_algorithms(const AlgorithmPlace& place, const Algorithms& known);

 private:
  struct Planned {
    std::string name;
    MatmulShape shape;
    MatmulPlan plan;
  };
  /// The operands of a timing, in memory that lives as long as it.
  struct Operands {
    DeviceMemory memory;
    MatmulOperands at = {};
  };

  [[nodiscard]] Operands operands_of(const Planned& product, const AlgorithmTimer& timer) const;
  [[nodiscard]] PinnedAlgorithm fastest(Planned& product, const AlgorithmTimer& timer) const;
  void check_made_for(const AlgorithmPlace& place, const Algorithms& known) const;

  Matmuls matmuls_;
  CudaTable cuda_;
  std::map<ProductShape, Planned> planned_;
};

}  // namespace ppsim::gpu_backend::cuda
