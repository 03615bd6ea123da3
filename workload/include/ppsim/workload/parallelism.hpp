#pragma once

#include <cstdint>
#include <ostream>
#include <string_view>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/lowering/memory_saving.hpp"
#include "ppsim/workload/cluster.hpp"
#include "ppsim/workload/model.hpp"

namespace ppsim::workload {

/// Of the products of layers; fp8 stands for MXFP8 as well.
enum class DataType : std::uint8_t { bf16, fp8, nvfp4 };
/// As --dtype spells it.
[[nodiscard]] constexpr std::string_view data_type_name(DataType type) {
  switch (type) {
    case DataType::bf16:
      return "bf16";
    case DataType::fp8:
      return "fp8";
    case DataType::nvfp4:
      return "nvfp4";
  }
  return "";
}

/// Order in which the parallel groups are laid out over GPUs, innermost first.
enum class RankOrder : std::uint8_t { tp_cp_dp_pp, tp_cp_pp_dp };

/// How a training run is spread over GPUs and batches. Sizes are counts; `sequence` 0 takes the model's.
struct Parallelism {
  int tensor = 1;
  int pipeline = 1;
  int data = 1;
  int context = 1;
  int expert = 1;  ///< divides tensor x context x data
  int microbatch_size = 1;
  int global_batch_size = 1;
  std::int64_t sequence = 0;
  DataType dtype = DataType::bf16;
  bool sharded_parameters = false;  ///< over data- and context-parallel ranks (FSDP, ZeRO 3)
  StageRecompute recompute;
  RankOrder rank_order = RankOrder::tp_cp_dp_pp;

  [[nodiscard]] int gpus() const { return tensor * pipeline * data * context; }
  /// Microbatches that one pipeline runs in a step.
  [[nodiscard]] int microbatches() const { return global_batch_size / (data * microbatch_size); }
  friend bool operator==(const Parallelism&, const Parallelism&) = default;
};

std::ostream& operator<<(std::ostream& out, const Parallelism& parallelism);

/// Errors: bad_argument naming what does not divide (heads by tp, heads of keys and values by tp or tp by
/// them, batch by dp x microbatch, experts by ep, GPUs of the cluster by the product) with found and expected
/// figures.
[[nodiscard]] Expected<void> check_parallelism(const Parallelism& parallelism, const ModelDescription& model,
                                               const ClusterDescription& cluster);

}  // namespace ppsim::workload

namespace ppsim {
using workload::check_parallelism;
using workload::data_type_name;
using workload::DataType;
using workload::Parallelism;
using workload::RankOrder;
}  // namespace ppsim
