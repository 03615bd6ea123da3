#pragma once

// In place of CUDA's header of this name: the conversion that fp8_test compares with CUDA's.

#include "transformer/kernels/fp8.hpp"

enum __nv_saturation_t { __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

inline std::uint8_t __nv_cvt_float_to_fp8(float value, __nv_saturation_t, __nv_fp8_interpretation_t type) {
  return ppsim::gpu_backend::cuda::to_fp8(
      value, type == __NV_E4M3 ? ppsim::gpu_backend::cuda::Fp8::e4m3 : ppsim::gpu_backend::cuda::Fp8::e5m2);
}
