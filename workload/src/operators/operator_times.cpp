#include "operator_times.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "constants.hpp"

namespace ppsim::workload {
namespace {

constexpr double kTera = 1e12;
constexpr double kRooflineAttention = 0.6;  // of the achievable rate of large products

/// How many times faster than bf16 the same silicon and power are.
double speedup(DataType type) {
  switch (type) {
    case DataType::bf16:
      return 1;
    case DataType::fp8:
      return 2;
    case DataType::nvfp4:
      return 4;
  }
  return 1;
}

}  // namespace

OperatorTimes::OperatorTimes(const GpuDescription& gpu, bool graphs, const FittedConstants& fitted)
    : gpu_(gpu),
      table_(operator_table(gpu.operators)),
      slowdown_(fitted.product_slowdown),
      kernel_(graphs ? kGraphKernelTime : fitted.kernel_time) {}

double OperatorTimes::sustained(DataType type) const {
  if (gpu_.sustained_tflops <= 0) return std::numeric_limits<double>::infinity();
  return gpu_.sustained_tflops * kTera * speedup(type);
}

double OperatorTimes::rate(const Product& product, DataType type) const {
  if (table_ != nullptr) {
    if (const auto measured = table_->product_rate(product, type))
      return std::min(*measured / slowdown_, sustained(type));
  }
  const double achievable = type == DataType::bf16
                                ? gpu_.bf16_achievable_tflops
                                : gpu_.fp8_achievable_tflops * (type == DataType::nvfp4 ? 2 : 1);
  return std::min(achievable * kTera, sustained(type));
}

double OperatorTimes::product(const Product& product, DataType type) const {
  return product.flops() / rate(product, type) + kernel_;
}

double OperatorTimes::grouped_product(const Product& all, double rows, DataType type) const {
  const double share = rows / (rows + kGroupedRows);
  return all.flops() / (rate(all, type) * share) + kernel_;
}

double OperatorTimes::longer_without(int multiprocessors, const Product& product) const {
  if (multiprocessors <= 0 || multiprocessors >= gpu_.multiprocessors) return 0;
  const double tiles = std::ceil(product.m / kTileRows) * std::ceil(product.n / kTileColumns);
  const auto waves = [&](int available) { return std::ceil(tiles / available); };
  return waves(gpu_.multiprocessors - multiprocessors) / waves(gpu_.multiprocessors) - 1;
}

double OperatorTimes::beside(double bytes) const {
  return bytes / (gpu_.memory_efficiency * gpu_.memory_tbps * kTera);
}

double OperatorTimes::traffic(double bytes) const { return beside(bytes) + kernel_; }

double OperatorTimes::flash_attention(double flops, double heads, double sequence, double head_dim) const {
  double rate = kRooflineAttention * gpu_.bf16_achievable_tflops * kTera;
  if (table_ != nullptr) rate = table_->attention_rate(heads, sequence, head_dim).value_or(rate);
  return flops / std::min(rate, sustained(DataType::bf16)) + kernel_;
}

/// A GPU with FP8 is assumed to be a Hopper or later, for which later kernels were written.
double OperatorTimes::attention_slowdown(AttentionKernel kernel) const {
  if (kernel == AttentionKernel::flash) return 1;
  const double second = gpu_.fp8_tflops > 0 ? kFlash2OnHopper : 1;
  return kernel == AttentionKernel::flash_1 ? kFlash1Time * second : second;
}

double OperatorTimes::unfused_products(double flops) const {
  return flops / (kUnfusedProducts * gpu_.bf16_tflops * kTera);
}

double OperatorTimes::stream(double bytes) const { return bytes / (gpu_.memory_tbps * kTera); }

}  // namespace ppsim::workload
