#pragma once

#include <string>

#include "flash_attention.hpp"
#include "transformer/gpu/gpu_transformer.hpp"

namespace ppsim::gpu_backend::cuda {

/// How a model's attention is computed.
struct AttentionChoice {
  bool flash = false;
  AttentionWorkspace workspace = {};
  std::string text = {};  ///< "cuDNN 9.19.0", or "GEMMs" and why
};

/// By cuDNN where sequences are whole, the configuration does not say otherwise, and the library, its
/// version, device 0 and the sizes allow it. Asks once, and makes no context on the device. Never fails: what
/// is missing is in the text.
[[nodiscard]] AttentionChoice choose_attention(const TransformerConfig& config, int slices,
                                               const TransformerLibraries& libraries);

}  // namespace ppsim::gpu_backend::cuda
