#pragma once

namespace ppsim::workload {

// Those that are fitted to measured steps are FittedConstants.
inline constexpr double kGroupedRows =
    200;  ///< of an expert, with which grouped products reach half their rate
inline constexpr double kHostLayer = 1e-3;    ///< seconds that the host takes to launch a dense layer forward
inline constexpr double kHostMixture = 3e-3;  ///< the same with experts
inline constexpr double kHostBatch = 0.35e-3;       ///< to get a microbatch's tokens while the GPU is idle
inline constexpr double kHostBackward = 2;          ///< times as long backward
inline constexpr double kGraphKernelTime = 2e-6;    ///< the same, launched by a CUDA graph
inline constexpr double kNvlinkEfficiency = 0.8;    ///< of NVLink where nothing was measured
inline constexpr double kNvlinkLatency = 3e-6;      ///< seconds
inline constexpr double kNetworkLatency = 10e-6;    ///< seconds, where the cluster does not say
inline constexpr double kAttentionBackward = 0.8;   ///< rate of flash attention's backward over its forward
inline constexpr double kFlash1Time = 2;            ///< FlashAttention over FlashAttention-2
inline constexpr double kFlash2OnHopper = 1.75;     ///< FlashAttention-2 over the kernels made for Hopper
inline constexpr double kQuantisedAttention = 1.6;  ///< rate of flash attention in FP8 over that in bf16
inline constexpr double kAttentionTile = 128;       ///< keys that a flash kernel takes at once
inline constexpr double kTileRows = 256;            ///< of a product, that a multiprocessor takes at once
inline constexpr double kTileColumns = 128;
inline constexpr double kPageableCopies = 0.5;   ///< of the rate of copies from pinned memory
inline constexpr double kUnfusedProducts = 0.6;  ///< of the peak: scores and values, head by head
inline constexpr double kOptimizerTraffic = 50;  ///< bytes a parameter: unscale, norm, clip, Adam, cast

}  // namespace ppsim::workload
