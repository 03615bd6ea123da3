#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/units.hpp"

namespace ppsim::workload {

/// One accelerator. Rates are dense (no sparsity) and of one direction.
struct GpuDescription {
  std::string name;
  double bf16_tflops = 0;             ///< peak
  double bf16_achievable_tflops = 0;  ///< of large matrix products
  double fp8_tflops = 0;              ///< 0: none
  double fp8_achievable_tflops = 0;
  Bytes memory_bytes = 0;       ///< as sold: 80 GB = 80e9
  double memory_tbps = 0;       ///< TB/s of device memory
  double nvlink_gbytes = 0;     ///< GB/s, one direction
  double host_gbytes = 32;      ///< GB/s to host memory, one direction; PCIe 4 x16 where nothing else is said
  std::string operators = {};   ///< its table of measured operators; empty: a roofline of the rates above
  double sustained_tflops = 0;  ///< bf16 products that power lets run on and on; 0: no such limit is known
  double memory_efficiency = 0.85;  ///< of memory_tbps that element-wise kernels reach
  int multiprocessors = 0;          ///< 0: not known
  friend bool operator==(const GpuDescription&, const GpuDescription&) = default;
};

/// One server and the network that connects it.
struct NodeDescription {
  std::string name;
  std::string gpu;
  int gpus = 8;
  int nvlink_domain = 8;  ///< GPUs that NVLink connects, possibly over several nodes
  std::optional<double>
      node_gbytes;  ///< GB/s of the whole node into the network, one direction; of a preset known
  std::optional<double> latency_us = {};  ///< of the network
  /// Switches of NVLink sum (NVLink SHARP), at this share of the rate of a gather; 0: they do not. Empty:
  /// all-reduces take what was measured, else switches do not sum.
  std::optional<double> nvlink_sums = {};
  friend bool operator==(const NodeDescription&, const NodeDescription&) = default;
};

struct ClusterDescription {
  NodeDescription node;
  GpuDescription gpu;
  int nodes = 1;
  [[nodiscard]] int gpu_count() const { return nodes * node.gpus; }
  /// GPUs of each NVLink domain that a job on all nodes takes. Where domains span nodes, these are whole
  /// nodes, as many of each domain: the most that divide the job's, such as 16 of 18 for 64.
  /// Source: what Megatron-Bridge asks Slurm for (--segment, scripts/performance/utils/executors.py).
  [[nodiscard]] int job_domain() const;
  /// How large they are, and why not larger; empty where jobs take whole domains, or a part of one.
  [[nodiscard]] std::string domains_text() const;
  friend bool operator==(const ClusterDescription&, const ClusterDescription&) = default;
};

/// Presets. Source: vendors' data sheets and the public files named in src/presets/hardware.cpp.
[[nodiscard]] std::span<const GpuDescription> gpu_presets();
[[nodiscard]] std::span<const NodeDescription> node_presets();

/// `nodes` servers of a preset such as `dgx-h100`.
/// Errors: bad_argument naming the clusters there are, a node count below 1.
[[nodiscard]] Expected<ClusterDescription> cluster_from_name(std::string_view name, int nodes);

/// `nodes` servers as a file describes one: the schema "cluster" of json_schema().
/// Errors: bad_file naming row, column and key; bad_argument for a node count below 1.
[[nodiscard]] Expected<ClusterDescription> cluster_from_json(std::string_view text, const std::string& file,
                                                             int nodes);

/// `nodes` servers as NCCL writes down the one that it runs on (NCCL_TOPO_DUMP_FILE). The file has the
/// compute capability of its GPUs alone: `gpu` says which preset they are; empty: the usual one. Rates of
/// NVLink, PCIe and the network are the file's; GPUs that NVLink or its switches connect are a domain.
/// Errors: bad_file naming the row of an element; bad_argument for a node count below 1.
/// Source: NCCL's src/graph/xml.cc and topo.cc.
[[nodiscard]] Expected<ClusterDescription> cluster_from_topology(std::string_view text,
                                                                 const std::string& file, int nodes,
                                                                 std::string_view gpu = {});

}  // namespace ppsim::workload

namespace ppsim {
using workload::cluster_from_json;
using workload::cluster_from_name;
using workload::cluster_from_topology;
using workload::ClusterDescription;
using workload::gpu_presets;
using workload::GpuDescription;
using workload::node_presets;
using workload::NodeDescription;
}  // namespace ppsim
