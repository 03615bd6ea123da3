#include "attention_choice.hpp"

#include <optional>

#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend::cuda {
namespace {

/// Before it sequences that are no multiple of 128 tokens had wrong gradients.
constexpr std::size_t kMinVersion = 91600;
/// The major capability for which the graphs are known to be deterministic.
constexpr int kCapability = 9;

/// The reason not to ask cuDNN at all, if there is one.
std::optional<std::string> objection(const TransformerConfig& config) {
  constexpr int kHeadUnit = CudnnGraph::kAlignment / 2;  // of two bytes each
  if (config.arithmetic != Arithmetic::bf16 && config.arithmetic != Arithmetic::fp8)
    return "cuDNN's attention is of bf16";
  const int head_size = config.hidden / config.heads;
  if (head_size % kHeadUnit == 0) return std::nullopt;
  return "cuDNN's attention needs heads of a multiple of " + std::to_string(kHeadUnit) + " numbers, not of " +
         std::to_string(head_size);
}

std::optional<std::string> objection(const CudnnTable& cudnn) {
  const std::size_t version = cudnn.version();
  if (version >= kMinVersion) return std::nullopt;
  return cudnn_text(version) + " is too old: attention needs " + cudnn_text(kMinVersion) + " or later";
}

std::optional<std::string> objection(const CudaTable& cuda) {
  int device = 0;
  int major = 0;
  check_cuda(cuda, cuda.init(0), "starting the CUDA driver");
  check_cuda(cuda, cuda.device_get(&device, 0), "asking for device 0");
  check_cuda(cuda, cuda.device_attribute(&major, kCudaAttributeMajor, device), "asking for its capability");
  if (major == kCapability) return std::nullopt;
  return "cuDNN's attention is known to be deterministic on devices of capability " +
         std::to_string(kCapability) + ".x only; device 0 has " + std::to_string(major) + ".x";
}

AttentionChoice gemms(const std::string& why) { return {.text = "GEMMs: " + why}; }

}  // namespace

AttentionChoice choose_attention(const TransformerConfig& config, int slices,
                                 const TransformerLibraries& libraries) {
  if (config.attention == AttentionKernels::gemm) return gemms("they were asked for");
  if (slices > 1) return gemms("cuDNN's attention is of whole sequences");
  if (const auto why = objection(config)) return gemms(*why);
  try {
    const CudnnTable cudnn = libraries.cudnn();
    if (const auto why = objection(cudnn)) return gemms(*why);
    if (const auto why = objection(libraries.cuda())) return gemms(*why);
    return {true, attention_workspace(cudnn, AttentionSizes(config)), cudnn_text(cudnn.version())};
  } catch (const BackendError& missing) {
    return gemms(missing.error().message);
  }
}

}  // namespace ppsim::gpu_backend::cuda
