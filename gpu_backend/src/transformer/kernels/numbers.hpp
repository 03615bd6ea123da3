#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "transformer/model/loss_parts.hpp"

#if defined(__CUDACC__)
#define PPSIM_BOTH __host__ __device__
#else
#define PPSIM_BOTH
#endif

/// The arithmetic of single numbers, one text for the device and for the host that stands in for it in tests.
namespace ppsim::gpu_backend::cuda {

/// The upper half of a float32, rounded to nearest even.
struct Bf16 {
  std::uint16_t bits = 0;
};

/// Integers modulo 2^64: every order of a sum gives the same bits, the ones that the CPU's exact arithmetic
/// gives.
using Ring = std::uint64_t;

PPSIM_BOTH inline float to_float(Bf16 value) {
  const std::uint32_t wide = static_cast<std::uint32_t>(value.bits) << 16;
  float result = 0;
  memcpy(&result, &wide, sizeof result);
  return result;
}
/// Rounded to nearest even, as the device's own instruction does it.
PPSIM_BOTH inline Bf16 to_bf16(float value) {
#if defined(__CUDA_ARCH__)
  Bf16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
#else
  std::uint32_t wide = 0;
  memcpy(&wide, &value, sizeof wide);
  if ((wide & 0x7fffffffU) > 0x7f800000U) return {static_cast<std::uint16_t>((wide >> 16) | 0x40U)};
  return {static_cast<std::uint16_t>((wide + 0x7fffU + ((wide >> 16) & 1U)) >> 16)};
#endif
}

/// The types that numbers of a storage type are computed and summed in, and the conversions.
template <class Stored>
struct Numbers;
template <>
struct Numbers<Bf16> {
  using Sum = float;
  PPSIM_BOTH static Sum load(Bf16 value) { return to_float(value); }
  PPSIM_BOTH static Bf16 store(Sum value) { return to_bf16(value); }
};
template <>
struct Numbers<float> {
  using Sum = float;
  PPSIM_BOTH static Sum load(float value) { return value; }
  PPSIM_BOTH static float store(Sum value) { return value; }
};
template <>
struct Numbers<Ring> {
  using Sum = Ring;
  PPSIM_BOTH static Sum load(Ring value) { return value; }
  PPSIM_BOTH static Ring store(Sum value) { return value; }
};

/// On the device within 2 ulp and 0 from divisors of 2^126: a rounded division has a branch, which keeps the
/// numbers of a thread from being computed side by side, and kernels from the speed of memory.
PPSIM_BOTH inline float fast_quotient(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdividef(a, b);
#else
  return a / b;
#endif
}

/// SiLU; the cube in exact arithmetic, as on the CPU.
PPSIM_BOTH inline float activation(float x) { return fast_quotient(x, 1 + expf(-x)); }
PPSIM_BOTH inline float activation_slope(float x) {
  const float sigmoid = fast_quotient(1, 1 + expf(-x));
  return sigmoid * (1 + x * (1 - sigmoid));
}
PPSIM_BOTH inline Ring activation(Ring x) { return x * x * x; }
PPSIM_BOTH inline Ring activation_slope(Ring x) { return 3 * x * x; }

/// 1 / rms from the sum of squares of a row; 1 in exact arithmetic, where a norm is its gain alone.
PPSIM_BOTH inline float norm_scale(float squares, std::int64_t columns) {
  return 1 / sqrtf(squares / static_cast<float>(columns) + 1e-5F);
}
PPSIM_BOTH inline Ring norm_scale(Ring, std::int64_t) { return 1; }
/// The gradient of x from that of x * scale and the row's sum of gradient times unit.
PPSIM_BOTH inline float norm_slope(float gradient, float unit, float scale, float mean_overlap) {
  return scale * (gradient - unit * mean_overlap);
}
PPSIM_BOTH inline Ring norm_slope(Ring gradient, Ring, Ring, Ring) { return gradient; }
PPSIM_BOTH inline float mean(float sum, std::int64_t count) { return sum / static_cast<float>(count); }
PPSIM_BOTH inline Ring mean(Ring sum, std::int64_t) { return sum; }

/// Where a token stands among `count` tokens of which `first` is the first; -1: it is none of them.
PPSIM_BOTH inline std::int64_t place_among(std::int32_t token, std::int64_t first, std::int64_t count) {
  const std::int64_t at = token - first;
  return at >= 0 && at < count ? at : -1;
}

using transformer::LossParts;

/// Adds the parts of some logits to those of others.
PPSIM_BOTH inline void merge(LossParts<float>& into, const LossParts<float>& from) {
  const float top = fmaxf(into.top, from.top);
  into = {top, into.sum * expf(into.top - top) + from.sum * expf(from.top - top), into.picked + from.picked};
}
PPSIM_BOTH inline void merge(LossParts<Ring>& into, const LossParts<Ring>& from) {
  into.picked += from.picked;
}
/// The amount subtracted from the gradient of the target's logit, in an average over so many positions.
template <class Sum>
PPSIM_BOTH Sum target_share(std::int64_t positions) {
  if constexpr (std::is_same_v<Sum, Ring>) {
    return 0;
  } else {
    return 1 / static_cast<Sum>(positions);
  }
}
/// The factor from exponentials relative to a part's own largest logit to gradients.
PPSIM_BOTH inline float gradient_factor(std::int64_t positions, const LossParts<float>& own,
                                        const LossParts<float>& all) {
  return expf(own.top - all.top) * (target_share<float>(positions) / all.sum);
}
PPSIM_BOTH inline Ring gradient_factor(std::int64_t, const LossParts<Ring>&, const LossParts<Ring>&) {
  return 1;
}
PPSIM_BOTH inline float loss_of(std::int64_t positions, const LossParts<float>& all) {
  return (logf(all.sum) - (all.picked - all.top)) * target_share<float>(positions);
}
PPSIM_BOTH inline Ring loss_of(std::int64_t, const LossParts<Ring>& all) { return all.picked; }

/// SplitMix64 at position `draw` (from 0) of one of its streams: what the CPU's Random gives in turn.
PPSIM_BOTH inline std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}
PPSIM_BOTH inline std::uint64_t random_at(std::uint64_t seed, std::uint64_t stream, std::uint64_t draw) {
  return mix((mix(seed) ^ mix(~stream)) + (draw + 1) * 0x9e3779b97f4a7c15U);
}

}  // namespace ppsim::gpu_backend::cuda
