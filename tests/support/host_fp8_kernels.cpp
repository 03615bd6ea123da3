#include <algorithm>
#include <cmath>

#include "cuda/kernels/fp8.hpp"
#include "support/host_kernel.hpp"

namespace ppsim::test {
namespace {

int find_scale(const HostQueue& queue, void* stream, const cuda::FindScale& c) {
  Touched<Bf16> t;
  const Bf16* values = t.read(c.values, c.count);
  static_cast<void>(t.write<float>(c.partial, cuda::kPartials));
  float* scale = t.write<float>(c.scale, 1);
  return queue(stream, t.access, [=] {
    float largest = 0;
    for (std::int64_t i = 0; i < c.count; ++i) largest = std::fmax(largest, std::fabs(get(values[i])));
    *scale = cuda::fp8_scale(largest, c.type);
  });
}

int quantize(const HostQueue& queue, void* stream, const cuda::Quantize& c) {
  Touched<Bf16> t;
  const Bf16* values = t.read(c.values, c.rows * c.columns);
  const float* scale = t.read<float>(c.scale, 1);
  auto* result = t.write<std::uint8_t>(c.result, c.rows * c.columns);
  return queue(stream, t.access, [=] {
    for (std::int64_t r = 0; r < c.rows; ++r) {
      for (std::int64_t k = 0; k < c.columns; ++k) {
        const std::uint8_t code = cuda::to_fp8(get(values[r * c.columns + k]) / *scale, c.type);
        result[c.transpose ? k * c.rows + r : r * c.columns + k] = code;
      }
    }
  });
}

}  // namespace

void add_fp8_kernels(cuda::KernelTable& table, const HostQueue& queue) {
  table.find_scale = [queue](void* stream, const cuda::FindScale& call) {
    return test::find_scale(queue, stream, call);
  };
  table.quantize = [queue](void* stream, const cuda::Quantize& call) {
    return test::quantize(queue, stream, call);
  };
}

}  // namespace ppsim::test
