#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "numbers.hpp"

/// Numbers of eight bits: Micikevicius et al., "FP8 formats for deep learning", 2022.
namespace ppsim::gpu_backend::cuda {

enum class Fp8 : std::uint8_t {
  e4m3,  ///< up to 448, without infinities: values
  e5m2,  ///< up to 57344: gradients
};

struct Fp8Format {
  int mantissa_bits;
  int bias;
  std::uint32_t largest;  ///< code of the largest finite number
  float largest_value;
};
PPSIM_BOTH inline Fp8Format format_of(Fp8 type) {
  return type == Fp8::e4m3 ? Fp8Format{3, 7, 0x7E, 448} : Fp8Format{2, 15, 0x7B, 57344};
}

/// Rounds to nearest, ties to even; values that are too large, infinities too, become the largest finite
/// number.
PPSIM_BOTH inline std::uint8_t to_fp8(float value, Fp8 type) {
  const Fp8Format format = format_of(type);
  std::uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  const std::uint32_t sign = bits >> 24 & 0x80U;
  bits &= 0x7fffffffU;
  if (bits > 0x7f800000U) return 0x7F;  // the NaN of both types
  const auto rebias = static_cast<std::uint32_t>(127 - format.bias) << 23;
  std::uint32_t code = 0;
  if (bits < rebias + (1U << 23)) {  // a multiple of the smallest number, or the smallest normal one
    code = static_cast<std::uint32_t>(rintf(ldexpf(fabsf(value), format.bias - 1 + format.mantissa_bits)));
  } else {
    const int dropped = 23 - format.mantissa_bits;
    const std::uint32_t even = (bits >> dropped) & 1U;
    code = (bits - rebias + (1U << (dropped - 1)) - 1 + even) >> dropped;
  }
  return static_cast<std::uint8_t>(sign | (code < format.largest ? code : format.largest));
}

PPSIM_BOTH inline float from_fp8(std::uint8_t code, Fp8 type) {
  const Fp8Format format = format_of(type);
  const std::uint32_t rest = code & 0x7FU;
  float value = 0;
  if (rest > format.largest) {
    value = type == Fp8::e5m2 && rest == 0x7CU ? INFINITY : NAN;
  } else if (rest >> format.mantissa_bits == 0) {
    value = ldexpf(static_cast<float>(rest), 1 - format.bias - format.mantissa_bits);
  } else {
    const std::uint32_t bits =
        (rest << (23 - format.mantissa_bits)) + (static_cast<std::uint32_t>(127 - format.bias) << 23);
    memcpy(&value, &bits, sizeof value);
  }
  return (code & 0x80U) != 0 ? -value : value;
}

/// The scale of an fp8 copy: numbers are divided by it, so that the largest absolute value becomes the
/// largest finite number; 1 where no normal float does that: for zeros, and for infinities, which saturate.
PPSIM_BOTH inline float fp8_scale(float largest_absolute, Fp8 type) {
  const float scale = largest_absolute / format_of(type).largest_value;
  return scale >= 0x1p-126F && scale <= 0x1p+120F ? scale : 1;
}

}  // namespace ppsim::gpu_backend::cuda
