#pragma once

#include <cstdint>

#include "support/host_kernels.hpp"
#include "transformer/kernels/kernel_table.hpp"

/// The operands that each kernel reads and writes.
namespace ppsim::test {

using namespace gpu_backend;

KernelAccess operands(cuda::Stored stored, const cuda::NormForward& call);
KernelAccess operands(cuda::Stored stored, const cuda::ApplyGain& call);
KernelAccess operands(cuda::Stored stored, const cuda::NormBackward& call);
KernelAccess operands(cuda::Stored stored, const cuda::CausalSoftmax& call);
KernelAccess operands(cuda::Stored stored, const cuda::CausalSoftmaxBackward& call);
KernelAccess operands(cuda::Stored stored, const cuda::StoreSums& call);
KernelAccess operands(cuda::Stored stored, const cuda::Gate& call);
KernelAccess operands(cuda::Stored stored, const cuda::GateBackward& call);
KernelAccess operands(const cuda::DrawTokens& call);
KernelAccess operands(const cuda::WriteNumber& call);
KernelAccess operands(cuda::Stored stored, const cuda::Embed& call);
KernelAccess operands(cuda::Stored stored, const cuda::EmbedBackward& call);
KernelAccess operands(cuda::Stored stored, const cuda::Loss& call);
KernelAccess operands(cuda::Stored stored, const cuda::OpenLoss& call);
KernelAccess operands(cuda::Stored stored, const cuda::CloseLoss& call);
KernelAccess operands(cuda::Stored stored, const cuda::TargetWeights& call);
KernelAccess operands(cuda::Stored stored, const cuda::MergeLoss& call);
KernelAccess operands(cuda::Stored stored, const cuda::SumParts& call);
KernelAccess operands(cuda::Stored stored, const cuda::Accumulate& call);
KernelAccess operands(cuda::Stored stored, const cuda::SquaredNorm& call);
KernelAccess operands(const cuda::AddNorm& call);
KernelAccess operands(cuda::Stored stored, const cuda::Descend& call);
KernelAccess operands(cuda::Stored stored, const cuda::DrawWeights& call);
KernelAccess operands(cuda::Stored stored, const cuda::StartState& call);
KernelAccess operands(const cuda::RingProduct& call);
KernelAccess operands(const cuda::FindScale& call);
KernelAccess operands(const cuda::Quantize& call);

}  // namespace ppsim::test
