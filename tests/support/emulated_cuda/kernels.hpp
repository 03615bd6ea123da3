#pragma once

#include "transformer/kernels/kernel_table.hpp"

namespace ppsim::test {

using namespace gpu_backend;

/// The device's own kernels, compiled for the processor; streams are not looked at, a launcher returns when
/// all is done.
[[nodiscard]] cuda::KernelTable emulated_kernels();

}  // namespace ppsim::test
