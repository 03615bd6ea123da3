#include "ppsim/workload/constants.hpp"

#include "operators/constants.hpp"

namespace ppsim::workload {

FittedConstants::FittedConstants()
    : exposed_share(0.35), network_efficiency(0.9), product_slowdown(1.03), kernel_time(23e-6) {}

std::vector<Constant> constants() {
  const std::string steps = "measured steps on A100 and H100, studies/accuracy";
  const FittedConstants fitted;
  const std::string guess = "an assumption, from no measurement";
  const std::string adam =
      "mixed-precision Adam: float32 weights and two moments (arXiv 1910.02054, section 3.1)";
  return {
      {"exposed_share", fitted.exposed_share, "of overlapped communication", steps, true},
      {"network_efficiency", fitted.network_efficiency, "of the rate as sold", steps, true},
      {"product_slowdown", fitted.product_slowdown, "of the fastest time measured alone", steps, true},
      {"kernel_time", fitted.kernel_time, "s a kernel", steps, true},
      {"grouped_rows", kGroupedRows, "of an expert",
       "grouped products on B200, MooreThreads/SimuMax configs/system/b200_bf16_ceperm.json"},
      {"host_layer", kHostLayer, "s forward", "eager launches of some 40 operators"},
      {"host_mixture", kHostMixture, "s forward",
       "three times as many operators, and sizes that the host waits for"},
      {"host_batch", kHostBatch, "s a microbatch and stage",
       "14 operators of get_batch in Megatron-LM until 2022, at the price of those of a layer"},
      {"host_backward", kHostBackward, "of forward", "two gradients for each operator"},
      {"graph_kernel_time", kGraphKernelTime, "s a kernel of a CUDA graph", guess},
      {"nvlink_efficiency", kNvlinkEfficiency, "of the rate as sold",
       guess + ", where no collective is measured"},
      {"nvlink_latency", kNvlinkLatency, "s", guess},
      {"network_latency", kNetworkLatency, "s", guess + ", where the cluster does not say"},
      {"attention_backward", kAttentionBackward, "of the rate of its forward",
       "arXiv 2307.08691, figures 4 and 5"},
      {"flash_1_time", kFlash1Time, "of FlashAttention-2's", "arXiv 2307.08691, abstract"},
      {"flash_2_on_hopper", kFlash2OnHopper, "of the time of kernels made for Hopper",
       "arXiv 2407.08608, abstract: 1.5 to 2.0; taken for Blackwell as well"},
      {"quantised_attention", kQuantisedAttention, "of the rate in bf16",
       "arXiv 2407.08608, abstract: 1.2 PFLOP/s and 740 TFLOP/s on H100; taken for the backward as well"},
      {"attention_tile", kAttentionTile, "keys", "block sizes of arXiv 2307.08691, section 3.3"},
      {"tile_rows", kTileRows, "of a product",
       "NVIDIA, Matrix Multiplication Background User's Guide, wave quantization"},
      {"tile_columns", kTileColumns, "of a product", "the same"},
      {"pageable_copies", kPageableCopies, "of the rate from pinned memory", guess},
      {"unfused_products", kUnfusedProducts, "of the peak", guess},
      {"optimizer_traffic", kOptimizerTraffic, "bytes a parameter",
       "reads and writes of unscaling, norm, clipping, Adam and the cast to bf16"},
      {"optimizer_state", 12, "bytes a parameter", adam},
  };
}

}  // namespace ppsim::workload
